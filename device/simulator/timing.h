// The timeline of a program (`docs/npu.md` 3): the host executes the commands in order, copies run
// concurrently one after the other, a call blocks the host. Freestanding; the caller provides the
// memory.
#pragma once

#include <cstdint>
#include <span>

#include "device/npu/driver.h"
#include "device/npu/microcode.h"
#include "device/npu/target.h"

namespace dtr::simulator {

class Timeline {
 public:
  // `arrivals`: one entry for each copy that may be in flight at a time
  // (Payload::most_copies_in_flight).
  Timeline(const npu::Target& target, std::span<uint64_t> arrivals)
      : target_(target), arrivals_(arrivals) {}

  npu::Event copy(uint32_t index, const npu::Copy& command);
  npu::Event wait(uint32_t index, const npu::Wait& command);
  npu::Event call(uint32_t index, npu::Opcode opcode, uint64_t busy_cycles);

  uint64_t now() const { return now_; }
  // Adds the cycles so far to a report.
  void write(npu::Report& report) const;

 private:
  const npu::Target& target_;
  std::span<uint64_t> arrivals_;  // of ticket t at t modulo its length
  uint64_t now_ = 0;              // the host's
  uint64_t engine_free_ = 0;
  uint64_t busy_ = 0, host_ = 0, stall_ = 0, copied_ = 0;
  uint32_t calls_ = 0, waited_ = 0;
};

}  // namespace dtr::simulator
