// Partitions a graph for ExecuTorch's ahead-of-time flow: which nodes the NPU runs, and the program
// of a part of the graph.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/pipeline/compile.h"

namespace dtr {

// Where an operator of the model runs. A node without a row has no operator left after the passes:
// it was merged into others, as quantize and dequantize are.
struct NodePlacement {
  std::string node;
  bool delegated = false;
  std::string id, reason, remedy;  // why it is not delegated
  std::string because_of;          // the operator that is the cause, if this one only follows it
};
// By node, in the order of the model, after place_model.
std::vector<NodePlacement> node_placements(const Compilation& compilation);

// The nodes of each event in ETDumps (executorch::event_id), after compile_model.
std::vector<std::pair<int32_t, std::vector<std::string>>> event_nodes(
    const Compilation& compilation);

}  // namespace dtr
