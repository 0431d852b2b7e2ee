// Checks that passes preserve results: evaluates a graph in double on pseudo-random inputs before
// and after passes, and compares the outputs.
#pragma once

#include <vector>

#include "compiler/executors/executor.h"
#include "compiler/ir/tensor.h"
#include "compiler/transforms/pass.h"

namespace dtr {

class SemanticsChecker {
 public:
  // Evaluates the graph before any pass. Errors: those of the executor, if the graph cannot be
  // evaluated.
  static Result<SemanticsChecker> start(const Module& module, const Graph& graph, uint64_t seed);

  // Compares every output of `after` with that of the graph at the start, as `exactness` requires.
  // kQuantization compares every op that became quantized with its float form on the same operands:
  // equal codes where elements are moved or selected, else no element more than one step apart;
  // since a graph amplifies such steps, its outputs may differ by one step or have 25 dB. An input
  // or output that was float and became int8 represents the same real values. Errors:
  // kPassBrokeGraph with output, index and both values; those of the executor.
  Result<void> compare(const Module& module, const Graph& after, Exactness exactness);
  // The same; on success later graphs are compared with `after`. Errors: as compare.
  Result<void> step(const Module& module, const Graph& after, Exactness exactness);

 private:
  Result<std::vector<Tensor>> evaluate(const Module& module, const Graph& graph,
                                       const ValueObserver& observer = {}) const;
  Result<void> adapt_inputs(const Module& module, const Graph& after);

  Graph graph_;  // the graph that others are compared with
  uint64_t seed_ = 0;
  std::vector<Tensor> inputs_, outputs_;  // of graph_
  // int8 form of an input, for graphs that take int8: inputs_ has its real values
  std::vector<Tensor> integers_;
  std::vector<Tensor> latest_;  // outputs of the last compared graph
};

}  // namespace dtr
