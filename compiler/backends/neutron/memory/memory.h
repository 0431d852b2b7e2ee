// Assigns storages to buffers: which storages share a buffer, and in which steps (kernel calls) it
// is live.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/backends/neutron/call.h"

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
  std::vector<uint64_t> live_bytes;  // by step: operands and interior, staging not counted
  uint64_t peak() const;
};

// Lets a call overwrite an operand where the kernel allows it (Lookup, Add, Softmax; the addend of
// a convolution unless it is also its input) and no later call reads that operand. Inputs of the
// delegate are never overwritten. A result that is an output of the delegate may share its buffer
// in the same way. Linear in the number of calls.
MemoryPlan plan_memory(const LoweredGraph& graph);

}  // namespace dtr::neutron
