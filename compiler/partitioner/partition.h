// How placed ops group into calls of delegates and kernels.
//
// Every op gets a level. Along an edge the level does not fall, and it rises by one where the
// producer runs on a delegate and the consumer elsewhere; ops of one delegate at one level form a
// unit. A path that leaves a unit and comes back has become deeper, so units never depend on each
// other in a circle; a path that alternates T times needs T levels and T units whatever one does,
// and no more are made. Within that an op may have a choice of levels: work beside a CPU op can
// join the unit before it, the unit behind it, or be split. The choice is the minimum of the bytes
// handed from one unit to the next, weighted by how many units later they are read: a minimum cut
// with a node for each op and level (Ishikawa's construction), exact for that cost. Where levels
// leave no choice, as in a chain, there is nothing to solve and the work is linear; else the cut
// has at most kMaxCutNodes nodes, and beyond that every op takes its first level.
#pragma once

#include "compiler/partitioner/placement.h"

namespace dtr {

// Ops that run together: one delegate call, or one op as a kernel call of the program.
struct Partition {
  uint8_t backend = 0;
  std::vector<OpId> ops;        // in program order
  std::vector<ValueId> inputs;  // values from outside, constants not counted, in order of first use
  std::vector<ValueId> outputs;  // values used outside, in order of definition
};

inline constexpr size_t kMaxCutNodes = 20'000;

// Units in an order in which each comes after those it reads from.
std::vector<Partition> make_partitions(const Graph& graph, const Placement& placement,
                                       const Recipe& recipe);

// What handing over costs, in cycles: the start of every delegate call, and its inputs and outputs
// at eight bytes a cycle.
uint64_t dispatch_cost(const Graph& graph, const std::vector<Partition>& partitions,
                       const Recipe& recipe);

// A unit as a graph of its own: inputs and outputs in the unit's order, names, origins, layouts and
// quantization kept.
Graph extract(const Graph& graph, const Partition& partition);

}  // namespace dtr
