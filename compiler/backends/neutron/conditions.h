// The bounds of the machine as conditions (compiler/partitioner/condition.h). A rule
// (lowering/rules.h) lists its own.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "compiler/backends/neutron/neutron.h"
#include "compiler/ops/convolution.h"

namespace dtr::neutron {

struct Machine {
  npu::Target target;
  NeutronOptions options;
};

// What this backend passes to its conditions.
struct NpuQuery : OpQuery {
  const Machine& machine;
};
inline const Machine& machine_of(const OpQuery& query) {
  return static_cast<const NpuQuery&>(query).machine;
}

// A sentence or remedy with the target's numbers: {max_kernel}, {max_reduction}, {macs},
// {pipelines}, {rank} (of copies) and {operands} (of a call).
std::string with_numbers(std::string_view text, const npu::Target& target);

// Operand 0, or every operand, and all results are int8 with one scale and zero point a tensor.
extern const Condition kInt8Operand;
extern const Condition kInt8Operands;
// Operand 0, whatever the results are.
extern const Condition kInt8First;
// No operand or result is empty.
extern const Condition kNotEmpty;
// Copies have npu::kMoveRank loops.
extern const Condition kRank;
// Operands and results, each value once, are npu::kMaxOperands at most: of operators that take any
// number.
extern const Condition kOperandCount;
// Operands 1 and 2 are constants.
extern const Condition kConstantWeight;
extern const Condition kConstantBias;

// Functions of the conditions below, which rules parametrize. Give each function that is used as a
// template argument a name of its own in all of the library: g++ 12 merges the lambdas of two
// instances whose functions have one name, even in unnamed namespaces.
std::optional<std::string> beyond(int64_t limit, int64_t height, int64_t width);
std::optional<std::string> window_of_padding(const ops::Window& window);
std::optional<std::string> beyond_sram(const OpQuery& question, uint64_t staged);

using WindowOf = ops::Window (*)(const OpQuery&);

// Kernel, stride and dilation of both axes.
template <WindowOf kWindow>
inline constexpr Condition kKernelSize{
    "npu-kernel-size", "the NPU takes kernels of at most {max_kernel} per axis",
    "choose a kernel of at most {max_kernel}", [](const OpQuery& q) {
      return beyond(machine_of(q).target.max_kernel, kWindow(q).h.kernel, kWindow(q).w.kernel);
    }};
template <WindowOf kWindow>
inline constexpr Condition kStride{
    "npu-stride", "the NPU takes strides of at most {max_kernel} per axis",
    "choose a stride of at most {max_kernel}", [](const OpQuery& q) {
      return beyond(machine_of(q).target.max_kernel, kWindow(q).h.stride, kWindow(q).w.stride);
    }};
template <WindowOf kWindow>
inline constexpr Condition kDilation{
    "npu-dilation", "the NPU takes dilations of at most {max_kernel} per axis",
    "choose a dilation of at most {max_kernel}", [](const OpQuery& q) {
      return beyond(machine_of(q).target.max_kernel, kWindow(q).h.dilation, kWindow(q).w.dilation);
    }};
// Each window of a pool has an element of the input: a maximum or mean of none does not exist.
template <WindowOf kWindow>
inline constexpr Condition kWindowNotOfPadding{
    "npu-window-of-padding", "the NPU needs an element of the input in every window of a pool",
    "choose less padding or no dilation",
    [](const OpQuery& q) { return window_of_padding(kWindow(q)); }};
// Operands, results and staged constants lie in SRAM together.
template <uint64_t (*kStaged)(const OpQuery&)>
inline constexpr Condition kFitsSram{
    "npu-sram", "an operator's operands, results and constants share the target's SRAM",
    "use smaller tensors: a lower resolution, fewer channels or a smaller batch",
    [](const OpQuery& q) { return beyond_sram(q, kStaged(q)); }};
inline uint64_t nothing_staged(const OpQuery&) { return 0; }

}  // namespace dtr::neutron
