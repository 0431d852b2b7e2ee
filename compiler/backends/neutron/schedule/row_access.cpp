#include "compiler/backends/neutron/schedule/row_access.h"

#include <algorithm>
#include <utility>

#include "device/numerics/resize.h"

namespace dtr::neutron {
namespace {

template <class Command>
constexpr bool kHasBox = std::is_same_v<Command, npu::Binary> ||
                         std::is_same_v<Command, npu::Lookup> || std::is_same_v<Command, npu::Move>;

// ---- steps of a loop

// An operand that a loop walks through in steps of `native` bytes.
struct Walk {
  npu::Address address;
  uint64_t native;
};

// How many steps of the loop, which has `count`, are one row of the storages, where the pitch of
// one of them is known; else 1. If the storages have different rows, those of the last of `walks`
// that the loop can take.
uint32_t steps_for(std::initializer_list<Walk> walks, uint32_t count, const Pitches& pitches) {
  for (auto walk = std::rbegin(walks); walk != std::rend(walks); ++walk) {
    if (walk->address.region == kOwnConstants || walk->native == 0) continue;
    const uint64_t pitch = pitches[walk->address.region];
    if (pitch != 0 && pitch % walk->native == 0 && count % (pitch / walk->native) == 0)
      return static_cast<uint32_t>(pitch / walk->native);
  }
  return 1;
}

// The operand of which a row is `steps` steps of `native` bytes, each with `inside` bytes from the
// first to behind the last that is accessed. It has no pitch if steps overlap or repeat.
RowOperand operand_of_steps(const Walk& walk, Access how, uint64_t inside, uint32_t steps,
                            uint32_t rows) {
  RowOperand operand{.address = walk.address, .access = how, .rows = rows};
  const uint64_t pitch = walk.native * steps;
  if (inside > walk.native || pitch > UINT32_MAX) return operand;
  operand.pitch = static_cast<uint32_t>(pitch);
  operand.row_bytes = static_cast<uint32_t>(pitch - walk.native + inside);
  return operand;
}

// ---- convolutions, pools and linear layers

RowAxis axis_of(const npu::Window& w) {
  if (w.batch != 1) return RowAxis::kBatch;
  return w.in_height == 1 && w.out_height == 1 ? RowAxis::kWidth : RowAxis::kHeight;
}

template <class Command>
std::optional<RowAccess> window_access(const Command& command, const Pitches& pitches) {
  const npu::Window& w = command.window;
  RowAccess access{.axis = axis_of(w), .operands = {}};
  const bool batch = access.axis == RowAxis::kBatch, width = access.axis == RowAxis::kWidth;
  if (batch) {
    access.loop_steps =
        steps_for({{command.input, w.in.batch}, {command.output, w.out.batch}}, w.batch, pitches);
    access.rows = w.batch / access.loop_steps;
  } else {
    access.rows = width ? w.out_width : w.out_height;
    access.kernel_rows = width ? (w.kernel_width - 1) * w.dilation_width + 1
                               : (w.kernel_height - 1) * w.dilation_height + 1;
    access.stride = width ? w.stride_width : w.stride_height;
    access.pad = width ? w.pad_left : w.pad_top;
  }
  const auto add = [&](npu::Address address, Access how, const npu::Strides& strides,
                       uint32_t height, uint32_t columns, uint32_t channels) {
    const uint32_t row_bytes = (columns - 1) * strides.pixel + channels;
    if (batch) {
      const uint64_t inside = uint64_t{height - 1} * strides.row + row_bytes;
      access.operands.push_back(
          operand_of_steps({address, strides.batch}, how, inside, access.loop_steps, access.rows));
    } else {
      access.operands.push_back({.address = address,
                                 .access = how,
                                 .pitch = width ? strides.pixel : strides.row,
                                 .row_bytes = width ? channels : row_bytes,
                                 .rows = width ? columns : height});
    }
  };
  add(command.input, Access::kRead, w.in, w.in_height, w.in_width, w.in_channels);
  access.operands.back().windowed = !batch;
  if constexpr (requires { command.epilogue; }) {
    const npu::Epilogue& epilogue = command.epilogue;
    if (npu::with_sums(epilogue)) return std::nullopt;
    if ((epilogue.flags & npu::kWithAdd) != 0)
      add(epilogue.addend, Access::kRead, epilogue.addend_strides, w.out_height, w.out_width,
          w.out_channels);
  }
  add(command.output, Access::kWrite, w.out, w.out_height, w.out_width, w.out_channels);
  return access;
}

template <class Command>
Command window_rows(Command command, const RowAccess& access, RowRange result) {
  npu::Window& w = command.window;
  const auto advance = [&](uint32_t read, uint32_t written, uint32_t npu::Strides::*step) {
    command.input.offset += read * (w.in.*step);
    command.output.offset += written * (w.out.*step);
    if constexpr (requires { command.epilogue; })
      command.epilogue.addend.offset += written * (command.epilogue.addend_strides.*step);
  };
  if (access.axis == RowAxis::kBatch) {
    const uint32_t first = result.begin * access.loop_steps;
    advance(first, first, &npu::Strides::batch);
    w.batch = result.count() * access.loop_steps;
    return command;
  }
  const bool width = access.axis == RowAxis::kWidth;
  uint32_t& in = width ? w.in_width : w.in_height;
  const RowRange read = access.read_for(result, in);
  advance(read.begin, result.begin, width ? &npu::Strides::pixel : &npu::Strides::row);
  (width ? w.pad_left : w.pad_top) = static_cast<int32_t>(int64_t{read.begin} + access.pad -
                                                          int64_t{result.begin} * access.stride);
  in = read.count();
  (width ? w.out_width : w.out_height) = result.count();
  return command;
}

// ---- softmax, normalizations and products

std::optional<RowAccess> softmax_access(const npu::Softmax& command, const Pitches& pitches) {
  const uint64_t native = uint64_t{command.columns} * command.inner;
  const Walk input{command.input, native}, output{command.output, native};
  uint32_t steps = steps_for({input, output}, command.outer, pitches);
  // The rows of a mask are repeated: if that happens more than once, a part of the call must have
  // all of them.
  const bool repeats = command.mask_rows != 0 && command.mask_rows != command.outer;
  if (repeats && steps % command.mask_rows != 0) steps = command.mask_rows;
  RowAccess access{.rows = command.outer / steps, .loop_steps = steps, .operands = {}};
  access.operands.push_back(operand_of_steps(input, Access::kRead, native, steps, access.rows));
  if (repeats)
    access.operands.push_back({.address = command.mask});
  else if (command.mask_rows != 0)
    access.operands.push_back(operand_of_steps({command.mask, command.columns}, Access::kRead,
                                               command.columns, steps, access.rows));
  access.operands.push_back(operand_of_steps(output, Access::kWrite, native, steps, access.rows));
  return access;
}

npu::Softmax softmax_rows(npu::Softmax command, const RowAccess& access, RowRange result) {
  const uint32_t first = result.begin * access.loop_steps;
  const uint32_t count = result.count() * access.loop_steps;
  command.input.offset += first * command.columns * command.inner;
  command.output.offset += first * command.columns * command.inner;
  if (command.mask_rows == command.outer) {
    command.mask.offset += first * command.columns;
    command.mask_rows = count;
  }
  command.outer = count;
  return command;
}

std::optional<RowAccess> normalize_access(const npu::Normalize& command, const Pitches& pitches) {
  // Dimensions 0 and 1 count rows: the outer one in memory.
  const bool first_is_outer =
      command.extent[0] > 1 && (command.extent[1] == 1 || command.stride[0] > command.stride[1]);
  const uint32_t loop = first_is_outer ? 0 : 1;
  const uint32_t count = command.extent[loop];
  if (count == 1) return std::nullopt;
  const uint64_t inside = *span_of(command.extent, command.stride, loop);
  // Rows that are interleaved, as those over the height of an image whose channels come last, have
  // no bytes of their own: what a part of them wrote lies among what the others still read.
  if (inside > command.stride[loop]) return std::nullopt;
  const Walk input{command.input, command.stride[loop]};
  const Walk output{command.output, command.stride[loop]};
  const uint32_t steps = steps_for({input, output}, count, pitches);
  RowAccess access{.rows = count / steps, .loop = loop, .loop_steps = steps, .operands = {}};
  access.operands.push_back(operand_of_steps(input, Access::kRead, inside, steps, access.rows));
  access.operands.push_back({.address = command.parameters});
  access.operands.push_back(operand_of_steps(output, Access::kWrite, inside, steps, access.rows));
  return access;
}

npu::Normalize normalize_rows(npu::Normalize command, const RowAccess& access, RowRange result) {
  constexpr uint32_t kParameterBytes = 8;  // a gain and an offset
  const uint32_t first = result.begin * access.loop_steps;
  command.input.offset += first * command.stride[access.loop];
  command.output.offset += first * command.stride[access.loop];
  command.parameters.offset += first * command.parameter_stride[access.loop] * kParameterBytes;
  command.extent[access.loop] = result.count() * access.loop_steps;
  return command;
}

// The loops of a product: those of the batch, rows, columns. A row of the result is some steps of
// the loop that is outermost in its memory.
constexpr uint32_t kRowsLoop = npu::kMatmulBatchRank, kColumnsLoop = kRowsLoop + 1,
                   kProductLoops = kColumnsLoop + 1;
struct ProductLoops {
  uint32_t extent[kProductLoops], left[kProductLoops], right[kProductLoops], output[kProductLoops];
};
ProductLoops loops_of(const npu::Matmul& m) {
  ProductLoops loops{};
  for (uint32_t d = 0; d < npu::kMatmulBatchRank; ++d) {
    loops.extent[d] = m.batch[d];
    loops.left[d] = m.left_batch_stride[d];
    loops.right[d] = m.right_batch_stride[d];
    loops.output[d] = m.output_batch_stride[d];
  }
  loops.extent[kRowsLoop] = m.rows;
  loops.left[kRowsLoop] = m.left_row_stride;
  loops.output[kRowsLoop] = m.output_row_stride;
  loops.extent[kColumnsLoop] = m.columns;
  loops.right[kColumnsLoop] = m.right_column_stride;
  loops.output[kColumnsLoop] = m.output_column_stride;
  return loops;
}

std::optional<RowAccess> matmul_access(const npu::Matmul& m, const Pitches& pitches) {
  const ProductLoops loops = loops_of(m);
  uint32_t loop = kProductLoops;
  for (uint32_t d = 0; d < kProductLoops; ++d)
    if (loops.extent[d] > 1 && (loop == kProductLoops || loops.output[d] > loops.output[loop]))
      loop = d;
  if (loop == kProductLoops) return std::nullopt;
  const uint64_t sum_left = uint64_t{m.inner - 1} * m.left_inner_stride;
  const uint64_t sum_right = uint64_t{m.inner - 1} * m.right_inner_stride;
  const uint64_t left_bytes = *span_of(loops.extent, loops.left, loop) + sum_left;
  const uint64_t right_bytes = *span_of(loops.extent, loops.right, loop) + sum_right;
  const uint64_t output_bytes = *span_of(loops.extent, loops.output, loop);
  const Walk left{m.left, left_bytes <= loops.left[loop] ? loops.left[loop] : 0};
  const Walk right{m.right, right_bytes <= loops.right[loop] ? loops.right[loop] : 0};
  const Walk output{m.output, output_bytes <= loops.output[loop] ? loops.output[loop] : 0};
  const uint32_t steps = steps_for({right, left, output}, loops.extent[loop], pitches);
  RowAccess access{
      .rows = loops.extent[loop] / steps, .loop = loop, .loop_steps = steps, .operands = {}};
  access.operands.push_back(operand_of_steps(left, Access::kRead, left_bytes, steps, access.rows));
  access.operands.push_back(
      operand_of_steps(right, Access::kRead, right_bytes, steps, access.rows));
  if (uses_table(m)) access.operands.push_back({.address = m.table});
  access.operands.push_back(
      operand_of_steps(output, Access::kWrite, output_bytes, steps, access.rows));
  return access;
}

npu::Matmul matmul_rows(npu::Matmul m, const RowAccess& access, RowRange result) {
  const ProductLoops loops = loops_of(m);
  const uint32_t first = result.begin * access.loop_steps;
  m.left.offset += first * loops.left[access.loop];
  m.right.offset += first * loops.right[access.loop];
  m.output.offset += first * loops.output[access.loop];
  uint32_t& extent = access.loop == kRowsLoop      ? m.rows
                     : access.loop == kColumnsLoop ? m.columns
                                                   : m.batch[access.loop];
  extent = result.count() * access.loop_steps;
  return m;
}

// ---- boxes: functions of one or two tensors, copies

// The outermost loop with more than one step; kMoveRank if there is none.
uint32_t outermost(const uint32_t (&extent)[npu::kMoveRank]) {
  uint32_t loop = 0;
  while (loop < npu::kMoveRank && extent[loop] == 1) ++loop;
  return loop;
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
  const std::optional<uint64_t> inside = span_of(extent, stride, loop);
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

template <class Command>
std::optional<RowAccess> access_of(const Command& command, const Pitches& pitches) {
  if constexpr (kHasWindow<Command>) return window_access(command, pitches);
  if constexpr (kHasBox<Command>) return box_access(command, pitches);
  if constexpr (std::is_same_v<Command, npu::Resize>) return resize_access(command);
  if constexpr (std::is_same_v<Command, npu::Softmax>) return softmax_access(command, pitches);
  if constexpr (std::is_same_v<Command, npu::Normalize>) return normalize_access(command, pitches);
  if constexpr (std::is_same_v<Command, npu::Matmul>) return matmul_access(command, pitches);
  return std::nullopt;
}

// Of two operands whose rows are different numbers of steps the one with more of them, and a pitch
// with as few as the other has. std::nullopt: there is no such pair.
template <class Command>
std::optional<std::pair<uint32_t, uint32_t>> finer_pitch(const Command& command,
                                                         const Pitches& pitches) {
  const uint32_t loop = outermost(command.extent);
  if (loop == npu::kMoveRank) return std::nullopt;
  const auto steps_of = [&](const npu::Address* address, int32_t step) -> uint32_t {
    if (address->region == kOwnConstants || step <= 0) return 0;
    const uint32_t pitch = pitches[address->region];
    return pitch % static_cast<uint32_t>(step) == 0 ? pitch / static_cast<uint32_t>(step) : 0;
  };
  for (const auto& [coarse, coarse_stride] : box_operands(command))
    for (const auto& [fine, fine_stride] : box_operands(command)) {
      const uint32_t many = steps_of(coarse, (*coarse_stride)[loop]);
      const uint32_t few = steps_of(fine, (*fine_stride)[loop]);
      if (few != 0 && many > few && many % few == 0)
        return std::pair(coarse->region, few * static_cast<uint32_t>((*coarse_stride)[loop]));
    }
  return std::nullopt;
}

// Accesses to the storage that are not by its rows.
size_t not_by_rows(std::span<const Call> calls, const Pitches& pitches, uint32_t storage) {
  size_t count = 0;
  for (const Call& call : calls) {
    bool uses = false;
    visit_addresses(call.kernel, [&](const npu::Address& address, Access) {
      uses |= address.region == storage;
    });
    if (!uses) continue;
    const std::optional<RowAccess> access = row_access(call.kernel, pitches);
    count += !access ? 1
                     : static_cast<size_t>(
                           std::ranges::count_if(access->operands, [&](const RowOperand& operand) {
                             return operand.address.region == storage && operand.pitch == 0;
                           }));
  }
  return count;
}

// Whether the call cannot take several of its rows as one.
template <class Command>
bool rows_are_given(const Command& command) {
  if constexpr (kHasWindow<Command>) return axis_of(command.window) != RowAxis::kBatch;
  return std::is_same_v<Command, npu::Resize>;
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
  const int64_t begin = std::clamp<int64_t>(first, 0, int64_t{operand_rows} - 1);
  const int64_t end = std::clamp<int64_t>(last, begin + 1, operand_rows);
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

void find_pitches(std::span<const Call> calls, Pitches& pitches) {
  // First the calls whose rows are given; then those that may take several of theirs as one.
  for (const bool given : {true, false})
    for (const Call& call : calls) {
      const auto access = std::visit(
          [&](const auto& command) -> std::optional<RowAccess> {
            if constexpr (kHasBox<std::decay_t<decltype(command)>>) return std::nullopt;
            if (rows_are_given(command) != given) return std::nullopt;
            return access_of(command, pitches);
          },
          call.kernel);
      if (!access) continue;
      for (const RowOperand& operand : access->operands) {
        if (operand.address.region == kOwnConstants || operand.pitch == 0) continue;
        uint32_t& pitch = pitches[operand.address.region];
        if (pitch == 0 || (given && pitch % operand.pitch == 0)) pitch = operand.pitch;
      }
    }
  // Twice: a chain of elementwise calls may get its pitch from the window behind it.
  for (int round = 0; round < 2; ++round)
    for (const Call& call : calls)
      std::visit(
          [&](const auto& command) {
            if constexpr (kHasBox<std::decay_t<decltype(command)>>) spread_pitch(command, pitches);
          },
          call.kernel);
  // A transposed convolution writes every second row of its result: each of its calls takes two
  // rows of the storage as one, until a copy from there shows what a row is.
  for (const Call& call : calls) {
    const auto finer = std::visit(
        [&](const auto& command) -> std::optional<std::pair<uint32_t, uint32_t>> {
          if constexpr (kHasBox<std::decay_t<decltype(command)>>)
            return finer_pitch(command, pitches);
          return std::nullopt;
        },
        call.kernel);
    if (!finer) continue;
    const auto [storage, pitch] = *finer;
    Pitches tried = pitches;
    tried[storage] = pitch;
    if (not_by_rows(calls, tried, storage) < not_by_rows(calls, pitches, storage))
      pitches = std::move(tried);
  }
}

std::optional<RowAccess> row_access(const Kernel& kernel, const Pitches& pitches) {
  std::optional<RowAccess> access =
      std::visit([&](const auto& command) { return access_of(command, pitches); }, kernel);
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
        if constexpr (std::is_same_v<Command, npu::Softmax>)
          return softmax_rows(command, access, result);
        if constexpr (std::is_same_v<Command, npu::Normalize>)
          return normalize_rows(command, access, result);
        if constexpr (std::is_same_v<Command, npu::Matmul>)
          return matmul_rows(command, access, result);
        DTR_CHECK(false);
      },
      kernel);
}

}  // namespace dtr::neutron
