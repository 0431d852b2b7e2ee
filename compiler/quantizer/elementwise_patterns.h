// Quantization of elementwise operators: see compiler/quantizer/pattern.h.
#pragma once

#include <optional>

#include "compiler/quantizer/pattern.h"

namespace dtr {

// The specs of an elementwise operator of two operands, or why it stays float; std::nullopt if the
// op is not such an operator. "{machine}" in a reason stands for the processor; `divides_tensors`:
// it can divide one computed value by another.
std::optional<tl::expected<OpAnnotation, FloatReason>> annotate_binary(const Graph& graph, OpId op,
                                                                       bool divides_tensors);
// The specs of an elementwise function of one tensor that has no pattern of its own; std::nullopt
// if the op is not such a function.
std::optional<OpAnnotation> annotate_unary(const Graph& graph, OpId op);

}  // namespace dtr
