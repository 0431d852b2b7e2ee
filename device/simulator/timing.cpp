#include "device/simulator/timing.h"

#include "device/npu/cycles.h"

namespace dtr::simulator {

npu::Event Timeline::copy(uint32_t index, const npu::Copy& command) {
  now_ += target_.copy_host_cycles;
  host_ += target_.copy_host_cycles;
  copied_ += command.bytes;
  const uint64_t start = now_ > engine_free_ ? now_ : engine_free_;
  engine_free_ = start + npu::copy_cycles(target_, command);
  arrivals_[command.ticket % arrivals_.size()] = engine_free_;
  return {index, npu::EventKind::kCopy,
          start, engine_free_,
          0,     static_cast<uint8_t>(npu::Opcode::kCopy)};
}

npu::Event Timeline::wait(uint32_t index, const npu::Wait& command) {
  const uint64_t start = now_;
  if (command.ticket > waited_) {  // an older ticket's entry may belong to a later copy by now
    waited_ = command.ticket;
    const uint64_t arrival = arrivals_[command.ticket % arrivals_.size()];
    if (arrival > now_) now_ = arrival;
  }
  stall_ += now_ - start;
  return {index, npu::EventKind::kWait, start, now_, 0, static_cast<uint8_t>(npu::Opcode::kWait)};
}

npu::Event Timeline::call(uint32_t index, npu::Opcode opcode, uint64_t busy_cycles) {
  const uint64_t start = now_;
  now_ += target_.call_host_cycles + busy_cycles;
  host_ += target_.call_host_cycles;
  busy_ += busy_cycles;
  ++calls_;
  return {index, npu::EventKind::kCall, start, now_, busy_cycles, static_cast<uint8_t>(opcode)};
}

void Timeline::write(npu::Report& report) const {
  report.total_cycles = now_;
  report.busy_cycles = busy_;
  report.host_cycles = host_;
  report.stall_cycles = stall_;
  report.copied_bytes = copied_;
  report.calls = calls_;
}

}  // namespace dtr::simulator
