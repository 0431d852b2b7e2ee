// Fast float execution: convolutions and linear layers run in oneDNN, activations stay
// channels-last between them, other ops use the reference evaluation. Creates one primitive for
// each distinct shape and converts weights to oneDNN's layout once.
#pragma once

#include <cstddef>
#include <memory>

#include "compiler/executors/executor.h"

namespace dtr {

struct OneDnnOptions {
  // True: observers may get a value of shape (N, C, H, W) as a channels-last tensor of shape (N, H,
  // W, C), which saves transpositions. If the two shapes are equal, elements are in logical order.
  bool observe_any_layout = false;
  // Linear layers whose weights together take more read them as they are: packed they would take as
  // much again, which is most of the memory that a large model needs, and save 7 % of the time of
  // many runs (a transformer of 100 MB).
  size_t most_packed_bytes = size_t{32} << 20;
};

// The executor refers to module and graph, which must not change while it lives. Each run uses one
// thread; concurrent runs are allowed. Results agree with the reference executor up to the order of
// float sums. Errors: kIrInvalid (an op works on quantized types, cannot be evaluated in float, or
// breaks its own rules), kOutOfMemory (so does `run`).
Result<std::unique_ptr<Executor>> make_onednn_executor(const Module& module, const Graph& graph,
                                                       const OneDnnOptions& options = {});

// The executor for a model as it was read: oneDNN, or the reference executor if any part of it is
// quantized. Errors: those of make_onednn_executor.
Result<std::unique_ptr<Executor>> make_model_executor(const Module& module, const Graph& graph,
                                                      const OneDnnOptions& options = {});

}  // namespace dtr
