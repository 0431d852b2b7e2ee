#include "compiler/backends/neutron/schedule/row_access.h"

#include <algorithm>
#include <utility>

#include "device/numerics/resize.h"

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

// Bytes from the first to behind the last of all loops but `left_out`; std::nullopt if one of them
// steps back.
std::optional<uint32_t> span_without(const uint32_t (&extent)[npu::kMoveRank],
                                     const int32_t (&stride)[npu::kMoveRank], uint32_t left_out) {
  uint64_t bytes = 1;
  for (uint32_t d = 0; d < npu::kMoveRank; ++d) {
    if (d == left_out || extent[d] == 1) continue;
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

// The operand of a box with rows of `pitch` bytes, each of which is some steps of loop `loop`;
// std::nullopt: the loop does not walk through such rows.
std::optional<std::pair<RowOperand, uint32_t>> rows_of_loop(
    const uint32_t (&extent)[npu::kMoveRank], const int32_t (&stride)[npu::kMoveRank],
    npu::Address address, uint32_t loop, uint32_t pitch) {
  const std::optional<uint32_t> inside = span_without(extent, stride, loop);
  if (extent[loop] == 1 || stride[loop] <= 0 || pitch == 0 || !inside) return std::nullopt;
  const auto step = static_cast<uint32_t>(stride[loop]);
  if (pitch % step != 0 || extent[loop] % (pitch / step) != 0) return std::nullopt;
  const uint32_t steps = pitch / step;
  const uint64_t row_bytes = uint64_t{steps - 1} * step + *inside;
  if (address.offset % pitch + row_bytes > pitch) return std::nullopt;
  return std::pair(RowOperand{.address = address,
                              .pitch = pitch,
                              .row_bytes = static_cast<uint32_t>(row_bytes),
                              .rows = extent[loop] / steps},
                   steps);
}

// Takes rows of the result; if it has none, as the transposed result of a partition, those of an
// operand.
template <class Command>
std::optional<RowAccess> box_access(const Command& command, const Pitches& pitches) {
  const auto operands = box_operands(command);
  std::optional<RowAccess> access;
  for (size_t i = operands.size(); i-- > 0 && !access;) {
    const auto& [address, stride] = operands[i];
    if (address->region == kOwnConstants) continue;
    for (uint32_t loop = 0; loop < npu::kMoveRank && !access; ++loop)
      if (const auto rows =
              rows_of_loop(command.extent, *stride, *address, loop, pitches[address->region]))
        access = RowAccess{
            .rows = rows->first.rows, .loop = loop, .loop_steps = rows->second, .operands = {}};
  }
  if (!access) return std::nullopt;
  for (const auto& [address, stride] : operands) {
    if (address->region == kOwnConstants) continue;
    auto rows =
        rows_of_loop(command.extent, *stride, *address, access->loop, pitches[address->region]);
    if (rows && rows->second != access->loop_steps) rows.reset();
    RowOperand operand = rows ? rows->first : RowOperand{.address = *address};
    operand.access = address == &command.output ? Access::kWrite : Access::kRead;
    access->operands.push_back(operand);
  }
  return access;
}

template <class Command>
Command box_rows(Command command, const RowAccess& access, RowRange result) {
  const uint32_t first = result.begin * access.loop_steps;
  for (const auto& [address, stride] : box_operands(command))
    address->offset =
        static_cast<uint32_t>(int64_t{address->offset} + int64_t{first} * (*stride)[access.loop]);
  command.extent[access.loop] = result.count() * access.loop_steps;
  return command;
}

// ---- resizing

std::optional<RowAccess> resize_access(const npu::Resize& command) {
  // Positions of later rows must not leave 32 bits where they count from the image's last row.
  const npu::ResizeAxis& height = command.height;
  const int64_t last = int64_t{height.out - 1} * height.step + height.start -
                       (int64_t{height.in - 1} << height.fraction_bits);
  if (command.batch != 1 || last > INT32_MAX) return std::nullopt;
  const auto operand = [&](npu::Address address, Access access, uint32_t width, uint32_t rows) {
    const uint32_t pitch = width * command.channels;
    return RowOperand{.address = address,
                      .access = access,
                      .pitch = pitch,
                      .row_bytes = pitch,
                      .rows = rows,
                      .windowed = access == Access::kRead};
  };
  return RowAccess{
      .rows = command.height.out,
      .resize = command,
      .operands = {operand(command.input, Access::kRead, command.width.in, command.height.in),
                   operand(command.output, Access::kWrite, command.width.out, command.height.out)}};
}

// The rows that result rows `result` interpolate; never empty.
RowRange resized_from(const npu::Resize& command, RowRange result) {
  const npu::ResizeAxis& height = command.height;
  const numerics::ResizeAxis axis{height.in, height.out, height.step, height.start,
                                  static_cast<int32_t>(height.fraction_bits)};
  const bool nearest = command.kind == npu::ResizeKind::kNearest;
  const int64_t first = nearest ? axis.nearest(result.begin) : axis.taps(result.begin).lower;
  const int64_t last = nearest ? axis.nearest(result.end - 1) : axis.taps(result.end - 1).upper;
  return {static_cast<uint32_t>(first), static_cast<uint32_t>(last + 1)};
}

// Positions count from the first row that is read. Outside of the image they give its first or last
// row, which is then the first or last one that is read.
npu::Resize resize_rows(npu::Resize command, RowRange result) {
  const RowRange read = resized_from(command, result);
  npu::ResizeAxis& height = command.height;
  command.input.offset += read.begin * command.width.in * command.channels;
  command.output.offset += result.begin * command.width.out * command.channels;
  height.start = static_cast<int32_t>(int64_t{height.start} + int64_t{result.begin} * height.step -
                                      (int64_t{read.begin} << height.fraction_bits));
  height.in = read.count();
  height.out = result.count();
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

// Operands that divide their storage otherwise than `pitches` lose their pitch.
void match(RowAccess& access, const Pitches& pitches) {
  for (RowOperand& operand : access.operands) {
    const uint32_t pitch = pitches[operand.address.region];
    if (operand.pitch != 0 && pitch != 0 && operand.pitch % pitch == 0 &&
        operand.address.offset % pitch + operand.row_bytes <= pitch) {
      operand.step = operand.pitch / pitch;
      operand.pitch = pitch;
    } else {
      operand.pitch = 0;
    }
  }
}

}  // namespace

void RowRange::include(RowRange other) {
  if (other.empty()) return;
  if (empty()) *this = other;
  begin = std::min(begin, other.begin);
  end = std::max(end, other.end);
}

RowRange storage_rows(const RowOperand& operand, RowRange of) {
  if (of.empty()) return {};
  const uint32_t first = operand.address.offset / operand.pitch;
  return {first + of.begin * operand.step, first + (of.end - 1) * operand.step + 1};
}

RowRange operand_rows(const RowOperand& operand, RowRange of) {
  const uint32_t first = operand.address.offset / operand.pitch;
  const auto from = [&](uint32_t row) {
    const uint32_t rows = row <= first ? 0 : (row - first + operand.step - 1) / operand.step;
    return std::min(rows, operand.rows);
  };
  return {from(of.begin), from(of.end)};
}

RowRange RowAccess::read_for(RowRange result, uint32_t operand_rows) const {
  if (result.empty()) return {};
  if (resize) return resized_from(*resize, result);
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
          using Command = std::decay_t<decltype(command)>;
          std::optional<RowAccess> access;
          if constexpr (kHasWindow<Command>) access = window_access(command);
          if constexpr (std::is_same_v<Command, npu::Resize>) access = resize_access(command);
          if (!access) return;
          for (const RowOperand& operand : access->operands) {
            if (operand.address.region == kOwnConstants || operand.pitch == 0) continue;
            uint32_t& pitch = pitches[operand.address.region];
            if (pitch == 0 || pitch % operand.pitch == 0) pitch = operand.pitch;
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
        if constexpr (std::is_same_v<Command, npu::Resize>) return resize_access(command);
        return std::nullopt;
      },
      kernel);
  if (!access) return std::nullopt;
  std::erase_if(access->operands,
                [](const RowOperand& operand) { return operand.address.region == kOwnConstants; });
  const bool windows_constants =
      !std::ranges::any_of(access->operands, &RowOperand::windowed) && access->stride != 1;
  if (windows_constants) return std::nullopt;
  match(*access, pitches);
  return access;
}

Kernel rows_of(const Kernel& kernel, const RowAccess& access, RowRange result) {
  return std::visit(
      [&](const auto& command) -> Kernel {
        using Command = std::decay_t<decltype(command)>;
        if constexpr (kHasWindow<Command>) return window_rows(command, access, result);
        if constexpr (kHasBox<Command>) return box_rows(command, access, result);
        if constexpr (std::is_same_v<Command, npu::Resize>) return resize_rows(command, result);
        DTR_CHECK(false);
      },
      kernel);
}

}  // namespace dtr::neutron
