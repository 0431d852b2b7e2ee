#include "device/runtime/profiler.h"

namespace dtr::runtime {

using npu::ProfileEvent;
using npu::ProfileRecord;

Profiler::Profiler(std::span<ProfileRecord> buffer, ProfilerClock clock)
    : buffer_(buffer),
      clock_(clock),
      observer_{.context = this, .before = before, .after = after} {}

ProfileRecord* Profiler::take() {
  if (used_ == buffer_.size()) {
    ++lost_;
    return nullptr;
  }
  buffer_[used_] = {};
  return &buffer_[used_++];
}

// Adds the time since the last call, modulo the clock's range.
uint64_t Profiler::now() {
  const uint64_t passed = clock_.now(clock_.context) - time_;
  time_ += clock_.bits < 64 ? passed & ((uint64_t{1} << clock_.bits) - 1) : passed;
  return time_;
}

// The clock is read for lost events too: it may wrap while they are lost.
size_t Profiler::start(ProfileEvent event) {
  const uint64_t time = now();
  ProfileRecord* record = take();
  if (record == nullptr) return kLost;
  record->start.event = event;
  npu::set_time(record->start, time);
  return used_ - 1;
}

void Profiler::stop(size_t at) {
  const uint64_t time = now();
  if (at >= used_ || buffer_[at].stop.event != ProfileEvent::kNone) return;
  buffer_[at].stop.event = buffer_[at].start.event;
  npu::set_time(buffer_[at].stop, time);
}

void Profiler::on_npu_event(void* profiler, const npu::Event& event) {
  ProfileRecord* record = static_cast<Profiler*>(profiler)->take();
  if (record == nullptr) return;
  uint64_t start = event.start;
  switch (event.kind) {
    case npu::EventKind::kCall:
      record->start.event = ProfileEvent::kCall;
      record->stop.op = npu::kCallArguments;
      start = event.end - event.busy;
      break;
    case npu::EventKind::kCopy:
      record->start.event = ProfileEvent::kCopy;
      break;
    case npu::EventKind::kWait:
      record->start.event = ProfileEvent::kWait;
      break;
  }
  record->start.function = record->stop.function = event.opcode;
  record->stop.event = record->start.event;
  npu::set_time(record->start, start);
  npu::set_time(record->stop, event.end);
}

npu::ProfileHeader Profiler::header() const {
  return {.records = static_cast<uint32_t>(used_),
          .lost = static_cast<uint32_t>(lost_ < UINT32_MAX ? lost_ : UINT32_MAX)};
}

void Profiler::record_and_discard(size_t calls, size_t commands) {
  const npu::Event event{};
  for (size_t i = 0; i < calls + commands; ++i) {
    if (used_ == buffer_.size()) clear();
    if (i < calls) {
      stop(start(ProfileEvent::kKernel));
    } else {
      on_npu_event(this, event);
    }
  }
  clear();
}

bool Profiler::before(void* self, const Method& method, uint32_t instruction) {
  auto& profiler = *static_cast<Profiler*>(self);
  profiler.current_ = profiler.start(method.is_delegate(instruction) ? ProfileEvent::kDelegate
                                                                     : ProfileEvent::kKernel);
  return true;
}

void Profiler::after(void* self, const Method&, uint32_t) {
  auto& profiler = *static_cast<Profiler*>(self);
  profiler.stop(profiler.current_);
}

size_t touched_end(std::span<Value* const> arguments,
                   std::span<const std::span<std::byte>> memories, size_t peak_scratch_bytes) {
  size_t end = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i]->kind != ValueKind::kTensor) continue;
    const Tensor& tensor = arguments[i]->tensor;
    const bool scratch = i + 1 == arguments.size() && peak_scratch_bytes > 0;
    const size_t bytes = scratch ? peak_scratch_bytes : tensor.bytes();
    for (const std::span<std::byte> memory : memories) {
      if (tensor.data < memory.data() || tensor.data >= memory.data() + memory.size()) continue;
      const size_t last = static_cast<size_t>(tensor.data - memory.data()) + bytes;
      if (last > end) end = last;
    }
  }
  return end;
}

}  // namespace dtr::runtime
