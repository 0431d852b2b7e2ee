// The bounds of the machine, each in one function: its text is what the user reads — the limit, this op's value, what to change.
#pragma once

#include <optional>

#include "abi/npu/target.h"
#include "ops/convolution.h"
#include "partitioner/backend.h"

namespace dtr::neutron {

using MaybeRefusal = std::optional<Refusal>;

// Operand `index` and all results are int8 with one scale and zero point a tensor.
MaybeRefusal refuse_element_type(const OpView& view, size_t index = 0);
// No operand or result is empty.
MaybeRefusal refuse_empty(const OpView& view);
// Copies have npu::kMoveRank loops.
MaybeRefusal refuse_rank(const OpView& view);
// Operand `index` (weight, bias) is a constant.
MaybeRefusal refuse_dynamic(const Graph& graph, OpId op, size_t index, std::string_view what);
MaybeRefusal refuse_transposed(const OpView& view);
// Accumulators are rescaled as those of TFLite's convolutions.
MaybeRefusal refuse_one_rounding(const OpView& view);
// One group, or one input channel a group.
MaybeRefusal refuse_groups(const ops::ConvolutionShape& shape);
// Kernel, stride and dilation of both axes.
MaybeRefusal refuse_window(const npu::Target& target, const ops::Window& window);
// Each window of a pool has an element of the input: a maximum or mean of none does not exist.
MaybeRefusal refuse_window_of_padding(const ops::Window& window);
// Products that one accumulator adds: taps · channels rounded up to the array.
MaybeRefusal refuse_reduction(const npu::Target& target, int64_t height, int64_t width, int64_t channels);
// Operands, results and `staged` bytes of constants lie in SRAM together.
MaybeRefusal refuse_memory(const npu::Target& target, const Graph& graph, OpId op, uint64_t staged);

// The first refusal of several checks; later ones are not asked.
inline MaybeRefusal first_of() { return std::nullopt; }
template <class First, class... Rest>
MaybeRefusal first_of(const First& check, const Rest&... rest) {
  if (MaybeRefusal refusal = check()) return refusal;
  return first_of(rest...);
}

}  // namespace dtr::neutron
