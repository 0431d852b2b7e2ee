// Runs a graph with states as a stream: each run begins with the states that the run before left.
#pragma once

#include <memory>

#include "compiler/executors/executor.h"

namespace dtr {

// An executor that takes the user's inputs and gives the user's outputs of `graph`; it keeps the
// states, which begin with their initial values, and calls `executor` for all inputs and outputs.
// Observers see states like inputs. Not thread-safe, unlike other executors: runs depend on each
// other. A graph without states: `executor` itself.
std::unique_ptr<Executor> make_stream(const Module& module, const Graph& graph,
                                      std::unique_ptr<Executor> executor);

// The initial values of a graph's states.
std::vector<Tensor> initial_states(const Module& module, const Graph& graph);

}  // namespace dtr
