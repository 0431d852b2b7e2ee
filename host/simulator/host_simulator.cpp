#include "host/simulator/host_simulator.h"

#include <map>
#include <optional>
#include <tuple>

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
  std::vector<uint64_t> arrivals;
  // The last layout of regions and the result of checking it.
  std::optional<RegionLayout> layout;
  Fault watched;
};

HostSimulator::HostSimulator(const Target& target, const KernelSet& kernel_set)
    : target_(target), kernel_set_(kernel_set) {}
HostSimulator::~HostSimulator() = default;

Fault HostSimulator::prepare(std::span<const std::byte> payload, uint32_t& handle) {
  auto made = std::make_unique<Prepared>();
  if (const Fault fault = decode(target_, payload, made->payload); fault.status != Status::kOk)
    return fault;
  visit(made->payload,
        Packer(target_, made->payload, kernel_set_, made->store, made->context.packed));
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
  RegionLayout layout = layout_of(operands, scratch);
  if (program.layout != layout) {
    program.watched = watch_memory(target_, program.payload, layout);
    program.layout = std::move(layout);
  }
  if (program.watched.status != Status::kOk) return refused(program.watched);
  return execute(target_, program.payload, operands, scratch, kernel_set_.kernels, &program.context,
                 program.arrivals, sink);
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
