// Records the time of each step of a run in a buffer of the caller: every call of a kernel or
// delegate, and every kernel call, copy and wait of the NPU inside of a delegate. A run without a
// profiler has no overhead. If the buffer is full, further events are counted, not recorded: the
// oldest are kept.
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

// The host's clock in cycles. A counter of fewer than 40 bits wraps; times are correct if
// consecutive events are less than one wrap apart.
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

  // `start` returns the index of the event's record for `stop`, or `kLost` if the buffer is full.
  // `stop` ignores an index that was not returned by `start`.
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
  // The header that precedes the records in a file, with magic, version and counts.
  npu::ProfileHeader header() const;
  // Records so many calls and commands, then clears all records: measures the overhead of
  // recording.
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

// Figures of a step beside its time.
struct ProfiledStep {
  uint64_t npu_cycles = 0;
  size_t touched_end = 0;  // see below
};

// A program of a firmware project, for recording.
struct ProfiledProgram {
  uint32_t checksum;  // ProfileHeader::program
  uint32_t steps;     // kernel and delegate calls of a run
  uint32_t events;    // of a run
  uint32_t planned_bytes;
  Status (*load)();
  Status (*prepare)();
  void (*record_npu)(
      Profiler* profiler);              // sends the NPU's commands to this profiler; null: to none
  ProfiledStep (*step)(uint32_t step);  // of the last step
};

// The highest end, in bytes from the start of the planned memory, of an instruction's arguments.
// `peak_scratch_bytes`: the bytes of its last argument that the NPU's delegate touched, 0 if
// unknown (npu::Report).
size_t touched_end(std::span<Value* const> arguments,
                   std::span<const std::span<std::byte>> memories, size_t peak_scratch_bytes);

}  // namespace dtr::runtime
