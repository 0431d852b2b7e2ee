// Takes the graphs of regions of an export into the graph around them.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace dtr::pt2 {

// Replaces nodes that run a graph as it is (`torch.autocast`, `torch.no_grad`, a checkpoint, a
// repeated module) by the nodes of that graph, also inside of such graphs. `graph` is that of a
// file's JSON. Results keep their names; what was computed without gradient is detached. Branches
// and loops stay, and so do regions of a form that torch.export does not write. Returns whether
// there were any. Throws what the library throws where the graph is not well formed.
bool inline_regions(nlohmann::json& graph);

}  // namespace dtr::pt2
