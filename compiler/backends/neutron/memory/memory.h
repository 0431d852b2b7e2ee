// Which storages share a buffer, and at which steps (kernel calls) each buffer is live.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/backends/neutron/call.h"

namespace dtr::neutron {

struct Buffer {
  uint32_t bytes = 0;
  uint32_t first_step = 0, last_step = 0;  // inclusive
  std::optional<uint32_t>
      operand_storage;  // a storage that is an operand of the delegate, if the buffer is one
  std::string name;
};

struct MemoryPlan {
  std::vector<uint32_t> buffer_of;  // by storage
  std::vector<Buffer> buffers;
  std::vector<uint64_t> live_bytes;  // by step: operands and interior, staging not counted
  uint64_t peak() const;
};

// A call writes over an operand of its own where the machine allows it (Lookup, Add, Softmax; the
// addend of a convolution that is not also its input) and nobody reads that operand later. Inputs
// of the delegate are never written. A result that is an operand of the delegate lends its memory
// in the same way. Linear in the number of calls.
MemoryPlan plan_memory(const LoweredGraph& graph);

}  // namespace dtr::neutron
