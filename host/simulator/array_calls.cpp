#include "host/simulator/array_calls.h"

#include <algorithm>
#include <concepts>

#include "device/npu/cycles.h"
#include "device/simulator/decoder.h"

namespace dtr::simulator {
namespace {

uint64_t next_multiple(uint64_t extent, uint32_t unit) { return (extent + unit - 1) / unit * unit; }

// Notes an extent of the call if its next multiple of `unit` takes the same cycles.
template <class Command>
void note_unfilled(const npu::Target& target, const Command& command, uint32_t& (*field)(Command&),
                   uint32_t unit, std::string_view what, ArrayCall& call) {
  Command other = command;
  uint32_t& extent = field(other);
  const uint32_t now = extent;
  const auto filled = static_cast<uint32_t>(next_multiple(now, unit));
  if (now == filled) return;
  extent = filled;
  if (npu::cycles(target, other).total == call.cycles)
    call.unfilled.push_back({.what = what, .unit = unit, .extent = now, .filled = filled});
}

// Notes how many outputs could share each weight. `with_outputs`: the command with another number.
template <class Command, class WithOutputs>
void note_shared(const npu::Target& target, const Command& command, uint64_t outputs,
                 const WithOutputs& with_outputs, std::string_view what, ArrayCall& call) {
  if (npu::cycles(target, command).limit != npu::Limit::kWeightPort) return;
  const uint64_t more = next_multiple(outputs, target.accumulators);
  if (more == outputs) return;
  const uint64_t cycles = npu::cycles(target, with_outputs(static_cast<uint32_t>(more))).total;
  const uint64_t added = cycles > call.cycles ? cycles - call.cycles : 0;
  // Each of them would cost more than half as much as those that there are.
  if (2 * added * outputs > call.cycles * (more - outputs)) return;
  call.shared = {.what = what, .outputs = outputs, .more = more, .more_cycles = cycles};
}

template <class Command>
concept Windowed = requires(Command command) {
  command.window;
};

uint32_t& out_channels(auto& command) { return command.window.out_channels; }
uint32_t& in_channels(auto& command) { return command.window.in_channels; }

uint64_t packed_cycles(const npu::Target& target, const Windowed auto& command, uint64_t now) {
  if (command.window.dilation_width != 1) return now;
  const npu::Conv2d packed{
      .window = command.window, .packing = npu::Packing::kRows, .epilogue = command.epilogue};
  return std::min(now, npu::cycles(target, packed).total);
}

// What holds for both kinds of convolution.
template <Windowed Command>
ArrayCall call_of(const npu::Target& target, const Command& command) {
  ArrayCall call{.in_channels = command.window.in_channels,
                 .cycles = npu::cycles(target, command).total};
  call.packed_cycles = call.cycles;
  note_unfilled<Command>(target, command, &out_channels<Command>, target.pipelines,
                         "output channels", call);
  const npu::Window& window = command.window;
  const auto with_positions = [&](uint32_t positions) {
    Command other = command;
    other.window.batch = other.window.out_height = 1;
    other.window.out_width = positions;
    return other;
  };
  note_shared(target, command, uint64_t{window.batch} * window.out_height * window.out_width,
              with_positions, "output positions", call);
  return call;
}

class ArrayCalls {
 public:
  ArrayCalls(const npu::Target& target, std::vector<ArrayCall>& found)
      : target_(target), found_(found) {}

  template <class Command>
  npu::Status operator()(uint32_t index, const Command& command) {
    if constexpr (std::same_as<Command, npu::Conv2d> || std::same_as<Command, npu::Depthwise> ||
                  std::same_as<Command, npu::Matmul>) {
      found_.push_back(array_call(target_, command));
      found_.back().command = index;
    }
    return npu::Status::kOk;
  }

 private:
  const npu::Target& target_;
  std::vector<ArrayCall>& found_;
};

}  // namespace

ArrayCall array_call(const npu::Target& target, const npu::Conv2d& command) {
  ArrayCall call = call_of(target, command);
  if (command.packing != npu::Packing::kChannels) return call;
  call.packed_cycles = packed_cycles(target, command, call.cycles);
  note_unfilled<npu::Conv2d>(target, command, &in_channels<npu::Conv2d>, target.macs,
                             "input channels", call);
  return call;
}

ArrayCall array_call(const npu::Target& target, const npu::Depthwise& command) {
  ArrayCall call = call_of(target, command);
  npu::Conv2d full{
      .window = command.window, .packing = npu::Packing::kChannels, .epilogue = command.epilogue};
  full.window.in_channels = target.macs;
  // A convolution of one channel may run as a depthwise one without being one.
  if (command.window.in_channels == 1) {
    call.packed_cycles = packed_cycles(target, command, call.cycles);
    if (npu::cycles(target, full).total == call.cycles)
      call.unfilled.push_back(
          {.what = "input channels", .unit = target.macs, .extent = 1, .filled = target.macs});
  } else {
    call.full_cycles = npu::cycles(target, full).total;
  }
  return call;
}

ArrayCall array_call(const npu::Target& target, const npu::Matmul& command) {
  ArrayCall call{.cycles = npu::cycles(target, command).total};
  call.packed_cycles = call.cycles;
  note_unfilled<npu::Matmul>(
      target, command, [](npu::Matmul& other) -> uint32_t& { return other.inner; }, target.macs,
      "summed elements", call);
  note_unfilled<npu::Matmul>(
      target, command, [](npu::Matmul& other) -> uint32_t& { return other.columns; },
      target.pipelines, "columns", call);
  const auto with_rows = [&](uint32_t rows) {
    npu::Matmul other = command;
    other.rows = rows;
    return other;
  };
  note_shared(target, command, command.rows, with_rows, "rows", call);
  return call;
}

std::vector<ArrayCall> array_calls(const npu::Target& target, std::span<const std::byte> bytes) {
  std::vector<ArrayCall> found;
  Payload payload;
  if (decode(target, bytes, payload).status == npu::Status::kOk)
    visit(payload, ArrayCalls(target, found));
  return found;
}

}  // namespace dtr::simulator
