// What the settings of compile_model do: each step that a setting, or its default, decides.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/ir/constant_pool.h"
#include "compiler/ops/ops.h"
#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/placement_report.h"
#include "device/pte/manifest.h"
#include "host/session/session.h"
#include "test/unit/parse.h"
#include "test/unit/test_files.h"

namespace dtr {
namespace {

using test::parse;

constexpr std::string_view kConvolution = R"(graph @forward(%x: f32[1,3,7,6]) {
  %q: i8[1,3,7,6] quant<0.02:-3> = quantize(%x)
  %w: i8[16,3,3,3] quant<range=-127..127, 0.01> = constant seeded<1>
  %a: i8[1,16,7,6] quant<0.05:4> = aten.convolution(%q, %w) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [1, 1], stride = [1, 1], transposed = false}
  %y: f32[1,16,7,6] = dequantize(%a)
  return %y
}
)";

Compilation compiled(std::string_view text, const CompileSettings& settings) {
  Result<Compilation> made = compile_model(parse(text), settings);
  EXPECT_TRUE(made) << (made ? "" : to_text(made.error()));
  return made ? std::move(*made) : Compilation{};
}

std::unique_ptr<Session> loaded(const Compilation& compilation) {
  auto session = Session::load(compilation.pte(), "test.pte");
  EXPECT_TRUE(session) << (session ? "" : to_text(session.error()));
  return session ? std::move(*session) : nullptr;
}

// 2^20 elements of at most 0.5, and one of 1. Clipped to c the outlier costs 3 (1 - c)^2, the steps
// of the others 2^20 (c / 255)^2 / 12: least at c = 0.69.
TEST(Pipeline, RangesClipOutliersUnlessMinMaxIsAskedFor) {
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", Tensor(DType::kFloat32, {4, 1 << 18})});
  const auto values = arrays[0].tensor.values<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1001) / 2000;
  values[77] = 1;
  const auto scale = [&](auto... observer) {
    Module module = parse(
        "graph @forward(%x: f32[1,262144]) {\n  %y: f32[1,262144] = aten.relu(%x)\n  return "
        "%y\n}\n");
    const auto samples = Samples::bind(module.forward(), arrays, "x.npz");
    EXPECT_TRUE(samples);
    CompileSettings settings{.target = find_target("imxrt700"), .samples = &*samples};
    ((settings.observer = observer), ...);
    const auto quantized = quantize_model(std::move(module), settings);
    EXPECT_TRUE(quantized) << (quantized ? "" : to_text(quantized.error()));
    const Graph& graph = quantized->quantized;
    for (const OpId op : graph.ops())
      if (graph.op(op).def == &ops::kQuantize)
        return graph.type(graph.op(op).results[0]).quantization->scale();
    return 0.0F;
  };
  EXPECT_FLOAT_EQ(scale(QuantSpec::Observer::kMinMax), 1.0F / 255);
  EXPECT_NEAR(scale(QuantSpec::Observer::kHistogram), 0.69F / 255, 0.05F / 255);
  EXPECT_EQ(scale(), scale(QuantSpec::Observer::kHistogram));
}

// 64 elements from 0 to 6, of which the 16 largest are 1 above their least in the mean. Samples may
// have larger ones, a constant has not.
TEST(Pipeline, OnlySamplesHaveATail) {
  std::string constant;
  std::vector<NamedTensor> arrays;
  arrays.push_back({"x", Tensor(DType::kFloat32, {1, 1, 64})});
  const auto values = arrays[0].tensor.values<float>();
  for (int i = 0; i < 64; ++i) {
    values[static_cast<size_t>(i)] =
        i < 48 ? static_cast<float>(i) / 12.0F : 4 + static_cast<float>(i - 48) * (2.0F / 15);
    constant += fmt::format("{}{}", i == 0 ? "" : ", ", values[static_cast<size_t>(i)]);
  }
  const auto scales = [&](QuantSpec::Observer observer) {
    Module module = parse(fmt::format(
        "graph @forward(%x: f32[1,64]) {{\n  %c: f32[64] = constant dense<{}>\n  %y: f32[1,64] = "
        "aten.add.Tensor(%x, %c)\n  return %y\n}}\n",
        constant));
    const auto samples = Samples::bind(module.forward(), arrays, "x.npz");
    EXPECT_TRUE(samples);
    const auto quantized = quantize_model(
        std::move(module),
        {.target = find_target("imxrt700"), .samples = &*samples, .observer = observer});
    EXPECT_TRUE(quantized) << (quantized ? "" : to_text(quantized.error()));
    const Graph& graph = quantized->quantized;
    std::pair<float, float> found;  // of the input, of the constant
    for (const OpId id : graph.ops()) {
      if (graph.op(id).def != &ops::kAddTensor) continue;
      found.first = graph.type(graph.op(id).operands[0]).quantization->scale();
      found.second = graph.type(graph.op(id).operands[1]).quantization->scale();
    }
    return found;
  };
  const auto [input, known] = scales(QuantSpec::Observer::kHistogram);
  const auto [roomy, same] = scales(QuantSpec::Observer::kTail);
  EXPECT_GT(roomy, 1.3F * input);
  EXPECT_GT(same, 0);
  EXPECT_EQ(same, known);
}

// A weight that is computed: of the step on the way, which is as large, nothing is left.
TEST(Pipeline, ReleasesConstantsThatOnlyLedToOthers) {
  auto quantized =
      quantize_model(parse(R"(graph @forward(%x: f32[1,16]) {
  %w: f32[8,16] = constant seeded<1>
  %gain: f32[8,1] = constant seeded<2>
  %scaled: f32[8,16] = aten.mul.Tensor(%w, %gain)
  %shifted: f32[8,16] = aten.add.Tensor(%scaled, %gain)
  %y: f32[1,8] = aten.linear(%x, %shifted, _)
  return %y
}
)"),
                     {.target = find_target("imxrt700"), .samples = NoiseSamples{.count = 1}});
  ASSERT_TRUE(quantized) << to_text(quantized.error());
  ConstantPool& pool = quantized->module.constants;
  std::vector<bool> used(pool.size());
  for (const Graph* graph : {&quantized->as_read, &quantized->conversion->float_graph,
                             &quantized->quantized, &quantized->module.forward()})
    graph->mark_constants(used);
  EXPECT_GT(std::ranges::count(used, false), 0);
  const size_t kept = pool.owned_bytes();
  pool.release_unused(used);
  EXPECT_EQ(pool.owned_bytes(), kept);
}

TEST(Pipeline, NoiseHasAsManySamplesAsAreAskedFor) {
  for (const uint32_t count : {1U, 3U}) {
    const auto quantized = quantize_model(
        parse(kConvolution),
        {.target = find_target("imxrt700"), .samples = NoiseSamples{.count = count}});
    ASSERT_TRUE(quantized) << to_text(quantized.error());
    ASSERT_NE(quantized->samples(), nullptr);
    EXPECT_EQ(quantized->samples()->size(), count);
  }
}

TEST(Pipeline, ProgramsTakeFloatUnlessInt8IsAskedFor) {
  const auto dtypes = [](const CompileSettings& settings) {
    const auto session = loaded(compiled(kConvolution, settings));
    const Graph& signature = session->signature();
    const Samples samples = Samples::random(signature, 1);
    const auto outputs = session->run(samples.inputs(0));
    EXPECT_TRUE(outputs) << (outputs ? "" : to_text(outputs.error()));
    return std::pair(signature.type(signature.inputs()[0]).dtype, outputs->front().dtype());
  };
  const TargetDescription* target = find_target("imxrt700");
  EXPECT_EQ(dtypes({.target = target}), std::pair(DType::kFloat32, DType::kFloat32));
  EXPECT_EQ(dtypes({.target = target, .io = Io::kInt8}), std::pair(DType::kInt8, DType::kInt8));
}

TEST(Pipeline, ManifestNamesMachineOptionsAndModel) {
  const auto manifest = [](const CompileSettings& settings) {
    const Result<Compilation> made =
        compile_model(ModelBytes{std::as_bytes(std::span(kConvolution)), "model.ir"}, settings);
    EXPECT_TRUE(made) << (made ? "" : to_text(made.error()));
    return *loaded(*made)->pte_file().file().manifest();
  };
  const TargetDescription* machine = find_target("imxrt700");
  const pte::Manifest own = manifest({.target = machine});
  EXPECT_EQ(std::string_view(own.target), "imxrt700");
  EXPECT_EQ(own.target_hash, npu::format_hash(machine->npu));
  EXPECT_EQ(own.source_hash, content_hash(std::as_bytes(std::span(kConvolution))));
  EXPECT_EQ(own.flags, 0U);
  EXPECT_EQ(manifest({.target = machine, .backend = {.schedule = NeutronSchedule::kNxpLike}}).flags,
            pte::kNxpLikeSchedule);
  EXPECT_EQ(manifest({.target = machine, .backend = {.constants = ConstantMemory::kSram}}).flags,
            pte::kConstantsInSram);
  const pte::Manifest cpu = manifest({.target = find_target("cortex-m33")});
  EXPECT_EQ(std::string_view(cpu.target), "cortex-m33");
  EXPECT_EQ(cpu.target_hash, 0U);
}

TEST(Pipeline, DebugMapIsThereUnlessItIsLeftOut) {
  const TargetDescription* target = find_target("imxrt700");
  EXPECT_NE(loaded(compiled(kConvolution, {.target = target}))->pte_file().debug_map(), nullptr);
  EXPECT_EQ(loaded(compiled(kConvolution, {.target = target, .debug_map = false}))
                ->pte_file()
                .debug_map(),
            nullptr);
}

// What is kept off the NPU loses what it costs on the CPU beyond the least that the NPU would need.
TEST(Pipeline, RefusalsLoseTheDifferenceToTheNpu) {
  const Compilation made =
      compiled(kConvolution, {.target = find_target("imxrt700"), .keep_off = {"aten.convolution"}});
  const std::vector<RefusalRow> rows = refusal_rows(made);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].id, "kept-off");
  const auto reason = std::ranges::find_if(made.placement.reasons,
                                           [](const auto& each) { return each.has_value(); });
  ASSERT_NE(reason, made.placement.reasons.end());
  // 16 x 27 products for each of 42 pixels on 8 x 8 multipliers.
  EXPECT_GE((*reason)->bound_cycles, 16U * 27 * 42 / 64);
  EXPECT_GT((*reason)->host_cycles, (*reason)->bound_cycles);
  EXPECT_EQ(rows[0].cycles_lost, (*reason)->host_cycles - (*reason)->bound_cycles);
}

// Partitions run one after another: what the runtime lends to one it lends to the next.
TEST(Pipeline, MemoryOfTheRuntimeIsThatOfOnePartition) {
  const Compilation made = compiled(
      R"(graph @forward(%x: i8[1,8] quant<0.02:-3>, %z: f32[1,8]) {
  %a: i8[1,8] quant<0.02:-3> = aten.relu(%x)
  %b: f32[1,8] = dequantize(%a)
  %c: f32[1,8] = aten.div.Tensor(%b, %z)
  %q: i8[1,8] quant<0.02:-3> = quantize(%c)
  %y: i8[1,8] quant<0.02:-3> = aten.relu(%q)
  return %y
}
)",
      {.target = find_target("imxrt700"), .weigh_costs = false});
  uint32_t bytes = 100;
  for (const auto& partition : made.emitted.partitions)
    if (partition != nullptr) partition->runtime_bytes = (bytes += 100);
  ASSERT_EQ(bytes, 300U);
  EXPECT_EQ(sram_use(made).runtime_bytes, 300U);
}

// A byte a cycle behind the 64 cycles of a start, as no run of bytes is one after the move; the
// dearest first.
TEST(Pipeline, TransposesCostWhatTheyMove) {
  const Compilation made = compiled(
      R"(graph @forward(%x: i8[1,8,4,4] quant<0.02:-3>) {
  %w: i8[16,8,1,1] quant<range=-127..127, 0.01> = constant seeded<1>
  %y: i8[1,16,4,4] quant<0.05:4> = aten.convolution(%x, %w) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
  %z: i8[1,256] quant<0.05:4> = aten.view(%y) {size = [1, 256]}
  return %z
}
)",
      {.target = find_target("imxrt700")});
  const std::vector<TransposeRow> rows = transpose_rows(made);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].bytes, 16 * 4 * 4);
  EXPECT_EQ(rows[0].cycles, 64U + 16 * 4 * 4);
  EXPECT_EQ(rows[0].backend, "neutron");
  EXPECT_EQ(rows[1].bytes, 8 * 4 * 4);
  EXPECT_EQ(rows[1].cycles, 64U + 8 * 4 * 4);
}

// A relu of 8 elements beside a division that runs on the CPU: a call of the NPU costs its host
// more.
TEST(Pipeline, WhatCostsMoreOnTheNpuStaysOnTheCpu) {
  constexpr std::string_view kRelu = R"(graph @forward(%x: i8[1,8] quant<0.02:-3>, %z: f32[1,8]) {
  %a: i8[1,8] quant<0.02:-3> = aten.relu(%x)
  %b: f32[1,8] = dequantize(%a)
  %y: f32[1,8] = aten.div.Tensor(%b, %z)
  return %y
}
)";
  const auto costs_more = [&](const CompileSettings& settings) {
    const Compilation made = compiled(kRelu, settings);
    return std::ranges::count_if(made.placement.reasons, [](const auto& reason) {
      return reason && reason->refusal.id == "costs-more";
    });
  };
  CompileSettings settings{.target = find_target("imxrt700cm")};
  EXPECT_EQ(costs_more(settings), 1);
  settings.weigh_costs = false;
  EXPECT_EQ(costs_more(settings), 0);
}

// Why an operator stayed float is the reason that it is not on the NPU, too.
TEST(Pipeline, PlacementTellsTheQuantizersReason) {
  const Compilation made = compiled(
      R"(graph @forward(%x: f32[1,4000], %z: f32[1,4000]) {
  %y: f32[1,4000] = aten.div.Tensor(%x, %z)
  return %y
}
)",
      {.target = find_target("imxrt700"), .samples = NoiseSamples{.count = 2}});
  const std::vector<RefusalRow> rows = refusal_rows(made);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].id, "quantizer-form");
}

// The tail, of more elements than there is SRAM, is cut off before anything is checked.
TEST(Pipeline, WhatIsCutOffIsNotChecked) {
  constexpr std::string_view kLarge = R"(graph @forward(%x: f32[1,3]) {
  %a: f32[1,3] = aten.relu(%x)
  %b: f32[30000000,3] = aten.expand(%a) {size = [30000000, 3]}
  return %b
}
)";
  CompileSettings settings{.target = find_target("cortex-m33"), .ranges = AsItIs{}};
  const Result<Compilation> whole = compile_model(parse(kLarge), settings);
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.error().id, DiagnosticId::kMemoryExceeded);
  EXPECT_EQ(whole.error().fix, "use a smaller input");
  settings.stop_at = "a";
  const Result<Compilation> part = compile_model(parse(kLarge), settings);
  EXPECT_TRUE(part) << to_text(part.error());
}

// As int8 an input or an output may fill all of the SRAM, and no more. What is between them may be
// made in stripes, of up to 16 times the SRAM.
TEST(Pipeline, TensorsBeyondSramAreRefusedBeforeTheWork) {
  TargetDescription target = *find_target("cortex-m33");
  target.memory.sram_bytes = 1000;
  const auto check = [&](std::string_view type) {
    return check_model(parse("graph @forward(%x: " + std::string(type) + ") {\n  return %x\n}\n"),
                       target);
  };
  EXPECT_TRUE(check("f32[1,1000]"));
  const Result<void> large = check("f32[7,11,13]");
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().id, DiagnosticId::kMemoryExceeded);
  EXPECT_EQ(large.error().reason,
            "`x` of shape 7x11x13 needs 1,001 bytes in int8; cortex-m33 has 1,000 bytes of SRAM");
  const auto check_between = [&](int64_t elements, std::string_view result) {
    return check_model(
        parse(fmt::format("graph @forward(%x: f32[1,1]) {{\n"
                          "  %wide: f32[1,{0}] = aten.expand(%x) {{size = [1, {0}]}}\n"
                          "  %one: f32[1,1] = aten.amax(%wide) {{dim = [1], keepdim = true}}\n"
                          "  return %{1}\n}}\n",
                          elements, result)),
        target);
  };
  EXPECT_TRUE(check_between(16000, "one"));
  EXPECT_EQ(test::error_id(check_between(16001, "one")), "memory-exceeded");
  EXPECT_TRUE(check_between(1000, "wide"));
  EXPECT_EQ(test::error_id(check_between(1001, "wide")), "memory-exceeded");
  const Result<void> wide = check("f64[1,3]");
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().id, DiagnosticId::kPt2UnsupportedDtype);
}

// In SRAM the file and the tensors lie side by side: a byte less than both is too little.
TEST(Pipeline, ProgramAndTensorsFitSramTogether) {
  TargetDescription target = *find_target("cortex-m33");
  target.memory.constants = ConstantMemory::kSram;
  const SramUse use = sram_use(compiled(kConvolution, {.target = &target}));
  EXPECT_GT(use.program_bytes, 16U * 27);
  EXPECT_GT(use.total_bytes, use.program_bytes);
  target.memory.sram_bytes = static_cast<uint32_t>(use.total_bytes);
  EXPECT_TRUE(compile_model(parse(kConvolution), {.target = &target}));
  --target.memory.sram_bytes;
  const Result<Compilation> refused = compile_model(parse(kConvolution), {.target = &target});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().id, DiagnosticId::kMemoryExceeded);
}

}  // namespace
}  // namespace dtr
