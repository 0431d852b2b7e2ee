// Float execution at speed: convolutions and linear layers run in oneDNN, activations stay
// channels-last between them, everything else is the reference evaluation. One primitive for each
// distinct shape; weights are brought into oneDNN's own order once.
#pragma once

#include <memory>

#include "compiler/executors/executor.h"

namespace dtr {

struct OneDnnOptions {
  // Observers may get a value of shape (N, C, H, W) channels-last, as a tensor of shape (N, H, W,
  // C), which saves transpositions. Where the shapes are equal it comes in logical order.
  bool observe_any_layout = false;
};

// The executor refers to program and graph; neither may change while it lives. Each run takes one
// thread; several runs at once use as many. Results agree with the reference executor up to the
// order of float sums. Errors: kIrInvalid (an op works on quantized types, cannot be evaluated in
// float, or breaks its own rules), kOutOfMemory (so does `run`).
Result<std::unique_ptr<Executor>> make_onednn_executor(const Module& module, const Graph& graph,
                                                       const OneDnnOptions& options = {});

// The executor for a model as it was read: oneDNN, or the reference executor where parts of it are
// quantized.
Result<std::unique_ptr<Executor>> make_model_executor(const Module& module, const Graph& graph);

}  // namespace dtr
