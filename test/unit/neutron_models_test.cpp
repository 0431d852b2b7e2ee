// The int8 models of MLPerf Tiny as one partition each: equal to the integer reference (which
// equals TFLite's kernels, tflite_test.cpp), within the bounds that issue and hardware notes set.
#include <cstdio>

#include "compiler/frontends/tflite/tflite.h"
#include "test/unit/neutron_fixture.h"
#include "test/unit/test_files.h"

namespace dtr::test {
namespace {

struct Bounds {
  const char* model;
  size_t calls;  // at most
  double busy;   // 1.35 times the naive bound of docs/npu.md 5; 0: none is set
};

// A path of the test data, committed or shared; empty: it is not there.
std::filesystem::path int8_model(const std::string& name) {
  const std::string relative = "models/mlperf_tiny/" + name + "_int8.tflite";
  const auto committed = source_path(relative);
  return std::filesystem::exists(committed) ? committed : shared_path(relative);
}

class NeutronModel : public testing::TestWithParam<Bounds> {};

// Most bytes of values that are live across one call, in the order of the calls: what a program
// needs at least.
uint64_t most_live(const Compiled& compiled) {
  const LoweredPartition& partition = *compiled.partition;
  std::vector<uint64_t> live(partition.steps, 0);
  const auto add = [&](uint32_t first, uint32_t last, uint32_t bytes) {
    for (uint32_t step = first; step <= last; ++step) live[step] += bytes;
  };
  for (const InteriorBuffer& buffer : partition.buffers)
    if (buffer.role == BufferRole::kActivation)
      add(buffer.first_step, buffer.last_step, buffer.bytes);
  for (const OperandUse& operand : partition.inputs)
    add(operand.first_step, operand.last_step, operand.bytes);
  for (const OperandUse& operand : partition.outputs)
    add(operand.first_step, operand.last_step, operand.bytes);
  return *std::max_element(live.begin(), live.end());
}

uint32_t planned_activations(const Compiled& compiled) {
  const LoweredPartition& partition = *compiled.partition;
  std::vector<ArenaBuffer> buffers;
  const auto add = [&](const auto& use) {
    buffers.push_back(
        {use.bytes, 16, static_cast<int32_t>(use.first_step), static_cast<int32_t>(use.last_step)});
  };
  for (const InteriorBuffer& buffer : partition.buffers)
    if (buffer.role == BufferRole::kActivation) add(buffer);
  for (const OperandUse& operand : partition.inputs) add(operand);
  for (const OperandUse& operand : partition.outputs) add(operand);
  return static_cast<uint32_t>(plan_arena(buffers).total);
}

TEST_P(NeutronModel, IsBitExactAndWithinItsBounds) {
  const auto path = int8_model(GetParam().model);
  if (path.empty()) GTEST_SKIP() << GetParam().model << " is not here";
  Result<Module> module = tflite::read_tflite(path.string());
  ASSERT_TRUE(module) << to_text(module.error());
  const Compiled compiled = expect_bit_exact(*module);
  ASSERT_NE(compiled.partition, nullptr);
  const neutron::Timeline timeline = compiled.details().timeline();
  uint32_t staging = 0;
  for (const InteriorBuffer& buffer : compiled.partition->buffers)
    if (buffer.role == BufferRole::kStaging) staging = std::max(staging, buffer.bytes);
  std::printf(
      "%s: %zu calls, busy %llu, host %llu, stall %llu, total %llu cycles; tensors %u bytes (bound "
      "%llu), scratch with staging %u, "
      "largest block %u, payload %zu\n",
      GetParam().model, compiled.kernels().size(), static_cast<unsigned long long>(timeline.busy),
      static_cast<unsigned long long>(timeline.host),
      static_cast<unsigned long long>(timeline.stall),
      static_cast<unsigned long long>(timeline.total), planned_activations(compiled),
      static_cast<unsigned long long>(most_live(compiled)), compiled.scratch_bytes, staging,
      compiled.payload.size());
  EXPECT_LE(compiled.kernels().size(), GetParam().calls);
  if (GetParam().busy != 0) {
    EXPECT_LE(static_cast<double>(timeline.busy), GetParam().busy);
  }
  EXPECT_LE(planned_activations(compiled), 1.10 * static_cast<double>(most_live(compiled)));
}

INSTANTIATE_TEST_SUITE_P(MlperfTiny, NeutronModel,
                         testing::Values(Bounds{"ic_resnet8", 15, 1.35 * 206'864},
                                         Bounds{"vww_mobilenetv1", 30, 1.35 * 217'328},
                                         Bounds{"kws_dscnn", 12, 1.35 * 108'016},
                                         Bounds{"ad_fcae", 12, 0}),
                         [](const auto& instance) { return std::string(instance.param.model); });

// ---- the schedule for comparison: docs/npu.md 7

// What NXP calls the kernel: standard and pointwise convolutions, fully connected layers, Pad,
// GlobalBiasScale, Slice.
std::string listed_name(const neutron::Call& call) {
  if (const auto* conv = std::get_if<npu::Conv2d>(&call.kernel)) {
    const npu::Window& window = conv->window;
    if (call.macs == 0) return "Pad";
    if (window.kernel_height * window.kernel_width > 1 || window.stride_height > 1) return "Std";
    return window.out_height * window.out_width > 1 ? "PW" : "FC";
  }
  if (std::holds_alternative<npu::Depthwise>(call.kernel)) return "DW";
  if (std::holds_alternative<npu::Lookup>(call.kernel)) return "GBS";
  if (std::holds_alternative<npu::Binary>(call.kernel)) return "Add";
  if (std::holds_alternative<npu::Move>(call.kernel)) return "Slice";
  return std::string(neutron::name(call.kernel));
}

struct Listed {
  const char* model;
  const char* calls;
};
class NxpLike : public testing::TestWithParam<Listed> {};

TEST_P(NxpLike, HasTheCallsThatNxpLists) {
  const auto path = int8_model(GetParam().model);
  if (path.empty()) GTEST_SKIP() << GetParam().model << " is not here";
  Result<Module> module = tflite::read_tflite(path.string());
  ASSERT_TRUE(module) << to_text(module.error());
  const Compiled compiled =
      expect_bit_exact(*module, test::machine(), {.schedule = NeutronSchedule::kNxpLike});
  ASSERT_NE(compiled.partition, nullptr);
  std::string calls;
  for (const neutron::Call& call : compiled.details().calls())
    calls += (calls.empty() ? "" : " ") + listed_name(call);
  EXPECT_EQ(calls, GetParam().calls);
}

// NXP's lists end with the fully connected layer; softmax of 10, 12 and 2 columns is listed
// elsewhere as Pad, Softmax, Slice. The Pool is NXP's GlobalAvgPool, and Conv2DDepthwiseDense in
// the keyword model.
INSTANTIATE_TEST_SUITE_P(
    MlperfTiny, NxpLike,
    testing::Values(Listed{"ic_resnet8",
                           "Std Std Std Add GBS Std Std Std Add GBS Std Std Std Add GBS Pool FC "
                           "Pad Softmax Slice"},
                    Listed{"kws_dscnn",
                           "Pad Std DW PW DW PW DW PW DW PW Pool FC Pad Softmax Slice"},
                    Listed{"vww_mobilenetv1",
                           "Std DW PW DW PW DW PW DW PW DW PW DW PW DW PW DW PW DW PW DW PW DW PW "
                           "DW PW DW PW Pool FC Pad Softmax Slice"},
                    Listed{"ad_fcae", "FC FC FC FC FC FC FC FC FC FC"}),
    [](const auto& instance) { return std::string(instance.param.model); });

}  // namespace
}  // namespace dtr::test
