// Parameters of a quantized softmax or log_softmax.
#pragma once

#include "ir/op_def.h"
#include "numerics/softmax.h"

namespace dtr::ops {

numerics::SoftmaxParameters softmax_parameters(const OpView& view);

}  // namespace dtr::ops
