#include "device/simulator/simulator.h"

#include <cstring>

#include "device/npu/cycles.h"
#include "device/simulator/timing.h"

namespace dtr::simulator {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

bool misaligned(const Buffer& buffer) {
  return reinterpret_cast<uintptr_t>(buffer.data) % kAlignment != 0;
}

// Executes one command after the other; the visitor of `execute`.
class Execution {
 public:
  Execution(const Target& target, const Payload& payload, std::span<const Buffer> operands,
            Buffer scratch, const Kernels& kernels, void* kernel_context,
            std::span<uint64_t> arrivals, EventSink sink)
      : target_(target),
        regions_{const_cast<std::byte*>(payload.constants().data()), operands, scratch},
        kernels_(kernels),
        kernel_context_(kernel_context),
        timeline_(target, arrivals),
        sink_(sink) {}

  Status operator()(uint32_t, const End&) { return Status::kOk; }
  Status operator()(uint32_t index, const Copy& command) {
    std::memcpy(regions_.at(command.destination), regions_.at(command.source), command.bytes);
    emit_event(timeline_.copy(index, command));
    return Status::kOk;
  }
  Status operator()(uint32_t index, const Wait& command) {
    emit_event(timeline_.wait(index, command));
    return Status::kOk;
  }
  template <class Command>
  Status operator()(uint32_t index, const Command& command) {
    const Status status =
        simulator::run(kernels_, {target_, index, kernel_context_}, regions_, command);
    if (status == Status::kOk)
      emit_event(timeline_.call(index, Command::kOpcode, cycles(target_, command).total));
    return status;
  }
  const Timeline& timeline() const { return timeline_; }

 private:
  void emit_event(const Event& event) const {
    if (sink_.on_event != nullptr) sink_.on_event(sink_.context, event);
  }

  const Target& target_;
  Regions regions_;
  const Kernels& kernels_;
  void* kernel_context_;
  Timeline timeline_;
  EventSink sink_;
};

Simulator& self(void* context) { return *static_cast<Simulator*>(context); }

Report refused(Status status) {
  Report report;
  report.status = status;
  return report;
}

}  // namespace

Status check_memory(const Payload& payload, std::span<const Buffer> operands, Buffer scratch) {
  if (operands.size() != payload.header.operand_count) return Status::kBadOperand;
  for (uint32_t i = 0; i < operands.size(); ++i) {
    if (operands[i].data == nullptr || operands[i].bytes != payload.operand(i).bytes)
      return Status::kBadOperand;
    if (misaligned(operands[i])) return Status::kMisaligned;
  }
  if (scratch.bytes < payload.header.scratch_bytes ||
      (scratch.data == nullptr && payload.header.scratch_bytes != 0))
    return Status::kBadOperand;
  return misaligned(scratch) ? Status::kMisaligned : Status::kOk;
}

Report execute(const Target& target, const Payload& payload, std::span<const Buffer> operands,
               Buffer scratch, const Kernels& kernels, void* kernel_context,
               std::span<uint64_t> arrivals, EventSink sink) {
  Execution execution(target, payload, operands, scratch, kernels, kernel_context, arrivals, sink);
  const Fault fault = visit(payload, execution);
  Report report = refused(fault.status);
  report.command = fault.command;
  report.peak_scratch_bytes = payload.peak_scratch_bytes;
  execution.timeline().write(report);
  return report;
}

Status Simulator::prepare(const void* payload, size_t bytes, uint32_t* handle) {
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].used) continue;
    const Fault fault =
        decode(target_, {static_cast<const std::byte*>(payload), bytes}, slots_[i].payload);
    if (fault.status != Status::kOk) return fault.status;
    if (slots_[i].payload.most_copies_in_flight > arrivals_.size()) return Status::kOutOfMemory;
    slots_[i].used = true;
    *handle = i;
    return Status::kOk;
  }
  return Status::kOutOfMemory;
}

Report Simulator::run(uint32_t handle, std::span<const Buffer> operands, Buffer scratch,
                      EventSink sink) {
  if (handle >= slots_.size() || !slots_[handle].used) return refused(Status::kBadOperand);
  const Payload& payload = slots_[handle].payload;
  if (const Status status = check_memory(payload, operands, scratch); status != Status::kOk)
    return refused(status);
  return execute(target_, payload, operands, scratch, kernels_, nullptr, arrivals_, sink);
}

void Simulator::unprepare(uint32_t handle) {
  if (handle < slots_.size()) slots_[handle].used = false;
}

Driver Simulator::driver() {
  return {this,
          [](void* context, const void* payload, size_t bytes, uint32_t* handle) {
            return self(context).prepare(payload, bytes, handle);
          },
          [](void* context, uint32_t handle, const Buffer* operands, uint32_t operand_count,
             Buffer scratch, void (*on_event)(void* event_context, const Event& event),
             void* event_context) {
            return self(context).run(handle, {operands, operand_count}, scratch,
                                     {on_event, event_context});
          },
          [](void* context, uint32_t handle) { self(context).unprepare(handle); }};
}

}  // namespace dtr::simulator
