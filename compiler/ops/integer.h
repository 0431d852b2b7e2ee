// What the integer evaluations of `compiler/ops/` share.
#pragma once

#include <algorithm>

#include "compiler/ops/define.h"
#include "device/numerics/requantize.h"
#include "device/numerics/tables.h"

namespace dtr::ops {

inline numerics::Range range_of(const Quantization& q) { return {q.qmin, q.qmax}; }

// The attribute `qdq`: set where the op stood between dequantize and quantize, as PyTorch exports
// it. Its result is then rounded once, as there. Without it results are rounded as TFLite rounds
// them (docs/numerics.md).
inline bool is_rounded_once(const OpView& view) { return view.attribute_or("qdq", false); }
numerics::Requantization multiplier_of(const OpView& view, double factor);
// From Σ (q − zero_point) of operand 0's elements to steps of the result: what means are made of,
// by mean_requantization. And over `count` elements to steps of their mean; of a sum, count is 1.
numerics::Requantization sum_multiplier(const OpView& view);
numerics::Requantization mean_multiplier(const OpView& view, int64_t count);

// Quantized bounds of a real result with that quantization.
numerics::Range activation_range(const RealBounds& bounds, const Quantization& q);

// q − zero_point of every element of an int8 tensor quantized per tensor, or with zero points 0.
std::vector<int16_t> centered_values(const Type& type, const TensorView& tensor);

// From the accumulator of every output channel of a linear operator (x, weight; scale s_x ·
// s_weight[c]) to its result, fused activation included.
std::vector<numerics::OutputStage> output_stages(const OpView& view, int64_t channels);

// Products in the sum of a quantized matmul: each at most 255², together at most 2^31 − 1.
inline constexpr int64_t kMaxQuantizedInner = 33024;

// From the sums of a matmul to its result.
numerics::OutputStage matmul_output_stage(const OpView& view);

// Operand 0 with the quantization of the result, limited to `bounds`.
void rescale(const OpView& view, const RealBounds& bounds, const TensorView& operand,
             const TensorView& result);

// function(real value of operand 0), float to float, by a table.
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
