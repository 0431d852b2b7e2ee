#include "compiler/targets/target.h"

#include <array>
#include <string>

namespace dtr {
namespace {

constexpr std::array<std::string_view, 2> kNeutron{"neutron", "portable"};
constexpr std::array<std::string_view, 3> kNeutronAndCortexM{"neutron", "cortex_m", "portable"};
constexpr std::array<std::string_view, 2> kCortexM{"cortex_m", "portable"};
constexpr std::array<std::string_view, 1> kExecutorch{"executorch"};

constexpr uint32_t kMHz = 1'000'000, kKiB = 1u << 10, kMiB = 1u << 20;

// ---- NPUs. docs/npu.md 1 gives the source of every number.

// eIQ Neutron N3-64 of the i.MX RT700. Of its 7.5 MB of SRAM, 0.5 MB stay with the host's firmware
// and stack.
constexpr npu::Target kNeutronN364{.pipelines = 8,
                                   .macs = 8,
                                   .max_reduction = 65535,
                                   .max_kernel = 4096,
                                   .accumulators = 8,
                                   .activation_port = 8,
                                   .weight_port = 8,
                                   .write_port = 8,
                                   .call_npu_cycles = 64,
                                   .call_host_cycles = 8000,
                                   .copy_host_cycles = 400,
                                   .copy_setup_cycles = 200,
                                   .flash_bytes_per_16_cycles = 10,
                                   .sram_bytes = 7 * kMiB,
                                   .clock_hz = 324 * kMHz};

// MCX N947's Neutron, a quarter of that array: docs/npu.md 1 lists what is public of it and what is
// assumed.
constexpr npu::Target kNeutronN116{.pipelines = 4,
                                   .macs = 4,
                                   .max_reduction = 65535,
                                   .max_kernel = 4096,
                                   .accumulators = 4,
                                   .activation_port = 4,
                                   .weight_port = 4,
                                   .write_port = 4,
                                   .call_npu_cycles = 64,
                                   .call_host_cycles = 8000,
                                   .copy_host_cycles = 400,
                                   .copy_setup_cycles = 200,
                                   .flash_bytes_per_16_cycles = 15,
                                   .sram_bytes = 448 * kKiB,
                                   .clock_hz = 150 * kMHz};

// The four cores of i.MX 95's Neutron, 16 x 16 each, which run one call together: each computes a
// quarter of the output channels. docs/npu.md 1 lists what is public of it and what is assumed. Its
// SRAM is the tightly coupled memory, its flash the LPDDR memory. The NPU's own controller starts
// calls and copies, which cost no host any cycles.
constexpr npu::Target kNeutronN31024S{.pipelines = 64,
                                      .macs = 16,
                                      .max_reduction = 65535,
                                      .max_kernel = 4096,
                                      .accumulators = 16,
                                      .activation_port = 64,
                                      .weight_port = 64,
                                      .write_port = 64,
                                      .call_npu_cycles = 64,
                                      .call_host_cycles = 0,
                                      .copy_host_cycles = 0,
                                      .copy_setup_cycles = 250,
                                      .flash_bytes_per_16_cycles = 409,
                                      .sram_bytes = 2 * kMiB,
                                      .clock_hz = 1000 * kMHz};

// A quarter of the first array too, on a board of its own. Every number differs, so that one that
// is taken from another row shows.
constexpr npu::Target kTest4x4{.pipelines = 4,
                               .macs = 4,
                               .max_reduction = 32767,
                               .max_kernel = 2048,
                               .accumulators = 4,
                               .activation_port = 4,
                               .weight_port = 4,
                               .write_port = 4,
                               .call_npu_cycles = 48,
                               .call_host_cycles = 4000,
                               .copy_host_cycles = 200,
                               .copy_setup_cycles = 100,
                               .flash_bytes_per_16_cycles = 32,
                               .sram_bytes = 256 * kKiB,
                               .clock_hz = 150 * kMHz};

constexpr npu::Target kNoNpu{};

// ---- CPUs

constexpr Cpu cortex_m33(uint32_t clock_hz) {
  return {"Cortex-M33", cortex_m::Core::kDsp, clock_hz};
}
constexpr Cpu cortex_m7(uint32_t clock_hz) { return {"Cortex-M7", cortex_m::Core::kDsp, clock_hz}; }
constexpr Cpu cortex_m55(uint32_t clock_hz) {
  return {"Cortex-M55", cortex_m::Core::kMve, clock_hz};
}

// ---- Published runs

constexpr std::array<std::string_view, 3> kConvolutions{"Conv2d", "Depthwise", "Pool"};

// In percent of the time that is printed: the largest error of the four as they are, and of each
// when the others alone choose the cost of a call (docs/npu.md 6; bench/calibrate.py holds it).
constexpr uint32_t kPublishedErrorPercent = 44;
constexpr PublishedRuns kRt700Runs[] = {
    {{true, ConstantMemory::kSram},
     kConvolutions,
     8,
     29,
     2'656'768,
     13'570'304,
     "CIFARNet, MobileNetV1-0.25-128, DS-CNN-S",
     kPublishedErrorPercent},
    {{true, ConstantMemory::kFlash},
     kConvolutions,
     29,
     29,
     568'741'376,
     568'741'376,
     "MobileNetV1-1.0-224",
     kPublishedErrorPercent},
};

// Two latencies of MCX N947 are known, but not where the constants were, on which a prediction
// hangs (docs/npu.md 6): no band follows from them.
constexpr PublishedRuns kMcxN947Runs[] = {
    {.configuration = {},
     .kernels = {},
     .fewest_calls = 0,
     .most_calls = 0,
     .fewest_macs = 0,
     .most_macs = 0,
     .names = "CIFARNet, the MLPerf autoencoder",
     .error_percent = 0},
};

// One latency is known, from a third party, but not what it includes (docs/npu.md 6).
constexpr PublishedRuns kImx95Runs[] = {
    {.configuration = {},
     .kernels = {},
     .fewest_calls = 0,
     .most_calls = 0,
     .fewest_macs = 0,
     .most_macs = 0,
     .names = "MobileNetV2-224",
     .error_percent = 0},
};

// ---- One row per target

constexpr Memories kRt700Memory{
    .sram_bytes = 7 * kMiB, .flash_bytes = 0, .constants = ConstantMemory::kFlash};

constexpr std::array kTargets{
    TargetDescription{.name = "imxrt700",
                      .summary = "i.MX RT700: eIQ Neutron N3-64 beside a Cortex-M33, 324 MHz, 7 "
                                 "MiB SRAM for the program",
                      .recipe = kNeutron,
                      .npu = kNeutronN364,
                      .cpu = cortex_m33(324 * kMHz),
                      .memory = kRt700Memory,
                      .published = kRt700Runs,
                      .is_test = false},
    TargetDescription{
        .name = "imxrt700cm",
        .summary = "the same, int8 kernels of the Cortex-M33 for what the NPU does not run",
        .recipe = kNeutronAndCortexM,
        .npu = kNeutronN364,
        .cpu = cortex_m33(324 * kMHz),
        .memory = kRt700Memory,
        .published = kRt700Runs,
        .is_test = false},
    TargetDescription{.name = "mcxn947",
                      .summary = "MCX N947: eIQ Neutron N1-16 beside a Cortex-M33, 150 MHz, 448 "
                                 "KiB SRAM for the program",
                      .recipe = kNeutronAndCortexM,
                      .npu = kNeutronN116,
                      .cpu = cortex_m33(150 * kMHz),
                      .memory = {.sram_bytes = 448 * kKiB,
                                 .flash_bytes = 2 * kMiB,
                                 .constants = ConstantMemory::kFlash},
                      .published = kMcxN947Runs,
                      .is_test = false},
    TargetDescription{
        .name = "imx95",
        .summary = "i.MX 95: eIQ Neutron N3-1024S, four cores that share every "
                   "call, 1 GHz, 2 MiB TCM, beside a Cortex-M7",
        .recipe = kNeutronAndCortexM,
        .npu = kNeutronN31024S,
        .cpu = cortex_m7(800 * kMHz),
        .memory = {.sram_bytes = 2 * kMiB, .flash_bytes = 0, .constants = ConstantMemory::kFlash},
        .published = kImx95Runs,
        .is_test = false},
    TargetDescription{
        .name = "cortex-m33",
        .summary = "a Cortex-M33 with DSP extension alone; clock and SRAM of Arm's AN505 board",
        .recipe = kCortexM,
        .npu = kNoNpu,
        .cpu = cortex_m33(20 * kMHz),
        .memory = {.sram_bytes = 4 * kMiB,
                   .flash_bytes = 4 * kMiB,
                   .constants = ConstantMemory::kFlash},
        .published = {},
        .is_test = false},
    TargetDescription{.name = "cortex-m55",
                      .summary = "a Cortex-M55 with MVE alone; clock and SRAM of Arm's AN547 board",
                      .recipe = kCortexM,
                      .npu = kNoNpu,
                      .cpu = cortex_m55(32 * kMHz),
                      .memory = {.sram_bytes = 4 * kMiB,
                                 .flash_bytes = 512 * kKiB,
                                 .constants = ConstantMemory::kFlash},
                      .published = {},
                      .is_test = false},
    TargetDescription{
        .name = "executorch",
        .summary =
            "ExecuTorch 1.4's own runtime on any machine, with its portable and quantized kernels",
        .recipe = kExecutorch,
        .npu = kNoNpu,
        .cpu = {"any", cortex_m::Core::kDsp, 1000 * kMHz},
        .memory = {.sram_bytes = INT32_MAX, .flash_bytes = 0, .constants = ConstantMemory::kFlash},
        .published = {},
        .is_test = false},
    TargetDescription{.name = "test-4x4",
                      .summary = "a machine for tests, which does not exist: an NPU of 4 x 4 lanes "
                                 "at 150 MHz beside a Cortex-M33 at 75 MHz",
                      .recipe = kNeutronAndCortexM,
                      .npu = kTest4x4,
                      .cpu = cortex_m33(75 * kMHz),
                      .memory = {.sram_bytes = 256 * kKiB,
                                 .flash_bytes = 2 * kMiB,
                                 .constants = ConstantMemory::kFlash},
                      .published = {},
                      .is_test = true},
};

constexpr bool is_sound(const TargetDescription& target) {
  const bool npu = target.npu == kNoNpu || (npu::is_machine(target.npu) &&
                                            target.npu.sram_bytes == target.memory.sram_bytes);
  return npu && target.cpu.clock_hz > 0 && target.memory.sram_bytes > 0 && !target.recipe.empty();
}
constexpr bool are_sound() {
  for (const TargetDescription& target : kTargets)
    if (!is_sound(target)) return false;
  return true;
}
static_assert(are_sound());
// The hash in programs that were compiled when `format_hash` still included the board.
static_assert(npu::format_hash(kNeutronN364) == 0x2CD7B7CE);

}  // namespace

std::span<const TargetDescription> all_targets() { return kTargets; }

const TargetDescription& default_target() { return kTargets.front(); }

const TargetDescription* find_target(std::string_view name) {
  for (const TargetDescription& target : kTargets)
    if (target.name == name) return &target;
  return nullptr;
}

std::string target_names() {
  std::string names;
  for (const TargetDescription& target : kTargets)
    names.append(names.empty() ? "" : ", ").append(target.name);
  return names;
}

}  // namespace dtr
