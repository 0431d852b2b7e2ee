// Attributes the error of a quantized graph's outputs to its operators.
//
// Values of the float graph are replaced, operator by operator in program order, by those that the
// quantized graph computed, and the rest is evaluated in float. The outputs then move from the
// float model's to the quantized one's in as many steps as there are operators: d_k = y_k −
// y_{k−1}, Σ d_k = e. The share of operator k is ⟨d_k, e⟩ / ⟨e, e⟩. Shares add up to 1; without
// correlation between operators each is ‖d_k‖² / ‖e‖², which is the part of the error's power that
// leaving this operator's result and weights in float removes. A negative share makes up for the
// error of others. An operator's step holds the rounding of its weights and of its result, carried
// through all that follows in float.
#pragma once

#include <cstdint>
#include <map>

#include "compiler/ir/graph.h"
#include "compiler/ir/samples.h"

namespace dtr {

// quantize, dequantize or requantize: an op whose result stands for the same value of the float
// graph as its operand.
bool changes_quantization(const OpDef* def);

// The work that the shares may cost, in multiply-accumulates of the float graph: it decides how
// many samples are taken.
inline constexpr int64_t kMostShareMacs = 20'000'000'000;

struct ErrorShares {
  size_t samples = 0;            // that were run; 0: no shares, since the model has states
  std::map<OpId, double> share;  // of the ops of the quantized graph; their sum is 1, or all are 0
};

// `ideal` and `quantized` as report_quantization takes them; at most `most_samples` evenly spaced
// samples. Every output counts alike: its error is divided by the power of its signal. Outputs that
// are not float do not count. The result does not depend on `threads` (0: one for each processor).
// Errors: those of the reference executor.
Result<ErrorShares> share_errors(const Module& module, const Graph& ideal, const Graph& quantized,
                                 const Samples& samples, size_t most_samples, unsigned threads = 0);

}  // namespace dtr
