#include "device/simulator/simulator.h"

#include <cstring>

#include "device/npu/cycles.h"
#include "device/simulator/timing.h"

namespace dtr::simulator {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

bool misaligned(const Buffer& buffer) { return reinterpret_cast<uintptr_t>(buffer.data) % kAlignment != 0; }

// Executes one command after the other; the visitor of `execute`.
class Execution {
 public:
  Execution(const Target& target, const Payload& payload, std::span<const Buffer> operands, Buffer scratch, const Kernels& kernels,
            void* kernel_context, std::span<uint64_t> arrivals, EventSink sink)
      : target_(target),
        constants_(const_cast<std::byte*>(payload.constants().data())),
        operands_(operands),
        scratch_(scratch),
        kernels_(kernels),
        kernel_context_(kernel_context),
        timeline_(target, arrivals),
        sink_(sink) {}

  Status operator()(uint32_t, const End&) { return Status::kOk; }
  Status operator()(uint32_t index, const Copy& command) {
    std::memcpy(at(command.destination), constants_ + command.source.offset, command.bytes);
    tell(timeline_.copy(index, command));
    return Status::kOk;
  }
  Status operator()(uint32_t index, const Wait& command) {
    tell(timeline_.wait(index, command));
    return Status::kOk;
  }
  template <class Command>
  Status operator()(uint32_t index, const Command& command) {
    const Status status = compute({target_, index, kernel_context_}, command);
    if (status == Status::kOk) tell(timeline_.call(index, Command::kOpcode, cycles(target_, command).total));
    return status;
  }
  const Timeline& timeline() const { return timeline_; }

 private:
  int8_t* at(Address address) const {
    void* const region = address.region == kScratch     ? scratch_.data
                         : address.region == kConstants ? constants_
                                                        : operands_[address.region - kFirstOperand].data;
    return static_cast<int8_t*>(region) + address.offset;
  }
  void tell(const Event& event) const {
    if (sink_.on_event != nullptr) sink_.on_event(sink_.context, event);
  }

  template <class Command>
  Status convolve(void (*kernel)(const Call&, const Command&, const ConvolutionMemory&), const Call& call, const Command& command) {
    const Epilogue& epilogue = command.epilogue;
    const ConvolutionMemory memory{at(command.input),
                                   at(command.output),
                                   at(command.weights),
                                   reinterpret_cast<const std::byte*>(at(command.parameters)),
                                   (epilogue.flags & kWithTable) != 0 ? at(epilogue.table) : nullptr,
                                   (epilogue.flags & kWithAdd) != 0 ? at(epilogue.addend) : nullptr,
                                   (epilogue.flags & kFromSums) != 0 ? reinterpret_cast<const std::byte*>(at(epilogue.sums)) : nullptr};
    if (!ChannelParameters(target_, command.window, memory.parameters).valid(command.window, epilogue)) return Status::kBadArgument;
    kernel(call, command, memory);
    return Status::kOk;
  }
  Status compute(const Call& call, const Conv2d& command) { return convolve(kernels_.conv2d, call, command); }
  Status compute(const Call& call, const Depthwise& command) { return convolve(kernels_.depthwise, call, command); }
  Status compute(const Call& call, const Pool& command) {
    kernels_.pool(call, command, at(command.input), at(command.output));
    return Status::kOk;
  }
  Status compute(const Call& call, const Binary& command) {
    kernels_.binary(call, command, at(command.input_0), at(command.input_1), at(command.output));
    return Status::kOk;
  }
  Status compute(const Call& call, const Lookup& command) {
    kernels_.lookup(call, command, at(command.input), at(command.table), at(command.output));
    return Status::kOk;
  }
  Status compute(const Call& call, const Softmax& command) {
    kernels_.softmax(call, command, at(command.input), command.mask_rows != 0 ? at(command.mask) : nullptr, at(command.output));
    return Status::kOk;
  }
  Status compute(const Call& call, const Move& command) {
    kernels_.move(call, command, at(command.input), at(command.output));
    return Status::kOk;
  }
  Status compute(const Call& call, const Matmul& command) {
    kernels_.matmul(
        call, command,
        {at(command.left), at(command.right), (command.flags & kWithTable) != 0 ? at(command.table) : nullptr, at(command.output)});
    return Status::kOk;
  }
  Status compute(const Call& call, const Normalize& command) {
    kernels_.normalize(call, command, at(command.input), reinterpret_cast<const std::byte*>(at(command.parameters)), at(command.output));
    return Status::kOk;
  }
  Status compute(const Call& call, const Gather& command) {
    kernels_.gather(call, command, at(command.input), reinterpret_cast<const std::byte*>(at(command.indices)), at(command.output));
    return Status::kOk;
  }
  Status compute(const Call& call, const Fill& command) {
    kernels_.fill(call, command, at(command.output));
    return Status::kOk;
  }
  Status compute(const Call& call, const Reduce& command) {
    kernels_.reduce(call, command, at(command.input), at(command.output));
    return Status::kOk;
  }
  Status compute(const Call& call, const Resize& command) {
    kernels_.resize(call, command, at(command.input), at(command.output));
    return Status::kOk;
  }

  const Target& target_;
  std::byte* constants_;  // never written: the decoder refuses commands that would
  std::span<const Buffer> operands_;
  Buffer scratch_;
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
    if (operands[i].data == nullptr || operands[i].bytes != payload.operand(i).bytes) return Status::kBadOperand;
    if (misaligned(operands[i])) return Status::kMisaligned;
  }
  if (scratch.bytes < payload.header.scratch_bytes || (scratch.data == nullptr && payload.header.scratch_bytes != 0))
    return Status::kBadOperand;
  return misaligned(scratch) ? Status::kMisaligned : Status::kOk;
}

Report execute(const Target& target, const Payload& payload, std::span<const Buffer> operands, Buffer scratch, const Kernels& kernels,
               void* kernel_context, std::span<uint64_t> arrivals, EventSink sink) {
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
    const Fault fault = decode(target_, {static_cast<const std::byte*>(payload), bytes}, slots_[i].payload);
    if (fault.status != Status::kOk) return fault.status;
    if (slots_[i].payload.most_copies_in_flight > arrivals_.size()) return Status::kOutOfMemory;
    slots_[i].used = true;
    *handle = i;
    return Status::kOk;
  }
  return Status::kOutOfMemory;
}

Report Simulator::run(uint32_t handle, std::span<const Buffer> operands, Buffer scratch, EventSink sink) {
  if (handle >= slots_.size() || !slots_[handle].used) return refused(Status::kBadOperand);
  const Payload& payload = slots_[handle].payload;
  if (const Status status = check_memory(payload, operands, scratch); status != Status::kOk) return refused(status);
  return execute(target_, payload, operands, scratch, kernels_, nullptr, arrivals_, sink);
}

void Simulator::unprepare(uint32_t handle) {
  if (handle < slots_.size()) slots_[handle].used = false;
}

Driver Simulator::driver() {
  return {this,
          [](void* context, const void* payload, size_t bytes, uint32_t* handle) { return self(context).prepare(payload, bytes, handle); },
          [](void* context, uint32_t handle, const Buffer* operands, uint32_t operand_count, Buffer scratch,
             void (*on_event)(void* event_context, const Event& event), void* event_context) {
            return self(context).run(handle, {operands, operand_count}, scratch, {on_event, event_context});
          },
          [](void* context, uint32_t handle) { self(context).unprepare(handle); }};
}

}  // namespace dtr::simulator
