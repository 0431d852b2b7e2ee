// Which ops share a call.
#pragma once

#include "compiler/backends/neutron/lowering/rules.h"

namespace dtr::neutron {

// Every op of the graph is in exactly one group. Groups stand in the order of their roots, which is
// where their calls stand: all that a call reads is computed before it. Linear in the size of the
// graph.
std::vector<Group> plan_groups(const Machine& machine, const Module& module, const Graph& graph);

}  // namespace dtr::neutron
