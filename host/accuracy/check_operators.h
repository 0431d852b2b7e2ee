// A compiled program operator by operator: each is judged on the operands that the program itself
// computed, so that no error is judged by what operators behind it make of it.
#pragma once

#include <optional>
#include <string>

#include "compiler/pipeline/compilation.h"
#include "host/session/session.h"

namespace dtr {

// Runs the program on `inputs` and holds every result of `graph`, as it was compiled, that the
// program has in memory against the reference. Integers and what is only moved must be equal.
// Floats are held against the operator in double, and may differ by what float32 leaves:
//   sums of products   (16 + √n) · 2^-24 · Σ |terms|, of n terms (Higham, Accuracy and Stability of
//   Numerical Algorithms, 2002, §4.2;
//                      Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis,
//                      2019)
//   other operators    2^-20 of the result, and what 2^-22 of an operand, in whatever direction,
//   changes about it
// Returns the first difference in words: operator, element, both values and the bound; nullopt
// without one. Errors: those of running.
Result<std::optional<std::string>> check_operators(const Module& module, const Graph& graph,
                                                   Session& session,
                                                   std::span<const TensorView> inputs,
                                                   std::span<const ProgramValue> values);

// Whether two graphs of one model give the same outputs in double, up to 2^-20 of the largest, or
// 64 times what relative errors of 2^-22 in every float value of `a` change about an output:
// constants of a rewritten graph are rounded to float32. The outputs may be quantized. Errors:
// those of evaluation.
Result<bool> agree_in_double(const Module& module, const Graph& a,
                             std::span<const TensorView> inputs_of_a, const Graph& b,
                             std::span<const TensorView> inputs_of_b);

}  // namespace dtr
