// The proof of the passes: every pipeline on every model, every conformance case and random graphs,
// each pass on the graphs of its own tests, evaluated before and after in double. Under sanitizers,
// what has more than 20 million multiply-accumulates is evaluated once a pipeline instead.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "compiler/frontends/pt2/pt2.h"
#include "compiler/ir/parser.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/verifier.h"
#include "compiler/ops/ops.h"
#include "compiler/transforms/pass_manager.h"
#include "test/random/random_graph.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kMacsEachPass = 20'000'000;
#else
constexpr int64_t kMacsEachPass = INT64_MAX;
#endif

int64_t macs_of(const Graph& graph) {
  int64_t macs = 0;
  for (const OpId id : graph.ops())
    if (const auto count = graph.op(id).def->macs) macs += count(BoundOpView(graph, id));
  return macs;
}

bool has_quantization(const Graph& graph) {
  for (const OpId id : graph.ops())
    if (graph.op(id).def == &ops::kQuantize || graph.op(id).def == &ops::kDequantize) return true;
  return false;
}

class Proven {
 public:
  // Which passes changed something, over all graphs.
  std::set<std::string_view> seen;

  Result<void> prove(Module& module, const Pipeline& pipeline, uint64_t seed = 1) {
    Graph& graph = module.forward();
    const SemanticsCheck proof =
        macs_of(graph) > kMacsEachPass ? SemanticsCheck::kOnce : SemanticsCheck::kEachPass;
    DTR_ASSIGN(const std::vector<PassRun> runs,
               run_pipeline(module, graph, pipeline,
                            {.verify_each = true, .check_semantics = proof, .seed = seed}));
    for (const PassRun& run : runs)
      if (run.changes != 0) seen.insert(run.pass->name);
    return {};
  }

  // The pipelines that a compilation runs.
  Result<void> prove_all(Module& module, bool quantized, uint64_t seed = 1) {
    if (!quantized) return prove(module, float_pipeline(), seed);
    DTR_TRY(prove(module, quantized_pipeline(), seed));
    return prove(module, int8_io_pipeline(), seed);
  }

  void prove_file(const std::filesystem::path& path) {
    Result<Module> module = pt2::read_pt2(path.string());
    if (!module) return;  // refused with a reason: the business of other tests
    const Result<void> status = prove_all(*module, has_quantization(module->forward()));
    EXPECT_TRUE(status) << path << ": " << to_text(status.error());
    ++files_;
  }
  void prove_folder(const std::filesystem::path& folder) {
    for (const char* name : {"float.pt2", "quantized.pt2", "qat.pt2"})
      if (std::filesystem::exists(folder / name)) prove_file(folder / name);
  }
  int files() const { return files_; }
  std::string passes() const {
    std::string names;
    for (const std::string_view name : seen) names += fmt::format(" {}", name);
    return names;
  }

 private:
  int files_ = 0;
};

std::vector<std::filesystem::path> folders_in(const std::filesystem::path& set) {
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(set))
    if (entry.is_directory()) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

TEST(SemanticsCheck, Models) {
  Proven proven;
  const std::filesystem::path full = test::shared_path("models");
  if (full.empty()) test::not_run("the full set of models in test_proof (no DEUTERON_SHARED)");
  for (const auto& folder : folders_in(full.empty() ? test::source_path("models") : full))
    proven.prove_folder(folder);
  std::printf("%d models:%s\n", proven.files(), proven.passes().c_str());
  EXPECT_GE(proven.files(), 2);
}

TEST(SemanticsCheck, ConformanceCases) {
  Proven proven;
  for (const auto& folder : folders_in(test::conformance_cases("test_proof")))
    proven.prove_folder(folder);
  std::printf("%d models of conformance cases:%s\n", proven.files(), proven.passes().c_str());
  EXPECT_GE(proven.files(), 40);
}

// The graphs of test/lit/passes, whose texts are written for what a pass must and must not match:
// groups, paddings, masks, steps. Each pass alone on every one of them. Every pass changes one: so
// each is proven.
TEST(SemanticsCheck, PassesOnTheirOwnTests) {
  std::set<std::string_view> changed;
  int graphs = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_path("test/lit/passes"))) {
    if (entry.path().extension() != ".ir") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (const PassDef* pass : all_passes()) {
      Result<Module> module = parse_module(text, entry.path().string());
      ASSERT_TRUE(module) << to_text(module.error());
      for (Graph& graph : module->graphs) {
        const auto runs =
            run_passes(*module, graph, std::span(&pass, 1),
                       {.verify_each = true, .check_semantics = SemanticsCheck::kEachPass});
        EXPECT_TRUE(runs) << entry.path() << " @" << graph.name << ", " << pass->name << ": "
                          << to_text(runs.error());
        if (runs && !runs->empty() && runs->front().changes != 0) changed.insert(pass->name);
        ++graphs;
      }
    }
  }
  std::printf("%d runs of a pass\n", graphs);
  for (const PassDef* pass : all_passes())
    EXPECT_TRUE(changed.contains(pass->name)) << pass->name << " changes none of these graphs";
}

// Where a function is not a number, float gives the zero point and a table the value beside it:
// these are not compared.
bool defined_everywhere(const Graph& graph) {
  for (const OpId id : graph.ops())
    for (const OpDef* partial :
         {&ops::kLog, &ops::kSqrt, &ops::kRsqrt, &ops::kPowTensorScalar, &ops::kPowTensorTensor,
          &ops::kAcos, &ops::kAcosh, &ops::kAsin, &ops::kAtanh, &ops::kFmodTensor,
          &ops::kRemainderTensor, &ops::kDivTensorMode})
      if (graph.op(id).def == partial) return false;
  return true;
}

TEST(SemanticsCheck, RandomQuantizedGraphs) {
  Proven proven;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Module module =
        test::RandomGraph(seed, {.floats = seed % 2 == 0}).make(static_cast<int>(1 + seed % 20));
    if (seed % 2 == 0 && !defined_everywhere(module.forward())) continue;
    const std::string text = print(module, {.elide_constants = true});
    const Result<void> status = proven.prove_all(module, true, seed);
    EXPECT_TRUE(status) << "seed " << seed << ": " << to_text(status.error()) << "\n" << text;
  }
}

// A quantized graph as the float graph that it stands for.
class FloatForm {
 public:
  explicit FloatForm(const Module& module) : from_(module), rewriter_(graph()) {}

  // Nothing if an operator has no float form.
  std::optional<Module> make() {
    const Graph& graph = from_.forward();
    for (const ValueId input : graph.inputs())
      values_[input] = rewriter_.add_input(float_type(graph.type(input)), graph.value(input).name);
    for (const OpId id : graph.ops())
      if (!copy(graph, graph.op(id))) return std::nullopt;
    std::vector<ValueId> outputs;
    for (const ValueId output : graph.outputs()) outputs.push_back(values_.at(output));
    rewriter_.set_outputs(std::move(outputs));
    return std::move(to_);
  }

 private:
  Graph& graph() {
    to_.graphs.emplace_back();
    return to_.forward();
  }
  static Type float_type(const Type& type) {
    Type real{.dtype = type.quantized() ? DType::kFloat32 : type.dtype, .shape = type.shape};
    real.layout = type.layout;
    return real;
  }
  ValueId value_of(const Graph& graph, ValueId id) {
    const auto at = values_.find(id);
    if (at != values_.end()) return at->second;
    const Type& type = graph.type(id);
    const auto bytes = from_.constants.bytes(graph.value(id).constant);
    if (!type.quantized())
      return rewriter_.add_constant(float_type(type), to_.constants.add(type.dtype, bytes),
                                    graph.value(id).name);
    const Tensor codes = Tensor::copy_of(type.dtype, type.shape, bytes);
    std::vector<float> reals;
    for (int64_t i = 0; i < type.elements(); ++i) {
      const auto at_index = static_cast<size_t>(i);
      const int code = type.dtype == DType::kInt32 ? codes.values<int32_t>()[at_index]
                                                   : codes.values<int8_t>()[at_index];
      const Quantization& q = *type.quantization;
      reals.push_back(q.scales[0] * static_cast<float>(code - q.zero_points[0]));
    }
    return rewriter_.add_constant(float_type(type),
                                  to_.constants.add_values<float>(DType::kFloat32, reals),
                                  graph.value(id).name);
  }
  bool copy(const Graph& graph, const Op& op) {
    std::vector<ValueId> operands;
    for (const ValueId operand : op.operands)
      operands.push_back(operand.valid() ? value_of(graph, operand) : ValueId{});
    const bool converts =
        op.def == &ops::kQuantize || op.def == &ops::kDequantize || op.def == &ops::kRequantize;
    if (converts) {
      values_[op.results[0]] = operands[0];
      return true;
    }
    const auto made = rewriter_.insert(
        {}, {.def = op.def, .operands = std::move(operands), .attributes = op.attributes});
    if (!made) return false;
    for (size_t i = 0; i < op.results.size(); ++i) {
      values_[op.results[i]] = to_.forward().op(*made).results[i];
      rewriter_.set_layout(values_[op.results[i]], graph.type(op.results[i]).layout);
    }
    return true;
  }

  const Module& from_;
  Module to_;
  Rewriter rewriter_;
  std::map<ValueId, ValueId> values_;
};

TEST(SemanticsCheck, RandomFloatGraphs) {
  Proven proven;
  int graphs = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    const Module quantized = test::RandomGraph(seed).make(static_cast<int>(1 + seed % 20));
    std::optional<Module> module = FloatForm(quantized).make();
    if (!module || !verify(*module)) continue;
    ++graphs;
    const std::string text = print(*module, {.elide_constants = true});
    const Result<void> status = proven.prove_all(*module, false, seed);
    EXPECT_TRUE(status) << "seed " << seed << ": " << to_text(status.error()) << "\n" << text;
  }
  std::printf("%d random float graphs:%s\n", graphs, proven.passes().c_str());
  EXPECT_GE(graphs, 300);
}

// Random chains of what the float passes look for, with details drawn; all values are f32[2,4,6].
class Patterns {
 public:
  explicit Patterns(uint64_t seed) : dice_(seed) {}

  std::string make(int blocks) {
    for (int i = 0; i < blocks; ++i) {
      switch (dice_.below(8)) {
        case 0:
          gate();
          break;
        case 1:
          gelu();
          break;
        case 2:
          norm();
          break;
        case 3:
          scaled_layer();
          break;
        case 4:
          parts();
          break;
        case 5:
          permuted_layer();
          break;
        case 6:
          branches();
          break;
        default:
          steps();
      }
    }
    return "graph @forward(%v0: f32[2,4,6]) {\n" + text_ + "  return %" + last_ + "\n}\n";
  }

 private:
  std::string add(const std::string& shape, const std::string& op) {
    std::string name = fmt::format("v{}", ++count_);
    text_ += fmt::format("  %{}: f32[{}] = {}\n", name, shape, op);
    return name;
  }
  std::string value(const std::string& op) { return add("2,4,6", op); }
  std::string constant(const std::string& shape) {
    return add(shape, fmt::format("constant seeded<{}>", dice_.below(1000)));
  }
  std::string number(double x) { return add("", fmt::format("constant dense<{}>", x)); }
  std::string pair(const char* op, const std::string& a, const std::string& b) {
    return dice_.coin() ? value(fmt::format("aten.{}(%{}, %{})", op, a, b))
                        : value(fmt::format("aten.{}(%{}, %{})", op, b, a));
  }
  std::string linear(const std::string& x) {
    return value(fmt::format("aten.linear(%{}, %{})", x, constant("6,6")));
  }

  void gate() {
    const std::string x = last_;
    last_ = pair("mul.Tensor", x, value(fmt::format("aten.sigmoid(%{})", x)));
  }
  void gelu() {
    const std::string x = last_;
    const std::string erf = value(fmt::format(
        "aten.erf(%{})", value(fmt::format("aten.div.Tensor(%{}, %{})", x, number(1.4142135)))));
    const std::string bell = pair("add.Tensor", erf, number(1));
    last_ = dice_.coin() ? pair("mul.Tensor", pair("mul.Tensor", x, number(0.5)), bell)
                         : value(fmt::format("aten.div.Tensor(%{}, %{})",
                                             pair("mul.Tensor", x, bell), number(2)));
  }
  void norm() {
    const auto mean = [&](const std::string& x) {
      return add("2,4,1", fmt::format("aten.mean.dim(%{}) {{dim = [2], keepdim = true}}", x));
    };
    const std::string x =
        dice_.coin() ? value(fmt::format("aten.sub.Tensor(%{}, %{})", last_, mean(last_))) : last_;
    const std::string square = pair("mul.Tensor", x, x);
    const std::string sum =
        add("2,4,1", fmt::format("aten.add.Tensor(%{}, %{})", mean(square), number(0.125)));
    last_ = pair("mul.Tensor", x, add("2,4,1", fmt::format("aten.rsqrt(%{})", sum)));
    if (dice_.coin()) last_ = pair("mul.Tensor", last_, constant("6"));
    if (dice_.coin()) last_ = pair("add.Tensor", last_, constant("6"));
  }
  void scale() {
    constexpr const char* kShapes[] = {"6", "4,1", "1,1,6", "1"};
    constexpr const char* kOps[] = {"mul.Tensor", "add.Tensor", "sub.Tensor"};
    last_ = pair(kOps[dice_.below(3)], last_, constant(kShapes[dice_.below(4)]));
  }
  void scaled_layer() {
    if (dice_.coin()) scale();
    last_ = linear(last_);
    for (int64_t i = dice_.below(3); i > 0; --i) scale();
  }
  void parts() {
    const int64_t cut = 1 + dice_.below(5);
    const auto slice = [&](int64_t start, int64_t end) {
      return add(fmt::format("2,4,{}", end - start),
                 fmt::format("aten.slice.Tensor(%{}) {{dim = 2, end = {}, start = {}, step = 1}}",
                             last_, end, start));
    };
    const std::string a = slice(0, cut), b = slice(cut, 6);
    last_ = dice_.coin() ? value(fmt::format("aten.cat(%{}, %{}) {{dim = 2}}", a, b))
                         : value(fmt::format("aten.cat(%{}, %{}) {{dim = 2}}", b, a));
  }
  void permuted_layer() {
    const std::string permuted =
        add("2,6,4", fmt::format("aten.permute(%{}) {{dims = [0, 2, 1]}}", last_));
    const std::string flat =
        add("2,24", fmt::format("aten.view(%{}) {{size = [2, 24]}}", permuted));
    const std::string layer =
        add("2,24", fmt::format("aten.linear(%{}, %{})", flat, constant("24,24")));
    last_ = value(fmt::format("aten.view(%{}) {{size = [2, 4, 6]}}", layer));
  }
  void branches() {
    const std::string joint =
        add("2,4,12", fmt::format("aten.cat(%{}, %{}) {{dim = 2}}", linear(last_), linear(last_)));
    const std::string active =
        add("2,4,12", fmt::format("aten.{}(%{})", dice_.coin() ? "relu" : "tanh", joint));
    last_ = value(fmt::format("aten.slice.Tensor(%{}) {{dim = 2, end = {}, start = {}, step = 1}}",
                              active, 6 + 3, 3));
  }
  void steps() {
    const std::string image =
        add("2,4,6,1", fmt::format("aten.view(%{}) {{size = [2, 4, 6, 1]}}", last_));
    const std::string rows = add(
        "2,4,3,1", fmt::format("aten.slice.Tensor(%{}) {{dim = 2, end = 6, start = {}, step = 2}}",
                               image, dice_.below(2)));
    const std::string layer =
        add("2,8,3,1", fmt::format("aten.convolution(%{}, %{}, _) {{dilation = [1, 1], groups = 1, "
                                   "output_padding = [0, 0], padding = [0, 0], "
                                   "stride = [1, 1], transposed = false}}",
                                   rows, constant("8,4,1,1")));
    last_ = value(fmt::format("aten.view(%{}) {{size = [2, 4, 6]}}", layer));
  }

  test::Dice dice_;
  std::string text_, last_ = "v0";
  int count_ = 0;
};

TEST(SemanticsCheck, RandomPatterns) {
  Proven proven;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const std::string text = Patterns(seed).make(static_cast<int>(1 + seed % 6));
    Result<Module> module = parse_module(text);
    ASSERT_TRUE(module) << to_text(module.error()) << text;
    const Result<void> status = proven.prove_all(*module, false, seed);
    EXPECT_TRUE(status) << "seed " << seed << ": " << to_text(status.error()) << "\n" << text;
  }
  // What models and conformance cases do not contain.
  for (const char* name :
       {"fold_scale_and_bias", "fold_strides", "permute_weights", "recognize_activations",
        "recognize_normalizations", "simplify_slices", "split_joint_activations"})
    EXPECT_TRUE(proven.seen.contains(name)) << name;
}

}  // namespace
}  // namespace dtr
