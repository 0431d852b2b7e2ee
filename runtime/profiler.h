// Records what a run costs into a buffer that the caller gives: every call of a kernel or a delegate, and inside of a delegate every
// kernel call, copy and wait of the NPU. Costs nothing where none is given to a run. Once the buffer is full further events are counted,
// not written: the oldest are kept.
//
//   Profiler profiler(records, {now, context});
//   deuteron_context.on_event = Profiler::on_npu_event, deuteron_context.event_context = &profiler;
//   const size_t run = profiler.start(npu::ProfileEvent::kRun);
//   method.run(&profiler.observer());
//   profiler.stop(run);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/npu/driver.h"
#include "abi/npu/profile.h"
#include "runtime/method.h"

namespace dtr::runtime {

// The host's time in cycles; wraps at 2^40.
struct ProfilerClock {
  uint64_t (*now)(void* context) = nullptr;
  void* context = nullptr;
};

class Profiler {
 public:
  Profiler(std::span<npu::ProfileRecord> buffer, ProfilerClock clock);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Both give and take the event's place; `kLost` where there was no room.
  static constexpr size_t kLost = SIZE_MAX;
  size_t start(npu::ProfileEvent event);
  void stop(size_t at);
  // Bytes of planned memory and how many of them are in use at most.
  void memory(uint64_t planned, uint64_t used);

  // For Method::run: records each instruction.
  const Observer& observer() const { return observer_; }
  // For DeuteronContext::on_event, with this as context.
  static void on_npu_event(void* profiler, const npu::Event& event);

  std::span<const npu::ProfileRecord> records() const { return buffer_.first(used_); }
  uint64_t lost() const { return lost_; }  // events for which there was no room
  void clear() { used_ = 0, lost_ = 0; }

 private:
  npu::ProfileRecord* take();
  static bool before(void* self, const Method& method, uint32_t instruction);
  static void after(void* self, const Method& method, uint32_t instruction);

  std::span<npu::ProfileRecord> buffer_;
  ProfilerClock clock_;
  Observer observer_;
  size_t used_ = 0;
  uint64_t lost_ = 0;
  size_t current_ = kLost;  // record of the instruction that runs
};

}  // namespace dtr::runtime
