// Parameters of a quantized softmax or log_softmax.
#pragma once

#include "compiler/ir/op_def.h"
#include "device/numerics/softmax.h"

namespace dtr::ops {

numerics::SoftmaxParameters softmax_parameters(const OpView& view);

// A mask of bool repeated to `shape`: 1 where an element takes part, else 0.
std::vector<int8_t> expand_mask(const TensorView& mask, const Shape& shape);

}  // namespace dtr::ops
