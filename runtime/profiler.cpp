#include "runtime/profiler.h"

namespace dtr::runtime {

using npu::ProfileEvent;
using npu::ProfileRecord;

Profiler::Profiler(std::span<ProfileRecord> buffer, ProfilerClock clock)
    : buffer_(buffer), clock_(clock), observer_{.context = this, .before = before, .after = after} {}

ProfileRecord* Profiler::take() {
  if (used_ == buffer_.size()) {
    ++lost_;
    return nullptr;
  }
  buffer_[used_] = {};
  return &buffer_[used_++];
}

size_t Profiler::start(ProfileEvent event) {
  ProfileRecord* record = take();
  if (record == nullptr) return kLost;
  record->start.event = event;
  npu::set_time(record->start, clock_.now(clock_.context));
  return used_ - 1;
}

void Profiler::stop(size_t at) {
  if (at == kLost) return;
  buffer_[at].stop.event = buffer_[at].start.event;
  npu::set_time(buffer_[at].stop, clock_.now(clock_.context));
}

void Profiler::memory(uint64_t planned, uint64_t used) {
  ProfileRecord* record = take();
  if (record == nullptr) return;
  record->start.event = record->stop.event = ProfileEvent::kMemory;
  npu::set_time(record->start, planned);
  npu::set_time(record->stop, used);
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

bool Profiler::before(void* self, const Method& method, uint32_t instruction) {
  auto& profiler = *static_cast<Profiler*>(self);
  profiler.current_ = profiler.start(method.is_delegate(instruction) ? ProfileEvent::kDelegate : ProfileEvent::kKernel);
  return true;
}

void Profiler::after(void* self, const Method&, uint32_t) {
  auto& profiler = *static_cast<Profiler*>(self);
  profiler.stop(profiler.current_);
}

}  // namespace dtr::runtime
