// How far a result must stay behind an operand that is read while the result is written.
#pragma once

#include "compiler/backends/neutron/memory/footprint.h"
#include "compiler/backends/neutron/memory/memory.h"

namespace dtr::neutron {

// Accesses to an operand and a result in the order of calls. All that a call reads is counted as
// read before and after its writes: a call by itself never overwrites what it reads.
class TrailLag {
 public:
  // `read`: bytes of the operand from `read.begin` on may be read. `write`: bytes of the result up
  // to `write.end` may be written. Empty ranges: none.
  void add_call(ByteRange read, ByteRange write);
  // The least lag with which no call writes over bytes that it or a later one reads; INT64_MIN if
  // nothing is read after the first write.
  int64_t lag() const;

 private:
  std::vector<std::pair<uint64_t, uint64_t>> calls_;  // first byte read, end of bytes written
};

// All pairs of buffers of the plan that may overlap and save bytes by it.
std::vector<ArenaTrail> find_trails(const LoweredGraph& graph, const MemoryPlan& plan);

}  // namespace dtr::neutron
