// Float execution at speed: convolutions and linear layers run in oneDNN, activations stay channels-last between them, everything else
// is the reference evaluation. One primitive for each distinct shape; weights are brought into oneDNN's own order once.
#pragma once

#include <memory>

#include "ops/executor.h"

namespace dtr {

struct OneDnnOptions {
  // Observers get the elements of a value in any order, which saves transpositions: ranges and histograms do not depend on it.
  bool any_order = false;
};

// The executor refers to program and graph; neither may change while it lives. Each run takes one thread; several runs at once use
// as many. Results agree with the reference executor up to the order of float sums.
// Errors: kIrInvalid (an op works on quantized types, cannot be evaluated in float, or breaks its own rules).
Result<std::unique_ptr<Executor>> make_onednn_executor(const Program& program, const Graph& graph, const OneDnnOptions& options = {});

}  // namespace dtr
