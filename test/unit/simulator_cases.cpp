#include "test/unit/simulator_cases.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace dtr::test {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format

namespace {

Rescale any_rescale(Random& random, int32_t low, int32_t high) {
  return {random.chance(10) ? 0 : random.between(1 << 30, INT32_MAX), random.between(low, high)};
}
BinaryArguments any_binary(Random& random, BinaryKind kind) {
  const bool sum = kind <= BinaryKind::kSubtract;
  const int32_t low = random.between(-128, 127);
  return {random.between(-128, 127),
          random.between(-128, 127),
          random.between(-128, 127),
          any_rescale(random, -4, sum ? 0 : 3),
          any_rescale(random, -4, sum ? 0 : 3),
          random.chance(80) ? (sum ? any_rescale(random, -20, -15) : any_rescale(random, -10, 0))
                            : any_rescale(random, -31, 31),
          low,
          random.between(low, 127)};
}

Window any_window(Random& random, uint32_t channels, bool dilated_columns) {
  Window w{1 + random.upto(1),
           1 + random.upto(8),
           1 + random.upto(8),
           1 + random.upto(channels),
           1,
           1,
           1 + random.upto(channels)};
  const bool pointwise = random.chance(25);
  w.kernel_height = pointwise ? 1 : 1 + random.upto(4),
  w.kernel_width = pointwise ? 1 : 1 + random.upto(4);
  w.stride_height = random.chance(60) ? 1 : 1 + random.upto(3),
  w.stride_width = random.chance(60) ? 1 : 1 + random.upto(3);
  w.dilation_height = random.chance(80) ? 1 : 1 + random.upto(2);
  w.dilation_width = !dilated_columns || random.chance(80) ? 1 : 1 + random.upto(2);
  w.pad_top = static_cast<int32_t>(random.upto((w.kernel_height - 1) * w.dilation_height));
  w.pad_left = static_cast<int32_t>(random.upto((w.kernel_width - 1) * w.dilation_width));
  if (random.chance(15)) w.pad_top = random.between(-4, 20), w.pad_left = random.between(-4, 20);
  w.out_height = 1 + random.upto(8), w.out_width = 1 + random.upto(8);
  if (pointwise && random.chance(70)) {
    w.stride_height = w.stride_width = 1;
    w.out_height = w.in_height, w.out_width = w.in_width;
  }
  return w;
}

// Mostly dense, sometimes a part of a larger tensor.
Strides any_strides(Random& random, uint32_t height, uint32_t width, uint32_t channels) {
  if (random.chance(60)) return dense_strides(height, width, channels);
  const auto gap = [&] { return random.chance(50) ? random.upto(5) : 0; };
  const uint32_t pixel = channels + gap(), row = pixel * width + gap();
  return {pixel, row, row * height + gap()};
}
void set_strides(Random& random, Window& w) {
  w.in = any_strides(random, w.in_height, w.in_width, w.in_channels);
  w.out = any_strides(random, w.out_height, w.out_width, w.out_channels);
}

}  // namespace

uint32_t input_bytes(const Window& w) {
  return w.batch * std::max(w.in.batch, w.in.row * w.in_height);
}
uint32_t output_bytes(const Window& w) {
  return w.batch * std::max(w.out.batch, w.out.row * w.out_height);
}

std::vector<Channel> any_channels(Random& random, uint32_t count) {
  std::vector<Channel> channels;
  const bool extreme = random.chance(25);
  for (uint32_t c = 0; c < count; ++c) {
    const Rescale by = extreme ? any_rescale(random, -31, 30) : any_rescale(random, -14, 1);
    channels.push_back({extreme ? random.any() : random.between(-50000, 50000),
                        extreme ? random.between(0, INT32_MAX) : by.multiplier, by.shift});
  }
  return channels;
}

namespace {

Epilogue any_epilogue(Random& random, Case& to, const Window& w) {
  const int32_t low = random.between(-128, 0);
  Epilogue epilogue{random.between(-128, 127),
                    low,
                    random.between(low, 127),
                    random.chance(25) ? kOneRounding : 0u,
                    {},
                    {},
                    {},
                    {}};
  if (random.chance(20)) {
    epilogue.flags |= kWithTable;
    epilogue.table = to.builder.stage(random.int8(256));
  }
  if (random.chance(20)) {
    epilogue.flags |= kWithAdd;
    epilogue.addend_strides =
        random.chance(50) ? w.out : any_strides(random, w.out_height, w.out_width, w.out_channels);
    epilogue.addend =
        to.input(random.int8(w.batch * std::max(epilogue.addend_strides.batch,
                                                epilogue.addend_strides.row * w.out_height)));
    epilogue.add = any_binary(random, BinaryKind::kAdd);
  }
  return epilogue;
}

// Weights come from constants, which a kernel set packs once, or as an input, which it packs in
// each run.
Address place(Random& random, Case& to, const std::vector<int8_t>& bytes) {
  return random.chance(75) ? to.builder.stage(bytes) : to.input(bytes);
}
std::vector<int8_t> bytes_of(const std::vector<int32_t>& words) {
  std::vector<int8_t> bytes(words.size() * 4);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}
// An output whose gaps have been written.
Address output_of(Case& to, const Window& w) {
  const Address y = to.builder.output(output_bytes(w));
  to.builder.add(Fill{y, output_bytes(w), 77});
  return y;
}

// The command, or several of it that hand on their sums.
template <class Command>
void add_convolution(Random& random, Case& to, Command command) {
  if (random.chance(20)) {
    const Window& w = command.window;
    Command before = command;
    before.output =
        to.builder.scratch((w.out_channels + 7) / 8 * 32 * w.batch * w.out_height * w.out_width);
    before.epilogue = {.flags = kToSums};
    to.builder.add(before);
    before.epilogue = {.flags = kToSums | kFromSums, .sums = before.output};
    if (random.chance(50)) to.builder.add(before);
    command.epilogue.flags |= kFromSums;
    command.epilogue.sums = before.output;
  }
  to.builder.add(command);
}

void add_conv2d(Random& random, Case& to) {
  const Packing packing = random.chance(50) ? Packing::kRows : Packing::kChannels;
  Window w = any_window(random, random.chance(20) ? 150 : 20, packing == Packing::kChannels);
  set_strides(random, w);
  const Address x = to.input(random.int8(input_bytes(w)));
  const size_t count = size_t{w.out_channels} * w.kernel_height * w.kernel_width * w.in_channels;
  const Address weights = place(random, to, pack_conv2d(kTarget, w, packing, random.int8(count)));
  const Address parameters =
      place(random, to, bytes_of(pack_parameters(kTarget, any_channels(random, w.out_channels))));
  const Epilogue epilogue = any_epilogue(random, to, w);
  const bool in_place =
      (epilogue.flags & kWithAdd) != 0 && epilogue.addend_strides == w.out && random.chance(50);
  const Address y = in_place ? epilogue.addend : output_of(to, w);
  add_convolution(
      random, to,
      Conv2d{w, x, y, weights, parameters, random.between(-128, 127), packing, epilogue});
}

void add_depthwise(Random& random, Case& to) {
  Window w = any_window(random, random.chance(20) ? 150 : random.chance(20) ? 0 : 40, true);
  w.out_channels =
      w.in_channels * (random.chance(60) ? 1 : 1 + random.upto(w.in_channels == 1 ? 70 : 3));
  set_strides(random, w);
  const Address x = to.input(random.int8(input_bytes(w)));
  const size_t count = size_t{w.out_channels} * w.kernel_height * w.kernel_width;
  const Address weights = place(random, to, pack_depthwise(kTarget, w, random.int8(count)));
  const Address parameters =
      place(random, to, bytes_of(pack_parameters(kTarget, any_channels(random, w.out_channels))));
  const Epilogue epilogue = any_epilogue(random, to, w);
  const bool in_place =
      (epilogue.flags & kWithAdd) != 0 && epilogue.addend_strides == w.out && random.chance(50);
  const Address y = in_place ? epilogue.addend : output_of(to, w);
  add_convolution(random, to,
                  Depthwise{w, x, y, weights, parameters, random.between(-128, 127), epilogue});
}

void add_pool(Random& random, Case& to) {
  Window w = any_window(random, random.chance(10) ? 300 : 40, true);
  w.out_channels = w.in_channels;
  const PoolKind kind = static_cast<PoolKind>(random.upto(2));
  if (kind != PoolKind::kMean) {  // every window must hit the input
    w.pad_top = std::clamp(w.pad_top, 0, static_cast<int32_t>(w.kernel_height) - 1);
    w.pad_left = std::clamp(w.pad_left, 0, static_cast<int32_t>(w.kernel_width) - 1);
    w.out_height = std::min(
        w.out_height, (w.in_height - 1 + static_cast<uint32_t>(w.pad_top)) / w.stride_height + 1);
    w.out_width = std::min(
        w.out_width, (w.in_width - 1 + static_cast<uint32_t>(w.pad_left)) / w.stride_width + 1);
    if (w.dilation_height > w.in_height) w.pad_top = 0, w.out_height = 1;
    if (w.dilation_width > w.in_width) w.pad_left = 0, w.out_width = 1;
    if (w.dilation_height > 1)
      w.pad_top = 0, w.out_height = std::min(w.out_height, (w.in_height - 1) / w.stride_height + 1);
    if (w.dilation_width > 1)
      w.pad_left = 0, w.out_width = std::min(w.out_width, (w.in_width - 1) / w.stride_width + 1);
  }
  set_strides(random, w);
  const Address x = to.input(random.int8(input_bytes(w))), y = output_of(to, w);
  const int32_t low = random.between(-128, 0);
  to.builder.add(Pool{w, x, y, kind, random.between(-128, 127), random.between(-128, 127),
                      random.between(-128, 127), any_rescale(random, -10, 2), low,
                      random.between(low, 127)});
}

// Steps through the box with its dimensions in any order, perhaps with gaps; returns the bytes from
// the first to behind the last element.
uint32_t any_walk(Random& random, const uint32_t (&extent)[kMoveRank],
                  int32_t (&stride)[kMoveRank]) {
  std::array<uint32_t, kMoveRank> order{5, 4, 3, 2, 1, 0};
  if (random.chance(50)) std::swap(order[random.upto(5)], order[random.upto(5)]);
  uint32_t length = 1;
  for (const uint32_t d : order) {
    stride[d] =
        static_cast<int32_t>(length + (extent[d] > 1 && random.chance(20) ? random.upto(3) : 0));
    length += (extent[d] - 1) * static_cast<uint32_t>(stride[d]);
  }
  return length;
}
Address filled_output(Case& to, uint32_t bytes) {
  const Address y = to.builder.output(bytes);
  to.builder.add(Fill{y, bytes, -77});
  return y;
}

// Dense operands, operands that stand still along some dimensions, and strided ones with gaps; in
// place where that is allowed.
void add_binary(Random& random, Case& to) {
  const auto kind = static_cast<BinaryKind>(random.upto(5));
  if (random.chance(40)) {
    const uint32_t elements = 1 + random.upto(200);
    const Address a = to.input(random.int8(elements)), b = to.input(random.int8(elements));
    const Address y = random.chance(30) ? a : random.chance(30) ? b : to.builder.output(elements);
    return to.builder.add(binary(kind, a, b, y, elements, any_binary(random, kind)));
  }
  Binary command{};
  command.kind = kind;
  command.arguments = any_binary(random, kind);
  uint32_t dense = 1, span = 1;
  for (uint32_t d = kMoveRank; d-- > 0;) {
    command.extent[d] = random.chance(40) ? 1 : 1 + random.upto(d == kMoveRank - 1 ? 40 : 4);
    if (random.chance(70)) {
      command.stride_0[d] = dense;
      dense *= command.extent[d];
    }
    if (random.chance(70)) {
      command.stride_1[d] = random.chance(80) ? span : span + 1;
      span += (command.extent[d] - 1) * command.stride_1[d];
      span += random.upto(1);
    }
  }
  command.input_0 = to.input(random.int8(dense));
  command.input_1 = to.input(random.int8(span));
  const uint32_t bytes = any_walk(random, command.extent, command.output_stride);
  const bool in_place = bytes == dense &&
                        same_walk(command.extent, command.stride_0, command.output_stride) &&
                        random.chance(50);
  command.output = in_place ? command.input_0 : filled_output(to, bytes);
  to.builder.add(command);
}

void add_lookup(Random& random, Case& to) {
  const Address table = to.builder.stage(random.int8(256));
  Lookup command = dense_lookup(1 + random.upto(200));
  const bool dense = random.chance(30);
  if (!dense)
    for (uint32_t d = 0; d < kMoveRank; ++d)
      command.extent[d] = random.chance(40) ? 1 : 1 + random.upto(d == kMoveRank - 1 ? 40 : 4);
  const uint32_t from = dense ? command.extent[kMoveRank - 1]
                              : any_walk(random, command.extent, command.input_stride);
  const uint32_t bytes = dense ? from : any_walk(random, command.extent, command.output_stride);
  command.input = to.input(random.int8(from));
  const bool in_place = from == bytes &&
                        same_walk(command.extent, command.input_stride, command.output_stride) &&
                        random.chance(50);
  command.output = in_place ? command.input : filled_output(to, bytes);
  command.table = table;
  to.builder.add(command);
}

void add_softmax(Random& random, Case& to) {
  // One statement each: compilers for other machines evaluate arguments in another order.
  const int32_t shift = random.between(15, 23);
  const uint32_t columns = 1 + random.upto(40);
  const uint32_t outer = 1 + random.upto(3);
  Softmax softmax = probability({}, {}, outer, columns, shift);
  softmax.inner = 1 + random.upto(3);
  softmax.input_rescale.multiplier = random.between(1 << 30, INT32_MAX);
  softmax.output_rescale = {random.between(1 << 30, INT32_MAX), random.between(-4, 12)};
  softmax.zero_point_out = random.between(-128, 127);
  if (random.chance(40)) {
    softmax.kind = SoftmaxKind::kLogarithm;
    softmax.difference = {random.between(1 << 30, INT32_MAX), random.between(8, 22)};
    softmax.output_rescale.shift = random.between(-12, 1);
  }
  if (softmax.kind == SoftmaxKind::kProbability && random.chance(50)) {
    softmax.inner = 1;
    softmax.mask_rows = random.chance(50) ? softmax.outer : 1;
    softmax.outer *= 1 + random.upto(2);
    std::vector<int8_t> mask = random.int8(softmax.mask_rows * softmax.columns);
    for (int8_t& takes_part : mask) takes_part = takes_part > -40 ? 1 : 0;
    softmax.mask = to.input(std::move(mask));
  }
  const uint32_t bytes = softmax.outer * softmax.columns * softmax.inner;
  softmax.input = to.input(random.int8(bytes));
  softmax.output = to.builder.output(bytes);
  to.builder.add(softmax);
}

// Strides of a dense tensor with its dimensions in a random order.
template <size_t kRank>
std::array<uint32_t, kRank> any_strides(Random& random, const std::array<uint32_t, kRank>& extent) {
  std::array<size_t, kRank> order{};
  for (size_t i = 0; i < kRank; ++i) order[i] = i;
  for (size_t i = kRank; i-- > 1;)
    std::swap(order[i], order[random.upto(static_cast<uint32_t>(i))]);
  std::array<uint32_t, kRank> strides{};
  uint32_t stride = 1;
  for (const size_t dim : order) {
    strides[dim] = stride;
    stride *= extent[dim];
  }
  return strides;
}
template <size_t kRank>
uint32_t product_of(const std::array<uint32_t, kRank>& extent) {
  uint32_t product = 1;
  for (const uint32_t e : extent) product *= e;
  return product;
}

// Any orders of the three tensors, batches repeated in one of the operands.
void add_matmul(Random& random, Case& to) {
  Matmul m{.rows = 1 + random.upto(9),
           .inner = 1 + random.upto(20),
           .columns = 1 + random.upto(19),
           .zero_point_left = random.between(-128, 127),
           .zero_point_right = random.between(-128, 127),
           .rescale = {random.between(1 << 30, INT32_MAX), random.between(-14, -4)},
           .zero_point_out = random.between(-128, 127),
           .clamp_low = random.between(-128, 0),
           .clamp_high = random.between(1, 127)};
  std::array<uint32_t, 6> left{}, right{}, output{};
  for (uint32_t d = 0; d < kMatmulBatchRank; ++d) {
    output[d] = m.batch[d] = random.chance(60) ? 1 : 1 + random.upto(2);
    left[d] = random.chance(20) ? 1 : m.batch[d];
    right[d] = random.chance(20) ? 1 : m.batch[d];
  }
  left[4] = output[4] = m.rows;
  left[5] = right[4] = m.inner;
  right[5] = output[5] = m.columns;
  const auto left_strides = any_strides(random, left), right_strides = any_strides(random, right),
             strides = any_strides(random, output);
  for (uint32_t d = 0; d < kMatmulBatchRank; ++d) {
    m.left_batch_stride[d] = left[d] == 1 ? 0 : left_strides[d];
    m.right_batch_stride[d] = right[d] == 1 ? 0 : right_strides[d];
    m.output_batch_stride[d] = strides[d];
  }
  m.left_row_stride = left_strides[4], m.left_inner_stride = left_strides[5];
  m.right_inner_stride = right_strides[4], m.right_column_stride = right_strides[5];
  m.output_row_stride = strides[4], m.output_column_stride = strides[5];
  m.left = to.input(random.int8(product_of(left)));
  m.right = to.input(random.int8(product_of(right)));
  if (random.chance(30)) m.flags = kWithTable, m.table = to.builder.stage(random.int8(256));
  m.output = to.builder.output(product_of(output));
  to.builder.add(m);
}

// Rows of two loops, parameters shared along some of them.
void add_normalize(Random& random, Case& to) {
  const std::array<uint32_t, kNormalizeRank> extent{1 + random.upto(3), 1 + random.upto(2),
                                                    1 + random.upto(5), 1 + random.upto(20)};
  const auto stride = any_strides(random, extent);
  Normalize n{.center = random.upto(2) % 2,
              .zero_point_in = random.between(-128, 127),
              .zero_point_out = random.between(-128, 127),
              .epsilon_low = random.upto(1000),
              .epsilon_high = random.upto(2),
              .gain_shift = 12 + random.upto(20),
              .clamp_low = random.between(-128, 0),
              .clamp_high = random.between(1, 127)};
  uint32_t parameters = 1;
  for (uint32_t d = 0; d < kNormalizeRank; ++d) {
    n.extent[d] = extent[d];
    n.stride[d] = stride[d];
    if (!random.chance(50)) continue;
    n.parameter_stride[d] = parameters;
    parameters *= extent[d];
  }
  std::vector<int32_t> values;
  for (uint32_t i = 0; i < 2 * parameters; ++i)
    values.push_back(random.between(-(1 << 24), 1 << 24));
  n.parameters = to.builder.stage(values);
  const uint32_t bytes = product_of(extent);
  n.input = to.input(random.int8(bytes));
  n.output = random.chance(30) ? n.input : to.builder.output(bytes);
  to.builder.add(n);
}

// A permutation of a box, the input with gaps.
void add_move(Random& random, Case& to) {
  Move move{};
  uint32_t order[kMoveRank] = {0, 1, 2, 3, 4, 5};
  for (uint32_t i = kMoveRank; i-- > 1;)
    if (random.chance(40)) std::swap(order[i], order[random.upto(i)]);
  int32_t input_stride = 1, output_stride = 1;
  for (uint32_t d = kMoveRank; d-- > 0;) {
    move.extent[d] = random.chance(40) ? 1 : 1 + random.upto(3);
    move.output_stride[d] = output_stride;
    output_stride *= static_cast<int32_t>(move.extent[d]);
  }
  for (uint32_t i = kMoveRank; i-- > 0;) {
    move.input_stride[order[i]] = input_stride;
    input_stride *= static_cast<int32_t>(move.extent[order[i]]) + (random.chance(20) ? 1 : 0);
  }
  move.input = to.input(random.int8(static_cast<size_t>(input_stride)));
  move.output = to.builder.output(static_cast<uint32_t>(output_stride));
  to.builder.add(move);
}

// A box in any order, and some of its dimensions reversed or repeated.
void add_strided_move(Random& random, Case& to) {
  Move move{};
  int32_t input_stride = 1, output_stride = 1;
  for (uint32_t d = kMoveRank; d-- > 0;) {
    move.extent[d] = random.chance(40) ? 1 : 1 + random.upto(3);
    const auto extent = static_cast<int32_t>(move.extent[d]);
    const bool repeated = random.chance(20), reversed = random.chance(30);
    move.input_stride[d] = repeated ? 0 : reversed ? -input_stride : input_stride;
    if (!repeated && reversed)
      move.input.offset += static_cast<uint32_t>((extent - 1) * input_stride);
    if (!repeated) input_stride *= extent;
    move.output_stride[d] = output_stride;
    output_stride *= extent;
  }
  move.input.region = to.input(random.int8(static_cast<size_t>(input_stride))).region;
  move.output = to.builder.output(static_cast<uint32_t>(output_stride));
  to.builder.add(move);
}

void add_reduce(Random& random, Case& to) {
  Reduce reduce{};
  reduce.kind = static_cast<ReduceKind>(random.upto(5));
  const bool index = returns_index(reduce.kind);
  if (index) reduce.index_bytes = random.chance(50) ? 4 : 8;
  std::fill(std::begin(reduce.extent), std::end(reduce.extent), 1u);
  std::fill(std::begin(reduce.reduced_extent), std::end(reduce.reduced_extent), 1u);
  int32_t stride = 1, output_stride = static_cast<int32_t>(result_bytes(reduce));
  uint32_t d = kMoveRank, r = kMoveRank;  // loops in use
  for (int loop = 0; loop < 6; ++loop) {
    const uint32_t extent = 1 + random.upto(random.chance(10) ? 300 : 4);
    if (stride * static_cast<int32_t>(extent) > 100000) break;
    const bool reversed = random.chance(10);
    if (reversed) reduce.input.offset += (extent - 1) * static_cast<uint32_t>(stride);
    if (random.chance(50)) {
      reduce.extent[--d] = extent;
      reduce.input_stride[d] = reversed ? -stride : stride;
      reduce.output_stride[d] = output_stride;
      output_stride *= static_cast<int32_t>(extent);
    } else {
      reduce.reduced_extent[--r] = extent;
      reduce.reduced_stride[r] = reversed ? -stride : stride;
    }
    stride *= static_cast<int32_t>(extent) + (random.chance(20) ? 1 : 0);
  }
  reduce.input.region = to.input(random.int8(static_cast<size_t>(stride))).region;
  reduce.output = to.builder.output(static_cast<uint32_t>(output_stride));
  reduce.zero_point_in = random.between(-128, 127);
  reduce.zero_point_out = random.between(-128, 127);
  reduce.rescale = any_rescale(random, -12, 2);
  const bool bytes = reduce.kind == ReduceKind::kSumOfBytes;
  reduce.clamp_low = random.between(bytes ? 0 : -128, 100);
  reduce.clamp_high = random.between(reduce.clamp_low, bytes ? 255 : 127);
  to.builder.add(reduce);
}

void add_resize(Random& random, Case& to) {
  const auto axis = [&]() -> ResizeAxis {
    const uint32_t bits = 10 + random.upto(19);
    return {1 + random.upto(6), 1 + random.upto(9), random.upto(3u << bits),
            random.between(-(1 << bits), 1 << bits), bits};
  };
  Resize resize{{},
                {},
                static_cast<ResizeKind>(random.upto(1)),
                1 + random.upto(1),
                1 + random.upto(12),
                axis(),
                axis()};
  const uint32_t planes = resize.batch * resize.channels;
  resize.input = to.input(random.int8(size_t{planes} * resize.height.in * resize.width.in));
  resize.output = to.builder.output(planes * resize.height.out * resize.width.out);
  to.builder.add(resize);
}

void add_gather(Random& random, Case& to) {
  Gather gather{.outer = 1 + random.upto(3),
                .rows = 1 + random.upto(9),
                .count = 1 + random.upto(9),
                .inner = 1 + random.upto(20),
                .index_bytes = random.chance(50) ? 4u : 8u};
  std::vector<int8_t> indices(size_t{gather.count} * gather.index_bytes);
  for (uint32_t i = 0; i < gather.count; ++i) {
    const int64_t index = random.upto(gather.rows - 1);
    std::memcpy(&indices[size_t{i} * gather.index_bytes], &index, gather.index_bytes);
  }
  gather.input = to.input(random.int8(size_t{gather.outer} * gather.rows * gather.inner));
  gather.indices = place(random, to, indices);
  gather.output = to.builder.output(gather.outer * gather.count * gather.inner);
  to.builder.add(gather);
}

void add_fill(Random& random, Case& to) {
  const uint32_t bytes = 1 + random.upto(100);
  to.builder.add(Fill{to.builder.output(bytes), bytes, random.between(-128, 127)});
}

}  // namespace

std::span<const Generator> generators() {
  static constexpr Generator kGenerators[] = {
      {"Conv2d", add_conv2d, 400}, {"Depthwise", add_depthwise, 400},
      {"Pool", add_pool, 200},     {"Binary", add_binary, 600},
      {"Lookup", add_lookup, 200}, {"Softmax", add_softmax, 200},
      {"Matmul", add_matmul, 300}, {"Normalize", add_normalize, 200},
      {"Move", add_move, 200},     {"StridedMove", add_strided_move, 200},
      {"Reduce", add_reduce, 400}, {"Resize", add_resize, 200},
      {"Fill", add_fill, 10},      {"Gather", add_gather, 200}};
  return kGenerators;
}

}  // namespace dtr::test
