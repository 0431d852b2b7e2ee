// Records what a run costs into a buffer that the caller gives: every call of a kernel or a
// delegate, and inside of a delegate every kernel call, copy and wait of the NPU. Costs nothing
// where none is given to a run. Once the buffer is full further events are counted, not written:
// the oldest are kept.
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

#include "device/npu/driver.h"
#include "device/npu/profile.h"
#include "device/runtime/method.h"

namespace dtr::runtime {

// The host's time in cycles. A counter of fewer bits than 40 begins at 0 again: as long as two
// events are less apart than that, times are right.
struct ProfilerClock {
  uint64_t (*now)(void* context) = nullptr;
  void* context = nullptr;
  uint32_t bits = npu::kProfileTimeBits;
};

class Profiler {
 public:
  Profiler(std::span<npu::ProfileRecord> buffer, ProfilerClock clock);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Both give and take the event's place; `kLost` where there was no room. A stop of no event that
  // was started writes nothing.
  static constexpr size_t kLost = SIZE_MAX;
  size_t start(npu::ProfileEvent event);
  void stop(size_t at);

  // For Method::run: records each instruction.
  const Observer& observer() const { return observer_; }
  // For DeuteronContext::on_event, with this as context.
  static void on_npu_event(void* profiler, const npu::Event& event);

  std::span<const npu::ProfileRecord> records() const { return buffer_.first(used_); }
  uint64_t lost() const { return lost_; }  // events for which there was no room
  void clear() { used_ = 0, lost_ = 0; }
  // What goes before the records where they are kept; magic, version and counts are filled in.
  npu::ProfileHeader header() const;
  // Records so many calls and commands and forgets them and all others: for measuring what that
  // costs.
  void record_and_discard(size_t calls, size_t commands);

 private:
  npu::ProfileRecord* take();
  uint64_t now();
  static bool before(void* self, const Method& method, uint32_t instruction);
  static void after(void* self, const Method& method, uint32_t instruction);

  std::span<npu::ProfileRecord> buffer_;
  ProfilerClock clock_;
  uint64_t time_ = 0;
  Observer observer_;
  size_t used_ = 0;
  uint64_t lost_ = 0;
  size_t current_ = kLost;  // record of the instruction that runs
};

// What a step did beside taking time.
struct ProfiledStep {
  uint64_t npu_cycles = 0;
  size_t touched_end = 0;  // see below
};

// What a firmware project knows of a program that is recorded.
struct ProfiledProgram {
  uint32_t checksum;  // ProfileHeader::program
  uint32_t steps;     // kernel and delegate calls of a run
  uint32_t events;    // of a run
  uint32_t planned_bytes;
  Status (*load)();
  Status (*prepare)();
  void (*record_npu)(
      Profiler* profiler);              // tells it of the NPU's commands from now on; null: nobody
  ProfiledStep (*step)(uint32_t step);  // of the one that ran last
};

// Where in the planned memory the arguments of an instruction end: of the one that ends last.
// `peak_scratch_bytes`: what a delegate of the NPU touched of its last argument, 0 if that is not
// known (npu::Report).
size_t touched_end(std::span<Value* const> arguments,
                   std::span<const std::span<std::byte>> memories, size_t peak_scratch_bytes);

}  // namespace dtr::runtime
