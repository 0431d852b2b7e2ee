#include "compiler/backends/neutron/schedule/row_access.h"

#include <algorithm>
#include <utility>

namespace dtr::neutron {
namespace {

template <class Command>
constexpr bool kHasWindow = requires(const Command& command) {
  command.window;
};
template <class Command>
constexpr bool kHasBox = std::is_same_v<Command, npu::Binary> ||
                         std::is_same_v<Command, npu::Lookup> || std::is_same_v<Command, npu::Move>;

uint32_t image_row_bytes(uint32_t width, uint32_t pixel, uint32_t channels) {
  return (width - 1) * pixel + channels;
}

// ---- convolutions and pools

bool adds_sums(const npu::Epilogue& epilogue) { return npu::with_sums(epilogue); }

template <class Command>
std::optional<RowAccess> window_access(const Command& command) {
  const npu::Window& w = command.window;
  if (w.batch != 1) return std::nullopt;
  RowAccess access{.rows = w.out_height,
                   .kernel_rows = (w.kernel_height - 1) * w.dilation_height + 1,
                   .stride = w.stride_height,
                   .pad = w.pad_top,
                   .operands = {}};
  access.operands.push_back({.address = command.input,
                             .access = Access::kRead,
                             .pitch = w.in.row,
                             .row_bytes = image_row_bytes(w.in_width, w.in.pixel, w.in_channels),
                             .rows = w.in_height,
                             .windowed = true});
  if constexpr (requires { command.epilogue; }) {
    if (adds_sums(command.epilogue)) return std::nullopt;
    if ((command.epilogue.flags & npu::kWithAdd) != 0) {
      const npu::Strides& strides = command.epilogue.addend_strides;
      access.operands.push_back(
          {.address = command.epilogue.addend,
           .access = Access::kRead,
           .pitch = strides.row,
           .row_bytes = image_row_bytes(w.out_width, strides.pixel, w.out_channels),
           .rows = w.out_height});
    }
  }
  access.operands.push_back({.address = command.output,
                             .access = Access::kWrite,
                             .pitch = w.out.row,
                             .row_bytes = image_row_bytes(w.out_width, w.out.pixel, w.out_channels),
                             .rows = w.out_height});
  return access;
}

template <class Command>
Command window_rows(Command command, const RowAccess& access, RowRange result) {
  npu::Window& w = command.window;
  const RowRange read = access.read_for(result, w.in_height);
  command.input.offset += read.begin * w.in.row;
  command.output.offset += result.begin * w.out.row;
  if constexpr (requires { command.epilogue; })
    command.epilogue.addend.offset += result.begin * command.epilogue.addend_strides.row;
  w.pad_top = static_cast<int32_t>(int64_t{read.begin} + w.pad_top -
                                   int64_t{result.begin} * w.stride_height);
  w.in_height = read.count();
  w.out_height = result.count();
  return command;
}

// ---- boxes: functions of one or two tensors, copies

// The outermost loop with more than one step; kMoveRank if there is none.
uint32_t outermost(const uint32_t (&extent)[npu::kMoveRank]) {
  uint32_t loop = 0;
  while (loop < npu::kMoveRank && extent[loop] == 1) ++loop;
  return loop;
}

// Bytes from the first to behind the last of all inner loops.
std::optional<uint32_t> span_inside(const uint32_t (&extent)[npu::kMoveRank],
                                    const int32_t (&stride)[npu::kMoveRank], uint32_t outer) {
  uint64_t bytes = 1;
  for (uint32_t d = outer + 1; d < npu::kMoveRank; ++d) {
    if (stride[d] < 0) return std::nullopt;
    bytes += uint64_t{extent[d] - 1} * static_cast<uint32_t>(stride[d]);
  }
  return bytes > UINT32_MAX ? std::nullopt : std::optional(static_cast<uint32_t>(bytes));
}

// The operands of a box with their strides, the result last.
template <class Command>
auto box_operands(Command& command) {
  using Address = decltype(&command.output);
  using Strides = decltype(&command.output_stride);
  std::vector<std::pair<Address, Strides>> operands;
  if constexpr (requires { command.input_0; }) {
    operands.emplace_back(&command.input_0, &command.stride_0);
    operands.emplace_back(&command.input_1, &command.stride_1);
  } else {
    operands.emplace_back(&command.input, &command.input_stride);
  }
  operands.emplace_back(&command.output, &command.output_stride);
  return operands;
}

// Steps of the outermost loop that are one row of the result; 0: rows do not end with such steps.
template <class Command>
uint32_t steps_of_a_row(const Command& command, uint32_t pitch) {
  const uint32_t loop = outermost(command.extent);
  if (loop == npu::kMoveRank || pitch == 0) return 0;
  const auto step = static_cast<uint32_t>(command.output_stride[loop]);
  const bool divides = command.output_stride[loop] > 0 && pitch % step == 0 &&
                       command.extent[loop] % (pitch / step) == 0;
  return divides ? pitch / step : 0;
}

template <class Command>
std::optional<RowAccess> box_access(const Command& command, const Pitches& pitches) {
  const uint32_t loop = outermost(command.extent);
  const uint32_t steps = steps_of_a_row(command, pitches[command.output.region]);
  if (steps == 0) return std::nullopt;
  RowAccess access{.rows = command.extent[loop] / steps, .operands = {}};
  for (const auto& [address, stride] : box_operands(command)) {
    const int32_t step = (*stride)[loop];
    const std::optional<uint32_t> inside = span_inside(command.extent, *stride, loop);
    if (step < 0 || !inside) return std::nullopt;
    if (address->region == kOwnConstants) continue;
    access.operands.push_back(
        {.address = *address,
         .access = address == &command.output ? Access::kWrite : Access::kRead,
         .pitch = steps * static_cast<uint32_t>(step),
         .row_bytes = (steps - 1) * static_cast<uint32_t>(step) + *inside,
         .rows = access.rows});
  }
  return access;
}

template <class Command>
Command box_rows(Command command, const RowAccess& access, RowRange result) {
  const uint32_t loop = outermost(command.extent);
  const uint32_t steps = command.extent[loop] / access.rows;
  for (const auto& [address, stride] : box_operands(command))
    address->offset += result.begin * steps * static_cast<uint32_t>((*stride)[loop]);
  command.extent[loop] = result.count() * steps;
  return command;
}

// Gives the operands of an elementwise call one another's pitches.
template <class Command>
void spread_pitch(const Command& command, Pitches& pitches) {
  const uint32_t loop = outermost(command.extent);
  if (loop == npu::kMoveRank) return;
  uint32_t steps = 0;
  for (const auto& [address, stride] : box_operands(command)) {
    const int32_t step = (*stride)[loop];
    if (address->region == kOwnConstants || step <= 0) continue;
    const uint32_t pitch = pitches[address->region];
    if (pitch != 0 && pitch % static_cast<uint32_t>(step) == 0)
      steps = pitch / static_cast<uint32_t>(step);
  }
  if (steps == 0 || command.extent[loop] % steps != 0) return;
  for (const auto& [address, stride] : box_operands(command)) {
    const int32_t step = (*stride)[loop];
    if (address->region == kOwnConstants || step <= 0) continue;
    uint32_t& pitch = pitches[address->region];
    if (pitch == 0) pitch = steps * static_cast<uint32_t>(step);
  }
}

// Every operand divides its storage into the rows of `pitches`.
bool agrees(const RowAccess& access, const Pitches& pitches) {
  return std::ranges::all_of(access.operands, [&](const RowOperand& operand) {
    if (operand.pitch == 0) return operand.access == Access::kRead;
    return operand.pitch == pitches[operand.address.region] &&
           operand.address.offset % operand.pitch + operand.row_bytes <= operand.pitch;
  });
}

}  // namespace

void RowRange::include(RowRange other) {
  if (other.empty()) return;
  if (empty()) *this = other;
  begin = std::min(begin, other.begin);
  end = std::max(end, other.end);
}

RowRange RowAccess::read_for(RowRange result, uint32_t operand_rows) const {
  if (result.empty()) return {};
  const int64_t first = int64_t{result.begin} * stride - pad;
  const int64_t last = int64_t{result.end - 1} * stride - pad + kernel_rows;
  const auto clamped = [&](int64_t row) {
    return static_cast<uint32_t>(std::clamp<int64_t>(row, 0, operand_rows));
  };
  return {clamped(first), clamped(last)};
}

void find_pitches(std::span<const Call> calls, Pitches& pitches) {
  for (const Call& call : calls)
    std::visit(
        [&](const auto& command) {
          if constexpr (kHasWindow<std::decay_t<decltype(command)>>) {
            const std::optional<RowAccess> access = window_access(command);
            if (!access) return;
            for (const RowOperand& operand : access->operands)
              if (operand.address.region != kOwnConstants && pitches[operand.address.region] == 0)
                pitches[operand.address.region] = operand.pitch;
          }
        },
        call.kernel);
  // Twice: a chain of elementwise calls may get its pitch from the window behind it.
  for (int round = 0; round < 2; ++round)
    for (const Call& call : calls)
      std::visit(
          [&](const auto& command) {
            if constexpr (kHasBox<std::decay_t<decltype(command)>>) spread_pitch(command, pitches);
          },
          call.kernel);
}

std::optional<RowAccess> row_access(const Kernel& kernel, const Pitches& pitches) {
  std::optional<RowAccess> access = std::visit(
      [&](const auto& command) -> std::optional<RowAccess> {
        using Command = std::decay_t<decltype(command)>;
        if constexpr (kHasWindow<Command>) return window_access(command);
        if constexpr (kHasBox<Command>) return box_access(command, pitches);
        return std::nullopt;
      },
      kernel);
  if (!access) return std::nullopt;
  std::erase_if(access->operands,
                [](const RowOperand& operand) { return operand.address.region == kOwnConstants; });
  const bool windows_constants =
      !std::ranges::any_of(access->operands, &RowOperand::windowed) && access->stride != 1;
  return !windows_constants && agrees(*access, pitches) ? access : std::nullopt;
}

Kernel rows_of(const Kernel& kernel, const RowAccess& access, RowRange result) {
  return std::visit(
      [&](const auto& command) -> Kernel {
        using Command = std::decay_t<decltype(command)>;
        if constexpr (kHasWindow<Command>) return window_rows(command, access, result);
        if constexpr (kHasBox<Command>) return box_rows(command, access, result);
        DTR_CHECK(false);
      },
      kernel);
}

}  // namespace dtr::neutron
