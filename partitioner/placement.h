// Which backend runs which op, why others refused, and how ops group into partitions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partitioner/backend.h"

namespace dtr {

using Recipe = std::vector<std::unique_ptr<Backend>>;  // first choice first

struct RefusedBy {
  size_t backend;  // index into the recipe
  Refusal refusal;
};

struct Placement {
  static constexpr uint8_t kNowhere = 255;
  std::vector<uint8_t> backend;                  // by op slot: index into the recipe
  std::vector<std::vector<RefusedBy>> refusals;  // by op slot, in recipe order
};

// Each op goes to the first backend of the recipe that takes it. Errors: kNoBackend, naming every op that no backend takes, with the
// reasons.
Result<Placement> place(const Program& program, const Graph& graph, const Recipe& recipe);

// Ops that run together: one delegate call, or one op as a kernel call of the program.
struct Unit {
  uint8_t backend = 0;
  std::vector<OpId> ops;         // in program order
  std::vector<ValueId> inputs;   // values from outside, constants not counted, in order of first use
  std::vector<ValueId> outputs;  // values used outside, in order of definition
};

// Groups the ops of delegates into units that are as large as they can be without a cycle between units, and orders all units so that
// each comes after those it reads from. Linear in the size of the graph.
std::vector<Unit> partition(const Graph& graph, const Placement& placement, const Recipe& recipe);

// A unit as a graph of its own: inputs and outputs in the unit's order, names, origins, layouts and quantization kept.
Graph extract(const Graph& graph, const Unit& unit);

}  // namespace dtr
