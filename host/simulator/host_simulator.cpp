#include "host/simulator/host_simulator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <type_traits>

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

// What the commands of a program do to memory, as in the core (device/simulator/simulator.cpp), but
// without what a program's preparation has settled: a convolution whose weights are packed reads
// neither them nor its parameters, which have been checked, and nobody reads bytes of copies that
// are not needed.
class Calls {
 public:
  Calls(const Target& target, const Regions& regions, const Kernels& kernels,
        KernelSetContext& context, const std::vector<bool>& needed)
      : target_(target), regions_(regions), kernels_(kernels), context_(context), needed_(needed) {}

  Status operator()(uint32_t, const End&) const { return Status::kOk; }
  Status operator()(uint32_t, const Wait&) const { return Status::kOk; }
  Status operator()(uint32_t index, const Copy& command) const {
    if (needed_[index])
      std::memcpy(regions_.at(command.destination), regions_.at(command.source), command.bytes);
    return Status::kOk;
  }
  Status operator()(uint32_t index, const Conv2d& command) const {
    return convolve(kernels_.conv2d, index, command);
  }
  Status operator()(uint32_t index, const Depthwise& command) const {
    return convolve(kernels_.depthwise, index, command);
  }
  template <class Command>
  Status operator()(uint32_t index, const Command& command) const {
    return simulator::run(kernels_, call(index), regions_, command);
  }

 private:
  template <class Command>
  Status convolve(void (*kernel)(const Call&, const Command&, const ConvolutionMemory&),
                  uint32_t index, const Command& command) const {
    const PackedConvolution* const packed = context_.packed[index];
    if (packed == nullptr || !packed->usable)
      return simulator::run(kernels_, call(index), regions_, command);
    const Epilogue& epilogue = command.epilogue;
    ConvolutionMemory memory{};
    memory.input = regions_.at(command.input);
    memory.output = regions_.at(command.output);
    if ((epilogue.flags & kWithTable) != 0) memory.table = regions_.at(epilogue.table);
    if ((epilogue.flags & kWithAdd) != 0) memory.addend = regions_.at(epilogue.addend);
    kernel(call(index), command, memory);
    return Status::kOk;
  }
  Call call(uint32_t index) const { return {target_, index, &context_}; }

  const Target& target_;
  Regions regions_;
  const Kernels& kernels_;
  KernelSetContext& context_;
  const std::vector<bool>& needed_;
};

// The time of the commands, which depends on nothing but them, and the events that tell it.
class Timing {
 public:
  Timing(const Target& target, const std::vector<uint64_t>& cycles, std::span<uint64_t> arrivals)
      : cycles_(cycles), timeline_(target, arrivals) {}

  std::optional<Event> operator()(uint32_t, const End&) { return std::nullopt; }
  std::optional<Event> operator()(uint32_t index, const Copy& command) {
    return timeline_.copy(index, command);
  }
  std::optional<Event> operator()(uint32_t index, const Wait& command) {
    return timeline_.wait(index, command);
  }
  template <class Command>
  std::optional<Event> operator()(uint32_t index, const Command&) {
    return timeline_.call(index, Command::kOpcode, cycles_[index]);
  }
  void write(Report& report) const { timeline_.write(report); }

 private:
  const std::vector<uint64_t>& cycles_;
  Timeline timeline_;
};

// One command after the other, each followed by its event.
class Execution {
 public:
  Execution(const Calls& calls, Timing& timing, EventSink sink)
      : calls_(calls), timing_(timing), sink_(sink) {}
  template <class Command>
  Status operator()(uint32_t index, const Command& command) {
    const Status status = calls_(index, command);
    if (status != Status::kOk) return status;
    const std::optional<Event> event = timing_(index, command);
    if (event && sink_.on_event != nullptr) sink_.on_event(sink_.context, *event);
    return status;
  }

 private:
  const Calls& calls_;
  Timing& timing_;
  EventSink sink_;
};

// A command that a run without events executes.
class Step {
 public:
  explicit Step(uint32_t index) : index_(index) {}
  virtual ~Step() = default;
  uint32_t index() const { return index_; }
  virtual Status run(const Calls& calls) const = 0;

 private:
  uint32_t index_;
};

template <class Command>
class StepOf final : public Step {
 public:
  StepOf(uint32_t index, const Command& command) : Step(index), command_(command) {}
  Status run(const Calls& calls) const override { return calls(index(), command_); }

 private:
  Command command_;
};

class Steps {
 public:
  Steps(const std::vector<bool>& needed, std::vector<std::unique_ptr<Step>>& result)
      : needed_(needed), result_(result) {}
  Status operator()(uint32_t, const End&) { return Status::kOk; }
  Status operator()(uint32_t, const Wait&) { return Status::kOk; }
  template <class Command>
  Status operator()(uint32_t index, const Command& command) {
    if (!std::is_same_v<Command, Copy> || needed_[index])
      result_.push_back(std::make_unique<StepOf<Command>>(index, command));
    return Status::kOk;
  }

 private:
  const std::vector<bool>& needed_;
  std::vector<std::unique_ptr<Step>>& result_;
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
  std::vector<std::unique_ptr<Step>> steps;  // empty with checks in every run
  Report timed;                              // the report of a run that executes all of them
  // The memory of the last run, its layout, and the result of checking that.
  std::vector<Buffer> operands;
  Buffer scratch{};
  std::optional<RegionLayout> layout;
  Fault watched;

  // Of a run that ended so.
  Report report(const Fault& end, const Timing& timing) const {
    Report result = refused(end);
    result.peak_scratch_bytes = payload.peak_scratch_bytes;
    timing.write(result);
    return result;
  }

  Fault run_steps(const Calls& calls) const {
    for (const std::unique_ptr<Step>& step : steps)
      if (const Status status = step->run(calls); status != Status::kOk)
        return {status, step->index()};
    return {};
  }

  // Checks the program's use of memory, once for each layout, or again.
  Fault watch(const Target& target, std::span<const Buffer> now, Buffer now_scratch, bool again) {
    const auto same = [](const Buffer& a, const Buffer& b) {
      return a.data == b.data && a.bytes == b.bytes;
    };
    if (!again && layout && same(now_scratch, scratch) && std::ranges::equal(now, operands, same))
      return watched;
    operands.assign(now.begin(), now.end());
    scratch = now_scratch;
    RegionLayout found = layout_of(now, now_scratch);
    if (again || layout != found) {
      watched = watch_memory(target, payload, found);
      layout = std::move(found);
    }
    return watched;
  }
};

HostSimulator::HostSimulator(const Target& target, const KernelSet& kernel_set, Scratch scratch,
                             Checks checks)
    : target_(target),
      kernel_set_(kernel_set),
      scratch_(checks == Checks::kEveryRun ? Scratch::kEveryByte : scratch),
      checks_(checks) {}
HostSimulator::~HostSimulator() = default;

Fault HostSimulator::prepare(std::span<const std::byte> payload, uint32_t& handle) {
  auto made = std::make_unique<Prepared>();
  if (const Fault fault = decode(target_, payload, made->payload); fault.status != Status::kOk)
    return fault;
  if (checks_ == Checks::kEveryRun) {
    made->context.packed.assign(made->payload.header.command_count, nullptr);
  } else {
    visit(made->payload,
          Packer(target_, made->payload, kernel_set_, made->store, made->context.packed));
  }
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
  if (checks_ == Checks::kOnce) {
    visit(made->payload, Steps(made->needed, made->steps));
    Timing timing(target_, made->cycles, made->arrivals);
    visit(made->payload, [&timing](uint32_t index, const auto& command) {
      timing(index, command);
      return Status::kOk;
    });
    made->timed = made->report({}, timing);
  }
  made->context.share_with(crew_.get());
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
  if (const Fault fault = program.watch(target_, operands, scratch, checks_ == Checks::kEveryRun);
      fault.status != Status::kOk)
    return refused(fault);
  const Calls calls(target_,
                    {const_cast<std::byte*>(program.payload.constants().data()), operands, scratch},
                    kernel_set_.kernels, program.context, program.needed);
  if (sink.on_event != nullptr || checks_ == Checks::kEveryRun) {
    Timing timing(target_, program.cycles, program.arrivals);
    return program.report(visit(program.payload, Execution(calls, timing, sink)), timing);
  }
  const Fault fault = program.run_steps(calls);
  if (fault.status == Status::kOk) return program.timed;
  Timing timing(target_, program.cycles, program.arrivals);
  return program.report(visit(program.payload,
                              [&](uint32_t index, const auto& command) {
                                if (index == fault.command) return fault.status;
                                timing(index, command);
                                return Status::kOk;
                              }),
                        timing);
}

void HostSimulator::unprepare(uint32_t handle) {
  if (handle < programs_.size()) programs_[handle].reset();
}

void HostSimulator::use_threads(unsigned threads) {
  std::unique_ptr<Crew> crew;
  if (threads > 1) crew = std::make_unique<Crew>(threads);
  for (const auto& program : programs_)
    if (program != nullptr) program->context.share_with(crew.get());
  crew_ = std::move(crew);
}

namespace {

std::atomic<HostSimulator::Checks>& checks_of_new_ones() {
  static std::atomic<HostSimulator::Checks> checks{std::getenv("DEUTERON_CHECKED") != nullptr
                                                       ? HostSimulator::Checks::kEveryRun
                                                       : HostSimulator::Checks::kOnce};
  return checks;
}

}  // namespace

HostSimulator::Checks HostSimulator::default_checks() { return checks_of_new_ones(); }
void HostSimulator::set_default_checks(Checks checks) { checks_of_new_ones() = checks; }

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
