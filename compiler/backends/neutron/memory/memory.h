// Assigns storages to buffers: which storages share a buffer, and in which steps (kernel calls) it
// is live.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/backends/neutron/call.h"
#include "compiler/support/arena_planner.h"

namespace dtr::neutron {

// Memory of one or more storages whose live ranges allow sharing it.
struct Buffer {
  uint32_t bytes = 0;
  uint32_t first_step = 0, last_step = 0;  // inclusive
  std::optional<uint32_t>
      operand_storage;  // the storage of the delegate's operand, if the buffer holds one
  std::string name;
};

struct MemoryPlan {
  std::vector<uint32_t> buffer_of;  // by storage
  std::vector<Buffer> buffers;
  std::vector<ArenaTrail> trails;  // between buffers, that save bytes
  // By step: operands and interior, staging not counted, less what trails let overlap.
  std::vector<uint64_t> live_bytes;
  uint64_t peak() const;
};

// Lets a call overwrite an operand where the kernel allows it (Lookup, Add, Softmax; the addend of
// a convolution unless it is also its input) and no later call reads that operand. Inputs of the
// delegate are never overwritten. A result that is an output of the delegate may share its buffer
// in the same way.
//
// Where several calls, stripes of a chain, read an operand for the last time and write a result,
// both from low to high addresses, the result may be written over the part of the operand that is
// not read any more: a trail. A call by itself never writes where it reads, but as said above.
MemoryPlan plan_memory(const LoweredGraph& graph);

}  // namespace dtr::neutron
