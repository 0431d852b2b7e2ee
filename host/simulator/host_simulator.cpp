#include "host/simulator/host_simulator.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "device/npu/cycles.h"
#include "device/simulator/timing.h"
#include "host/simulator/shadow.h"
#include "host/simulator/staging.h"

namespace dtr::simulator {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

// Packs each convolution whose weights are constants; calls that share them share the packed form.
class Packer {
 public:
  Packer(const Target& target, const Payload& payload, const KernelSet& kernel_set,
         std::vector<std::unique_ptr<PackedConvolution>>& store,
         std::vector<const PackedConvolution*>& packed)
      : target_(target),
        kernel_set_(kernel_set),
        constants_(payload.constants().data()),
        staged_(staged_operands(target, payload)),
        store_(store),
        packed_(packed) {
    packed_.assign(payload.header.command_count, nullptr);
  }

  Status operator()(uint32_t index, const Conv2d& command) {
    return pack(kernel_set_.pack_conv2d, index, command);
  }
  Status operator()(uint32_t index, const Depthwise& command) {
    return pack(kernel_set_.pack_depthwise, index, command);
  }
  template <class Command>
  Status operator()(uint32_t, const Command&) {
    return Status::kOk;
  }

 private:
  template <class Command>
  Status pack(void (*pack_weights)(const Target&, const Command&, const int8_t*, const std::byte*,
                                   PackedConvolution&),
              uint32_t index, const Command& command) {
    if (pack_weights == nullptr || !staged_[index]) return Status::kOk;
    const std::byte* parameters = constants_ + staged_[index]->parameters;
    // The run will find them.
    if (!ChannelParameters(target_, command.window, parameters)
             .valid(command.window, command.epilogue))
      return Status::kOk;
    auto made = std::make_unique<PackedConvolution>();
    pack_weights(target_, command,
                 reinterpret_cast<const int8_t*>(constants_ + staged_[index]->weights), parameters,
                 *made);
    packed_[index] = made.get();
    store_.push_back(std::move(made));
    return Status::kOk;
  }

  const Target& target_;
  const KernelSet& kernel_set_;
  const std::byte* constants_;
  std::vector<std::optional<StagedOperands>> staged_;
  std::vector<std::unique_ptr<PackedConvolution>>& store_;
  std::vector<const PackedConvolution*>& packed_;
};

// What each call takes on the machine.
class CallCycles {
 public:
  CallCycles(const Target& target, std::vector<uint64_t>& result)
      : target_(target), result_(result) {}
  template <class Command>
  Status operator()(uint32_t index, const Command& command) {
    if constexpr (requires { cycles(target_, command).total; })
      result_[index] = cycles(target_, command).total;
    return Status::kOk;
  }

 private:
  const Target& target_;
  std::vector<uint64_t>& result_;
};

// Executes one command after the other as the core does (device/simulator/simulator.cpp), but
// without what a program's preparation has settled: a convolution whose weights are packed reads
// neither them nor its parameters, which have been checked, and nobody reads bytes of copies that
// are not needed.
class Execution {
 public:
  Execution(const Target& target, const Regions& regions, const Kernels& kernels,
            KernelSetContext& context, const std::vector<bool>& needed,
            const std::vector<uint64_t>& cycles, std::span<uint64_t> arrivals, EventSink sink)
      : target_(target),
        regions_(regions),
        kernels_(kernels),
        context_(context),
        needed_(needed),
        cycles_(cycles),
        timeline_(target, arrivals),
        sink_(sink) {}

  Status operator()(uint32_t, const End&) { return Status::kOk; }
  Status operator()(uint32_t index, const Copy& command) {
    if (needed_[index])
      std::memcpy(regions_.at(command.destination), regions_.at(command.source), command.bytes);
    emit_event(timeline_.copy(index, command));
    return Status::kOk;
  }
  Status operator()(uint32_t index, const Wait& command) {
    emit_event(timeline_.wait(index, command));
    return Status::kOk;
  }
  Status operator()(uint32_t index, const Conv2d& command) {
    return convolve(kernels_.conv2d, index, command);
  }
  Status operator()(uint32_t index, const Depthwise& command) {
    return convolve(kernels_.depthwise, index, command);
  }
  template <class Command>
  Status operator()(uint32_t index, const Command& command) {
    return called<Command>(index, simulator::run(kernels_, call(index), regions_, command));
  }
  const Timeline& timeline() const { return timeline_; }

 private:
  template <class Command>
  Status convolve(void (*kernel)(const Call&, const Command&, const ConvolutionMemory&),
                  uint32_t index, const Command& command) {
    const PackedConvolution* const packed = context_.packed[index];
    if (packed == nullptr || !packed->usable)
      return called<Command>(index, simulator::run(kernels_, call(index), regions_, command));
    const Epilogue& epilogue = command.epilogue;
    ConvolutionMemory memory{};
    memory.input = regions_.at(command.input);
    memory.output = regions_.at(command.output);
    if ((epilogue.flags & kWithTable) != 0) memory.table = regions_.at(epilogue.table);
    if ((epilogue.flags & kWithAdd) != 0) memory.addend = regions_.at(epilogue.addend);
    kernel(call(index), command, memory);
    return called<Command>(index, Status::kOk);
  }
  template <class Command>
  Status called(uint32_t index, Status status) {
    if (status == Status::kOk) emit_event(timeline_.call(index, Command::kOpcode, cycles_[index]));
    return status;
  }
  Call call(uint32_t index) { return {target_, index, &context_}; }
  void emit_event(const Event& event) const {
    if (sink_.on_event != nullptr) sink_.on_event(sink_.context, event);
  }

  const Target& target_;
  Regions regions_;
  const Kernels& kernels_;
  KernelSetContext& context_;
  const std::vector<bool>& needed_;
  const std::vector<uint64_t>& cycles_;
  Timeline timeline_;
  EventSink sink_;
};

HostSimulator& self(void* context) { return *static_cast<HostSimulator*>(context); }

Report refused(const Fault& fault) {
  Report report;
  report.status = fault.status;
  report.command = fault.command;
  return report;
}

}  // namespace

struct HostSimulator::Prepared {
  Payload payload;
  std::vector<std::unique_ptr<PackedConvolution>> store;
  KernelSetContext context;
  std::vector<bool> needed;      // copies, by command
  std::vector<uint64_t> cycles;  // of calls, by command
  std::vector<uint64_t> arrivals;
  // The memory of the last run, its layout, and the result of checking that.
  std::vector<Buffer> operands;
  Buffer scratch{};
  std::optional<RegionLayout> layout;
  Fault watched;

  // Checks the program's use of memory, once for each layout.
  Fault watch(const Target& target, std::span<const Buffer> now, Buffer now_scratch) {
    const auto same = [](const Buffer& a, const Buffer& b) {
      return a.data == b.data && a.bytes == b.bytes;
    };
    if (layout && same(now_scratch, scratch) && std::ranges::equal(now, operands, same))
      return watched;
    operands.assign(now.begin(), now.end());
    scratch = now_scratch;
    RegionLayout found = layout_of(now, now_scratch);
    if (layout != found) {
      watched = watch_memory(target, payload, found);
      layout = std::move(found);
    }
    return watched;
  }
};

HostSimulator::HostSimulator(const Target& target, const KernelSet& kernel_set, Scratch scratch)
    : target_(target), kernel_set_(kernel_set), scratch_(scratch) {}
HostSimulator::~HostSimulator() = default;

Fault HostSimulator::prepare(std::span<const std::byte> payload, uint32_t& handle) {
  auto made = std::make_unique<Prepared>();
  if (const Fault fault = decode(target_, payload, made->payload); fault.status != Status::kOk)
    return fault;
  visit(made->payload,
        Packer(target_, made->payload, kernel_set_, made->store, made->context.packed));
  const auto reads_packed = [&](uint32_t index) {
    const PackedConvolution* const packed = made->context.packed[index];
    return packed != nullptr && packed->usable;
  };
  made->needed = scratch_ == Scratch::kEveryByte
                     ? std::vector<bool>(made->payload.header.command_count, true)
                     : needed_copies(target_, made->payload, reads_packed);
  made->cycles.resize(made->payload.header.command_count);
  visit(made->payload, CallCycles(target_, made->cycles));
  made->arrivals.resize(made->payload.most_copies_in_flight);
  handle = 0;
  while (handle < programs_.size() && programs_[handle] != nullptr) ++handle;
  if (handle == programs_.size()) programs_.emplace_back();
  programs_[handle] = std::move(made);
  return {};
}

Report HostSimulator::run(uint32_t handle, std::span<const Buffer> operands, Buffer scratch,
                          EventSink sink) {
  if (handle >= programs_.size() || programs_[handle] == nullptr)
    return refused({Status::kBadOperand, 0});
  Prepared& program = *programs_[handle];
  if (const Status status = check_memory(program.payload, operands, scratch); status != Status::kOk)
    return refused({status, 0});
  if (const Fault fault = program.watch(target_, operands, scratch); fault.status != Status::kOk)
    return refused(fault);
  Execution execution(
      target_, {const_cast<std::byte*>(program.payload.constants().data()), operands, scratch},
      kernel_set_.kernels, program.context, program.needed, program.cycles, program.arrivals, sink);
  Report report = refused(visit(program.payload, execution));
  report.peak_scratch_bytes = program.payload.peak_scratch_bytes;
  execution.timeline().write(report);
  return report;
}

void HostSimulator::unprepare(uint32_t handle) {
  if (handle < programs_.size()) programs_[handle].reset();
}

Driver HostSimulator::driver() {
  return {this,
          [](void* context, const void* payload, size_t bytes, uint32_t* handle) {
            return self(context)
                .prepare({static_cast<const std::byte*>(payload), bytes}, *handle)
                .status;
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
