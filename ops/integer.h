// What the integer evaluations of `ops/` share.
#pragma once

#include "numerics/requantize.h"
#include "numerics/tables.h"
#include "ops/define.h"

namespace dtr::ops {

inline numerics::Range range_of(const Quantization& q) { return {q.qmin, q.qmax}; }

// Quantized bounds of a real result with that quantization.
numerics::Range activation_range(const RealBounds& bounds, const Quantization& q);

// q − zero_point of every element of an int8 tensor quantized per tensor, or with zero points 0.
std::vector<int16_t> centered_values(const Type& type, const TensorView& tensor);

// From the accumulator of every output channel of a linear operator (x, weight; scale s_x · s_weight[c]) to its result, fused
// activation included.
std::vector<numerics::OutputStage> output_stages(const OpView& view, int64_t channels);

// Products in the sum of a quantized matmul: each at most 255², together at most 2^31 − 1.
inline constexpr int64_t kMaxQuantizedInner = 33024;

// From the sums of a matmul to its result.
numerics::OutputStage matmul_output_stage(const OpView& view);

// Operand 0 with the quantization of the result, limited to `bounds`.
void rescale(const OpView& view, const RealBounds& bounds, const TensorView& operand, const TensorView& result);

// function(real value of operand 0) by a table.
void look_up(const OpView& view, float (*function)(float), const TensorView& operand, const TensorView& result);

}  // namespace dtr::ops
