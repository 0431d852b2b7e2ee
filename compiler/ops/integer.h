// Helpers for integer evaluations of `compiler/ops/`.
#pragma once

#include <algorithm>

#include "compiler/ops/define.h"
#include "device/numerics/requantize.h"
#include "device/numerics/tables.h"

namespace dtr::ops {

inline numerics::Range range_of(const Quantization& q) { return {q.qmin, q.qmax}; }

// The attribute `qdq`: true if the model had the op between dequantize and quantize, as PyTorch
// exports it. Its result is then rounded once, as in PyTorch; else results are rounded as TFLite
// rounds them (docs/numerics.md).
inline bool is_rounded_once(const OpView& view) { return view.attribute_or("qdq", false); }
// The fixed-point form of `factor`, rounded as `is_rounded_once` requires.
numerics::Requantization multiplier_of(const OpView& view, double factor);
// Rescales Σ (q − zero_point) over elements of operand 0 to steps of the result
// (mean_requantization). The second divides a sum of `count` elements for a mean; count is 1 for a
// sum.
numerics::Requantization sum_multiplier(const OpView& view);
numerics::Requantization mean_multiplier(const OpView& view, int64_t count);

// The bounds of a real result as codes of its quantization.
numerics::Range activation_range(const RealBounds& bounds, const Quantization& q);

// q − zero_point of every element of an int8 tensor quantized per tensor, or with zero points 0.
std::vector<int16_t> centered_values(const Type& type, const TensorView& tensor);

// For each output channel of a linear operator (x, weight; scale s_x · s_weight[c]): how its
// accumulator becomes the result, with the fused activation.
std::vector<numerics::OutputStage> output_stages(const OpView& view, int64_t channels);

// The most products that a quantized matmul may add up: each is at most 255², the sum at most 2^31
// − 1.
inline constexpr int64_t kMaxQuantizedInner = 33024;

// How the sums of a matmul become its result.
numerics::OutputStage matmul_output_stage(const OpView& view);

// Converts operand 0 to the quantization of the result, clamped to `bounds`.
void rescale(const OpView& view, const RealBounds& bounds, const TensorView& operand,
             const TensorView& result);

// Applies a float function to the real values of operand 0, by a table of 256 entries.
template <class Function>
void look_up(const OpView& view, Function function, const TensorView& operand,
             const TensorView& result) {
  const Quantization& in = *view.operand(0).quantization;
  const Quantization& out = *view.result().quantization;
  const numerics::Table table = numerics::make_table(in.scale(), in.zero_point(), out.scale(),
                                                     out.zero_point(), range_of(out), function);
  std::ranges::transform(operand.values<int8_t>(), result.values<int8_t>().begin(),
                         [&](int8_t q) { return table[static_cast<size_t>(q + 128)]; });
}

}  // namespace dtr::ops
