// The judge of passes: evaluates a graph in double on pseudo-random inputs, and what passes make of
// it, and compares the outputs.
#pragma once

#include <vector>

#include "compiler/executors/executor.h"
#include "compiler/ir/tensor.h"
#include "compiler/transforms/pass.h"

namespace dtr {

class SemanticsChecker {
 public:
  // Evaluates the graph before any pass. Errors: what the executor says if it cannot be evaluated.
  static Result<SemanticsChecker> start(const Module& module, const Graph& graph, uint64_t seed);

  // Compares every output of `after` with that of the graph at the start, as `exactness` promises:
  // kQuantization holds every op that became quantized against its float form on the same operands:
  // equal codes where elements are moved or selected, else no element more than one step apart. A
  // graph amplifies such steps, so that its outputs may differ by one step or have 25 dB. An input
  // or output that was float and is int8 now stands for the same real values. Errors:
  // kPassBrokeGraph with output, place and both values.
  Result<void> compare(const Module& module, const Graph& after, Exactness exactness);
  // The same; if it is good, what comes later is compared with `after`.
  Result<void> step(const Module& module, const Graph& after, Exactness exactness);

 private:
  Result<std::vector<Tensor>> evaluate(const Module& module, const Graph& graph,
                                       const ValueObserver& observer = {}) const;
  Result<void> adapt_inputs(const Module& module, const Graph& after);

  Graph graph_;  // what others are compared with
  uint64_t seed_ = 0;
  std::vector<Tensor> inputs_, outputs_;  // of graph_
  std::vector<Tensor> integers_;  // an input where it is int8 in a graph that is compared: inputs_
                                  // holds its real values
  std::vector<Tensor> latest_;    // outputs of the graph that was compared last
};

}  // namespace dtr
