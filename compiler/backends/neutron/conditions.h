// The limits of the NPU as conditions (compiler/partitioner/condition.h). Each rule
// (lowering/rules.h) lists the conditions of its operator.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "compiler/backends/neutron/neutron.h"
#include "compiler/ops/convolution.h"

namespace dtr::neutron {

// The NPU and the options of the backend: what rules and conditions depend on.
struct Machine {
  npu::Target target;
  NeutronOptions options;
};

// The query that this backend passes to its conditions.
struct NpuQuery : OpQuery {
  const Machine& machine;
};
inline const Machine& machine_of(const OpQuery& query) {
  return static_cast<const NpuQuery&>(query).machine;
}

// Replaces the names in a sentence or remedy by the target's numbers: {max_kernel},
// {max_reduction}, {macs}, {pipelines}, {sram_bytes}, {rank} (of copies) and {operands} (of a
// call).
std::string with_numbers(std::string_view text, const npu::Target& target);

// Operand 0, or every operand, and all results are int8 and quantized per tensor.
extern const Condition kInt8Operand;
extern const Condition kInt8Operands;
// Operand 0 is int8 and quantized per tensor; results may have any type.
extern const Condition kInt8First;
// No operand or result is empty.
extern const Condition kNotEmpty;
// The rank is at most npu::kMoveRank, the number of loops of a copy.
extern const Condition kRank;
// The distinct operands and results are at most npu::kMaxOperands: for variadic operators.
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
std::optional<std::string> row_beyond_sram(const OpQuery& question, uint64_t staged,
                                           int64_t operand_rows);

// The window of the op that a query is about.
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
// Each window of a pool contains an element of the input: padding alone has no maximum or mean.
template <WindowOf kWindow>
inline constexpr Condition kWindowNotOfPadding{
    "npu-window-of-padding", "the NPU needs an element of the input in every window of a pool",
    "choose less padding or no dilation",
    [](const OpQuery& q) { return window_of_padding(kWindow(q)); }};
// Operands, results and staged constants fit SRAM together.
template <uint64_t (*kStaged)(const OpQuery&)>
inline constexpr Condition kFitsSram{
    "npu-sram", "an operator's operands, results and constants share the target's SRAM",
    "use smaller tensors: a lower resolution, fewer channels or a smaller batch",
    [](const OpQuery& q) { return beyond_sram(q, kStaged(q)); }};
// For operators that may run in stripes (schedule/stripes.h): one row of the result, the rows of
// the operands that it needs, and staged constants fit SRAM together. Where they do not, and where
// stripes do not fit the plan, no CPU runs the operator either, which needs its tensors whole. A
// row is one of an image, of other tensors a vector of the last dimension. `kRows`: rows of each
// operand; 0: the whole operator is counted.
template <uint64_t (*kStaged)(const OpQuery&), int64_t (*kRows)(const OpQuery&)>
inline constexpr Condition kRowFitsSram{
    "npu-sram",
    "one row of an operator's result, what it needs of the operands, and constants share the "
    "target's SRAM",
    "use smaller tensors: a lower resolution, fewer channels or a smaller batch",
    [](const OpQuery& q) { return row_beyond_sram(q, kStaged(q), kRows(q)); }};
// The rows that a window of this extent covers; one, for elementwise operators.
inline int64_t rows_under(const ops::WindowAxis& axis) {
  return axis.dilation * (axis.kernel - 1) + 1;
}
inline int64_t one_row(const OpQuery&) { return 1; }
// For kFitsSram: an operator that stages no constants.
inline uint64_t nothing_staged(const OpQuery&) { return 0; }

}  // namespace dtr::neutron
