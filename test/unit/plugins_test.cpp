// Plug-ins: what is refused and how, and what a kernel gets to see.
#include "compiler/plugins/plugins.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "compiler/executors/executor.h"
#include "compiler/ops/custom.h"
#include "compiler/support/temporary_folder.h"
#include "device/runtime/environment.h"
#include "device/runtime/plugin_kernel.h"
#include "test/unit/parse.h"
#include "test/unit/plan_builder.h"

namespace dtr {
namespace {

using runtime::Error;

std::string text_of(const Result<void>& result) {
  return result ? "loaded" : to_text(result.error());
}

class PluginFiles : public testing::Test {
 protected:
  // The path of a C source that is in the folder of the test.
  std::string write(const std::string& name, std::string_view text) {
    std::string path = folder_->path() + "/" + name;
    std::ofstream(path) << "#include \"device/runtime/deuteron_kernel.h\"\n" << text;
    return path;
  }
  // What is said of a source, without its folder.
  std::string says(const std::string& name, std::string_view text) {
    std::string said = text_of(load_plugin(write(name, text)));
    const size_t at = said.find(folder_->path() + "/");
    if (at != std::string::npos) said.erase(at, folder_->path().size() + 1);
    return said;
  }

  Result<TemporaryFolder> folder_ = TemporaryFolder::create();
};

std::string source_with(std::string_view rows, std::string_view abi = "DTR_PLUGIN_ABI") {
  return fmt::format(
      "static int32_t f(const dtr_kernel_call* c) {{ (void)c; return 0; }}\n"
      "static const dtr_kernel k[] = {{{}}};\n"
      "static const dtr_plugin p = {{{}, sizeof k / sizeof *k, k}};\n"
      "const dtr_plugin* DTR_PLUGIN_ENTRY(void) {{ (void)f; return &p; }}\n",
      rows, abi);
}

TEST_F(PluginFiles, EveryRuleHasItsMessage) {
  EXPECT_EQ(says("version.c", source_with("{\"a::v\", f}", "7")),
            "error[plugin-invalid]: version.c: it was built for version 7 of deuteron_kernel.h, "
            "this is version 1\n  fix: compile it again with the header of this Deuteron");
  EXPECT_EQ(says("twice.c", source_with("{\"a::t\", f}, {\"a::t\", f}")),
            "error[plugin-invalid]: twice.c: it has the kernel `a::t` twice\n  fix: give each "
            "operator one kernel");
  EXPECT_EQ(says("nameless.c", source_with("{\"a::n\", f}, {\"\", f}")),
            "error[plugin-invalid]: nameless.c: its kernel 1 has no name or no function\n  fix: "
            "give each dtr_kernel both");
  EXPECT_EQ(says("null.c", source_with("{\"a::n\", 0}")),
            "error[plugin-invalid]: null.c: its kernel 0 has no name or no function\n  fix: give "
            "each dtr_kernel both");
  EXPECT_EQ(says("nothing.c", "const dtr_plugin* DTR_PLUGIN_ENTRY(void) { return 0; }"),
            "error[plugin-invalid]: nothing.c: dtr_plugin_entry returns no table of kernels\n  "
            "fix: return the address of a dtr_plugin");
  EXPECT_EQ(says("entry.c", "int other(void) { return 0; }"),
            "error[plugin-invalid]: entry.c: it has no function `dtr_plugin_entry`\n  fix: export "
            "it as device/runtime/deuteron_kernel.h declares it");
  const std::string broken = says("broken.c", "int f( {");
  EXPECT_TRUE(
      broken.starts_with("error[plugin-invalid]: broken.c: `cc -std=c99` cannot compile it:\n"))
      << broken;
  const std::string no_library = says("text.so", "int f(void);");
  EXPECT_TRUE(no_library.starts_with("error[plugin-invalid]: text.so: it cannot be loaded: "))
      << no_library;
  EXPECT_TRUE(no_library.ends_with(
      "\n  fix: give a shared library for this machine, or its C source (.c)"));
  EXPECT_TRUE(text_of(load_plugin("/no/such/plugin.c")).starts_with("error[file-not-found]"));
  for (const char* const name : {"a::v", "a::t", "a::n"})
    EXPECT_EQ(find_plugin_kernel(name), nullptr) << name;  // nothing of a refused table stays
}

TEST_F(PluginFiles, ANameHasOneKernelInAllPlugins) {
  EXPECT_EQ(says("first.c", source_with("{\"once::op\", f}")), "loaded");
  EXPECT_EQ(says("first.c", source_with("{\"once::op\", f}")), "loaded");  // unchanged
  const std::string second =
      says("second.c", source_with("{\"once::other\", f}, {\"once::op\", f}"));
  EXPECT_TRUE(second.starts_with(
      "error[plugin-invalid]: second.c: it has the kernel `once::op`, which is in "))
      << second;
  EXPECT_EQ(find_plugin_kernel("once::other"), nullptr);
  ASSERT_NE(find_plugin_file("once::op"), nullptr);
  EXPECT_NE(find_plugin_file("once::op")->source.find("once::op"), std::string::npos);
}

// A source that was edited is compiled again, at the path that it had.
TEST_F(PluginFiles, AChangedSourceIsLoadedAgain) {
  EXPECT_EQ(says("edited.c", source_with("{\"edited::one\", f}")), "loaded");
  EXPECT_EQ(find_plugin_kernel("edited::two"), nullptr);
  EXPECT_EQ(says("edited.c", source_with("{\"edited::two\", f}")), "loaded");
  EXPECT_NE(find_plugin_kernel("edited::two"), nullptr);
}

// ---- kernels of this process

struct Seen {
  std::vector<dtr_kernel_tensor> operands, results;
  std::vector<std::vector<int32_t>> sizes;
  std::string options;
  int32_t code = 0;
} seen;

int32_t look(const dtr_kernel_call* call) {
  const std::span operands(call->operands, call->operand_count);
  const std::span results(call->results, call->result_count);
  seen.operands.assign(operands.begin(), operands.end());
  seen.results.assign(results.begin(), results.end());
  seen.sizes.clear();
  for (const auto& tensor : operands)
    seen.sizes.emplace_back(tensor.sizes, tensor.sizes + tensor.rank);
  seen.options.assign(static_cast<const char*>(call->options), call->option_bytes);
  if (seen.code != 0) return seen.code;
  for (const auto& tensor : results)
    for (size_t i = 0; i < tensor.elements; ++i) {
      if (tensor.dtype == DTR_FLOAT32) static_cast<float*>(tensor.data)[i] = 0.1F;
      if (tensor.dtype == DTR_INT32) static_cast<int32_t*>(tensor.data)[i] = 7;
    }
  return 0;
}
const dtr_kernel kKernels[] = {{"test::look", look}};
const dtr_plugin kPlugin{DTR_PLUGIN_ABI, 1, kKernels};

void add_look() {
  static const bool added = bool{add_plugin(&kPlugin, "plugins_test")};
  ASSERT_TRUE(added);
}

Module graph_of(std::string_view kernel, std::string_view results = "f32 2x2, i32 scalar") {
  return test::parse(
      fmt::format("graph @forward(%x: f32[2,3], %n: i32[4]) {{\n"
                  "  %y: f32[2,2], %z: i32[] = deuteron.custom(%x, %n) {{kernel = \"{}\", options "
                  "= \"a\\x00b\", "
                  "results = \"{}\"}}\n"
                  "  return %y, %z\n}}\n",
                  kernel, results));
}

Result<std::vector<Tensor>> run(const Module& module, Precision precision) {
  const Tensor x(DType::kFloat32, {2, 3}), n(DType::kInt32, {4});
  const std::vector<TensorView> inputs{const_cast<Tensor&>(x).view(),
                                       const_cast<Tensor&>(n).view()};
  return make_reference_executor(module, module.forward(), precision)->run(inputs);
}

TEST(PluginKernels, TheReferenceCallsThemInFloat32) {
  add_look();
  seen = {};
  const Module module = graph_of("test::look");
  for (const Precision precision : {Precision::kFloat, Precision::kDouble}) {
    const auto made = run(module, precision);
    ASSERT_TRUE(made) << to_text(made.error());
    const bool twice = precision == Precision::kDouble;
    EXPECT_EQ(twice ? (*made)[0].view().values<double>()[3]
                    : double{(*made)[0].view().values<float>()[3]},
              double{0.1F});
    EXPECT_EQ((*made)[1].view().values<int32_t>()[0], 7);
    EXPECT_EQ(seen.operands[0].dtype, uint32_t{DTR_FLOAT32});
    EXPECT_EQ(seen.operands[1].dtype, uint32_t{DTR_INT32});
    EXPECT_EQ(seen.sizes, (std::vector<std::vector<int32_t>>{{2, 3}, {4}}));
    EXPECT_EQ(seen.results[1].rank, 0U);
    EXPECT_EQ(seen.results[1].elements, 1U);
    EXPECT_EQ(seen.options, std::string("a\0b", 3));
  }
}

TEST(PluginKernels, TheReferenceTellsFailures) {
  add_look();
  seen = {.code = -5};
  const auto failed = run(graph_of("test::look"), Precision::kFloat);
  seen = {};
  ASSERT_FALSE(failed);
  EXPECT_NE(
      to_text(failed.error())
          .find("error[plugin-kernel-failed]: test.ir: `y`: the plug-in's kernel `test::look` "
                "failed with code -5\n  fix: look the code up"),
      std::string::npos)
      << to_text(failed.error());
  const auto missing = run(graph_of("test::nobody"), Precision::kFloat);
  ASSERT_FALSE(missing);
  EXPECT_NE(to_text(missing.error())
                .find("no plug-in has the kernel `test::nobody`\n  fix: Give a "
                      "plug-in that has the kernel `test::nobody`: --plugin"),
            std::string::npos)
      << to_text(missing.error());
  EXPECT_TRUE(run(graph_of("test::look"), Precision::kFloat));  // the failure is told once
}

TEST(PluginKernels, MalformedOpsAreRefused) {
  const auto said = [](std::string_view text) {
    const auto module = parse_module(text, "test.ir");
    return module ? std::string("accepted") : module.error().reason;
  };
  const auto of = [&](std::string_view results, std::string_view kernel = "k",
                      std::string_view type = "f32[2]") {
    return said(
        fmt::format("graph @forward(%x: {}) {{\n  %y: f32[2] = deuteron.custom(%x) {{kernel = "
                    "\"{}\", options = \"\", results = \"{}\"}}\n  return %y\n}}\n",
                    type, kernel, results));
  };
  EXPECT_EQ(of("f32 2"), "accepted");
  for (const char* const results :
       {"", "f32", "f32 ", "f32 2x", "f32 -1", "q32 1", "f32 2, ", "f32 99999999999999999999"})
    EXPECT_NE(of(results).find("`results` is not of the form"), std::string::npos) << results;
  EXPECT_NE(of("f64 2").find("a result is f64"), std::string::npos);
  EXPECT_NE(of("f32 2", "").find("`kernel` is empty"), std::string::npos);
  EXPECT_NE(of("f32 2", "k", "f64[2]").find("operand 0 is quantized or f64"), std::string::npos);
}

// ---- programs

// A program of one call of test::look on x, whose arguments the test writes.
struct OneCall {
  MethodPlan plan;
  TensorRef x, y;
  KernelCallPlan call{.kernel = "test::look"};

  explicit OneCall(Layout layout = Layout::kContiguous, Shape shape = {1, 2, 3, 2}) {
    plan.target = "none";
    const Type type{.dtype = DType::kFloat32, .shape = std::move(shape), .layout = layout};
    x = plan.add_tensor({"x", type});
    y = plan.add_tensor({"y", type});
    plan.inputs = {x}, plan.outputs = {y};
    call.arguments = {TensorRefs{x}, std::string("o\0p", 3)};
    call.outputs = {y};
  }

  runtime::Status run(bool with_plugin = true) {
    plan.calls = {call};
    EXPECT_TRUE(plan_memory(plan));
    auto written = serialize_program(plan);
    EXPECT_TRUE(written);
    bytes_.emplace(written->bytes);
    runtime::LoadOptions options = dtr_host_environment()->options;
    if (with_plugin) options.plugins = {plugins_, runtime::run_plugin_kernel};
    runtime::Status status = runtime::Program::load(bytes_->bytes(), options, &program_);
    if (!status.ok()) return status;
    status = method_.prepare(program_);
    EXPECT_TRUE(status.ok());
    const runtime::Tensor& tensor = *method_->input_tensor(0);
    const std::vector<std::byte> zeros(tensor.bytes());
    EXPECT_TRUE(method_->set_input(0, test::input_like(tensor, zeros)).ok());
    return method_->run();
  }

 private:
  const dtr_plugin* plugins_[1] = {&kPlugin};
  std::optional<test::AlignedCopy> bytes_;
  runtime::Program program_;
  test::PreparedMethod method_;
};

TEST(PluginPrograms, RunTheKernel) {
  seen = {};
  OneCall one;
  EXPECT_TRUE(one.run().ok());
  EXPECT_EQ(seen.options, std::string("o\0p", 3));
  EXPECT_EQ(seen.sizes, (std::vector<std::vector<int32_t>>{{1, 2, 3, 2}}));
  EXPECT_EQ(seen.results.size(), 1U);
}

// One channel lies alike in both layouts, and the compiler converts no tensor of one.
TEST(PluginPrograms, LayoutsOfTheSameBytesAreContiguous) {
  seen = {};
  EXPECT_TRUE(OneCall(Layout::kChannelsLast, {2, 1, 3, 2}).run().ok());
  EXPECT_EQ(seen.sizes, (std::vector<std::vector<int32_t>>{{2, 1, 3, 2}}));
}

TEST(PluginPrograms, TellMissingKernelsAndFailures) {
  EXPECT_EQ(OneCall().run(false).error, Error::kMissingKernel);
  seen = {.code = 42};
  const runtime::Status status = OneCall().run();
  seen = {};
  EXPECT_EQ(status.error, Error::kKernelFailed);
  EXPECT_EQ(status.detail, 42U);
  EXPECT_EQ(status.index, 0U);
}

// A kernel must not see what its interface does not allow, whatever a program says.
TEST(PluginPrograms, HostileCallsAreRefused) {
  seen = {};
  const auto run = [](const std::function<void(OneCall&)>& change,
                      Layout layout = Layout::kContiguous) {
    OneCall one(layout);
    change(one);
    seen.operands.clear();
    const Error error = one.run().error;
    EXPECT_TRUE(seen.operands.empty());  // the kernel was not called
    return error;
  };
  EXPECT_EQ(run([](OneCall& o) { o.call.arguments.clear(); }), Error::kKernelArguments);
  EXPECT_EQ(run([](OneCall& o) {
              o.call.arguments = {TensorRefs{o.x}, int64_t{1}};
            }),
            Error::kKernelArguments);
  EXPECT_EQ(run([](OneCall& o) {
              o.call.arguments = {o.x, std::string()};
            }),
            Error::kKernelArguments);
  EXPECT_EQ(run([](OneCall& o) {
              o.call.arguments[0] = TensorRefs{o.x, std::nullopt};
            }),
            Error::kKernelArguments);
  EXPECT_EQ(run([](OneCall& o) { o.call.arguments[0] = TensorRefs(DTR_KERNEL_TENSORS + 1, o.x); }),
            Error::kKernelArguments);
  EXPECT_EQ(run([](OneCall& o) { o.call.outputs.assign(DTR_KERNEL_TENSORS + 1, o.y); }),
            Error::kKernelArguments);
  EXPECT_EQ(run([](OneCall&) {}, Layout::kChannelsLast), Error::kKernelArguments);
  // A constant as a result: it is in flash.
  static const std::vector<float> values(12);
  EXPECT_EQ(run([](OneCall& o) {
              const TensorRef constant =
                  o.plan.add_tensor({"c", {.dtype = DType::kFloat32, .shape = {1, 2, 3, 2}}});
              o.plan.tensors[constant.index].constant = std::as_bytes(std::span(values));
              o.call.outputs = {constant};
            }),
            Error::kKernelArguments);
}

TEST(PluginPrograms, TheCInterfaceTakesPlugins) {
  OneCall one;
  one.plan.calls = {one.call};
  ASSERT_TRUE(plan_memory(one.plan));
  const auto written = serialize_program(one.plan);
  ASSERT_TRUE(written);
  const test::AlignedCopy bytes(written->bytes);
  dtr_model model;
  const dtr_plugin* const plugins[] = {&kPlugin};
  const auto load = [&](const dtr_plugin* const* table, uint32_t count) {
    return dtr_load_with_plugins(&model, bytes.bytes().data(), bytes.bytes().size(),
                                 dtr_host_environment(), table, count);
  };
  EXPECT_EQ(load(plugins, 1).error, DTR_OK);
  EXPECT_EQ(load(plugins, 0).error, DTR_MISSING_KERNEL);
  EXPECT_EQ(load(nullptr, 1).error, DTR_NULL);
  dtr_release(&model);
}

TEST(PluginOptions, AreJson) {
  const std::vector<ops::CustomOption> options = {{"a", 0.5},
                                                  {"i", int64_t{-3}},
                                                  {"b", true},
                                                  {"s", std::string("x\"y")},
                                                  {"l", Ints{1, 2}},
                                                  {"f", Floats{0.25, -INFINITY}},
                                                  {"none", std::nullopt},
                                                  {"n", NAN}};
  EXPECT_EQ(ops::options_text(options),
            R"({"a": 0.5, "i": -3, "b": true, "s": "x\"y", "l": [1, 2], "f": [0.25, -Infinity], )"
            R"("none": null, "n": NaN})");
  EXPECT_EQ(ops::options_text({}), "{}");
}

}  // namespace
}  // namespace dtr
