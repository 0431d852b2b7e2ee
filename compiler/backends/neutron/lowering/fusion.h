// Fuses ops: plans which of them one kernel call computes together.
#pragma once

#include "compiler/backends/neutron/lowering/rules.h"

namespace dtr::neutron {

// Puts every op of the graph into exactly one group. Groups are in the order of their roots, so
// that everything a group's call reads is computed before it. Linear in the size of the graph.
std::vector<Group> plan_groups(const Machine& machine, const Module& module, const Graph& graph);

}  // namespace dtr::neutron
