// Checks a compiled program operator by operator, each on the operands that the program itself
// computed, so that errors do not propagate to later operators.
#pragma once

#include <optional>
#include <string>

#include "compiler/pipeline/compilation.h"
#include "host/session/session.h"

namespace dtr {

// Runs the program on `inputs` and compares every result of the compiled `graph` that the program
// has in memory with the reference. Integers and moved elements must be equal. Floats are compared
// with the operator in double, within the error of float32:
//   sums of products   (16 + √n) · 2^-24 · Σ |terms|, of n terms (Higham, Accuracy and Stability of
//   Numerical Algorithms, 2002, §4.2;
//                      Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis,
//                      2019)
//   other operators    2^-20 of the result, and what 2^-22 of an operand, in whatever direction,
// changes about it Returns a description of the first difference (operator, element, both values
// and the bound); std::nullopt if there is none. Errors: those of running.
Result<std::optional<std::string>> check_operators(const Module& module, const Graph& graph,
                                                   Session& session,
                                                   std::span<const TensorView> inputs,
                                                   std::span<const ProgramValue> values);

// True if two graphs of one model have the same outputs in double, up to 2^-20 of the largest, or
// up to 64 times the change that relative errors of 2^-22 in every float value of `a` cause:
// constants of a rewritten graph are rounded to float32. Outputs may be quantized. Errors: those of
// evaluation.
Result<bool> agree_in_double(const Module& module, const Graph& a,
                             std::span<const TensorView> inputs_of_a, const Graph& b,
                             std::span<const TensorView> inputs_of_b);

}  // namespace dtr
