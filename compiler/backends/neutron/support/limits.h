// The bounds of the machine as data: the sentence that docs/operators.md prints and a refusal begins with, what to change, and the
// function that decides. A rule (lowering/rules.h) lists its checks; the first that an operator is outside of is its refusal.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "compiler/backends/neutron/neutron.h"
#include "compiler/ops/convolution.h"

namespace dtr::neutron {

using MaybeRefusal = std::optional<Refusal>;

struct Machine {
  npu::Target target;
  NeutronOptions options;
};

struct Question {  // may this op run on the machine?
  const Machine& machine;
  const Graph& graph;
  OpId op;
  const OpView& view;
};

struct Check {
  std::string_view id;
  // What holds within, a sentence. {max_kernel}, {max_reduction}, {macs}, {pipelines}, {sram_bytes}, {rank} (of copies) and {operands}
  // (of a call) stand for numbers of the target, in the remedy too.
  std::string_view condition;
  std::string_view remedy;
  // What this op has instead, a clause: "this one has 7". std::nullopt: it is within.
  std::optional<std::string> (*outside)(const Question&);
};

// A condition or remedy with the target's numbers.
std::string with_numbers(std::string_view text, const npu::Target& target);

// What a rule asks, in order; the first check that an operator is outside of is its refusal.
using Checks = std::span<const Check* const>;
MaybeRefusal refuse(Checks checks, const Question& question);

// Operand 0, or every operand, and all results are int8 with one scale and zero point a tensor.
extern const Check kInt8Operand;
extern const Check kInt8Operands;
// Operand 0, whatever the results are.
extern const Check kInt8First;
// No operand or result is empty.
extern const Check kNotEmpty;
// Copies have npu::kMoveRank loops.
extern const Check kRank;
// Operands and results, each value once, are npu::kMaxOperands at most: of operators that take any number.
extern const Check kOperandCount;
// Operands 1 and 2 are constants.
extern const Check kConstantWeight;
extern const Check kConstantBias;

// Functions of the checks below, which rules parametrize. The functions that they are parametrized with need names of their own in
// all of the library: g++ gives the lambdas of two checks one symbol if their functions have one name, even in unnamed namespaces.
std::optional<std::string> beyond(int64_t limit, int64_t height, int64_t width);
std::optional<std::string> window_of_padding(const ops::Window& window);
std::optional<std::string> beyond_sram(const Question& question, uint64_t staged);

using WindowOf = ops::Window (*)(const Question&);

// Kernel, stride and dilation of both axes.
template <WindowOf kWindow>
inline constexpr Check kKernelSize{
    "npu-kernel-size", "the NPU takes kernels of at most {max_kernel} per axis", "choose a kernel of at most {max_kernel}",
    [](const Question& q) { return beyond(q.machine.target.max_kernel, kWindow(q).h.kernel, kWindow(q).w.kernel); }};
template <WindowOf kWindow>
inline constexpr Check kStride{
    "npu-stride", "the NPU takes strides of at most {max_kernel} per axis", "choose a stride of at most {max_kernel}",
    [](const Question& q) { return beyond(q.machine.target.max_kernel, kWindow(q).h.stride, kWindow(q).w.stride); }};
template <WindowOf kWindow>
inline constexpr Check kDilation{
    "npu-dilation", "the NPU takes dilations of at most {max_kernel} per axis", "choose a dilation of at most {max_kernel}",
    [](const Question& q) { return beyond(q.machine.target.max_kernel, kWindow(q).h.dilation, kWindow(q).w.dilation); }};
// Each window of a pool has an element of the input: a maximum or mean of none does not exist.
template <WindowOf kWindow>
inline constexpr Check kWindowNotOfPadding{"npu-window-of-padding", "the NPU needs an element of the input in every window of a pool",
                                           "choose less padding or no dilation",
                                           [](const Question& q) { return window_of_padding(kWindow(q)); }};
// Operands, results and staged constants lie in SRAM together.
template <uint64_t (*kStaged)(const Question&)>
inline constexpr Check kFitsSram{"npu-sram", "an operator's operands, results and constants share {sram_bytes} bytes of SRAM",
                                 "use smaller tensors: a lower resolution, fewer channels or a smaller batch",
                                 [](const Question& q) { return beyond_sram(q, kStaged(q)); }};
inline uint64_t nothing_staged(const Question&) { return 0; }

}  // namespace dtr::neutron
