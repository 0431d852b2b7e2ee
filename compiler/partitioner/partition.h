// Groups placed ops into partitions: calls of delegates and kernels.
//
// Every op gets a level. Along an edge the level does not fall, and it rises by one where the
// producer runs on a delegate and the consumer elsewhere; ops of one delegate at one level form a
// partition. A path that leaves a partition and comes back has a higher level, so that partitions
// never depend on each other in a cycle; a path that alternates T times needs at least T levels and
// T partitions, and gets no more. Some ops have a choice of levels: work beside a CPU op can join
// the partition before it, the partition after it, or be split. The choice minimizes the bytes
// handed from one partition to the next, weighted by how many partitions later they are read: a
// minimum cut with a node for each op and level (Ishikawa's construction), exact for that cost.
// Where levels leave no choice, as in a chain, there is nothing to solve and the work is linear;
// else the cut has at most kMaxCutNodes nodes, and beyond that every op takes its first level.
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

// Bounds the time of the minimum cut.
inline constexpr size_t kMaxCutNodes = 20'000;

// The partition of these ops, in program order, with its inputs and outputs.
Partition make_partition(const Graph& graph, uint8_t backend, std::vector<OpId> ops);

// The partitions of a graph in execution order: each comes after those that it reads from.
std::vector<Partition> make_partitions(const Graph& graph, const Placement& placement,
                                       const Recipe& recipe);

// The cost of dispatching all delegate calls, in cycles: starting each call, and handing over its
// inputs and outputs at eight bytes a cycle.
uint64_t dispatch_cost(const Graph& graph, const std::vector<Partition>& partitions,
                       const Recipe& recipe);

// A partition as a graph of its own: inputs and outputs in the partition's order, with names,
// origins, layouts and quantization.
Graph extract(const Graph& graph, const Partition& partition);

}  // namespace dtr
