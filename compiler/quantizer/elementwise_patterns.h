// Quantization of elementwise operators: see compiler/quantizer/pattern.h.
#pragma once

#include <optional>

#include "compiler/quantizer/pattern.h"

namespace dtr {

// How to quantize an elementwise operator of two operands, or why it stays float; std::nullopt: it
// is none. "{machine}" in a reason stands for who computes; `divides_tensors`: it divides one
// computed value by another.
std::optional<tl::expected<OpAnnotation, FloatReason>> annotate_binary(const Graph& graph, OpId op,
                                                                       bool divides_tensors);
// How to quantize a function of one tensor that no other pattern names; std::nullopt: it is none.
std::optional<OpAnnotation> annotate_unary(const Graph& graph, OpId op);

}  // namespace dtr
