// Parameters of a quantized softmax or log_softmax.
#pragma once

#include "compiler/ir/op_def.h"
#include "device/numerics/softmax.h"

namespace dtr::ops {

numerics::SoftmaxParameters softmax_parameters(const OpView& view);

// A bool mask broadcast to `shape`: 1 for elements that take part, else 0.
std::vector<int8_t> expand_mask(const TensorView& mask, const Shape& shape);

}  // namespace dtr::ops
