// The host's simulator: every kit of kernels gives the core's bytes and cycles for random commands, and the watch over memory refuses
// programs that read what is not there yet.
#include "simulator/host/host_simulator.h"

#include <gtest/gtest.h>

#include <hwy/targets.h>

#include <string>

#include "simulator/core/simulator.h"
#include "test/unit/simulator_payload.h"

namespace dtr {
namespace {

using namespace npu;  // NOLINT(google-build-using-namespace): the vocabulary of the format
using simulator::Fault;
using simulator::HostSimulator;
using simulator::Kit;
using simulator::Simulator;
using test::AlignedBytes;
using test::PayloadBuilder;
using test::Random;

constexpr Target kTarget{};

// All kits that this machine can run.
std::vector<Kit> kits() {
  std::vector<Kit> result;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    result.push_back(simulator::highway_kit());
  }
  hwy::SetSupportedTargetsForTest(0);
  result.push_back(simulator::plain_kit());
  if (const Kit* vnni = simulator::vnni_kit()) result.push_back(*vnni);
  return result;
}

// A program and what its inputs hold.
struct Case {
  PayloadBuilder builder;
  std::vector<std::vector<int8_t>> inputs;
  std::string name;

  Address input(std::vector<int8_t> values) {
    inputs.push_back(std::move(values));
    return builder.input(static_cast<uint32_t>(inputs.back().size()));
  }
};

struct Memory {
  std::vector<AlignedBytes> operands;
  AlignedBytes scratch;
  explicit Memory(const Case& from) : scratch(from.builder.scratch_bytes(), 0x55) {
    size_t next = 0;
    for (const Operand& operand : from.builder.operands()) {
      operands.emplace_back(operand.bytes, uint8_t{0x55});
      if (operand.kind == OperandKind::kInput) std::memcpy(operands.back().data(), from.inputs[next++].data(), operand.bytes);
    }
  }
  std::vector<Buffer> buffers() {
    std::vector<Buffer> list;
    for (AlignedBytes& operand : operands) list.push_back(operand.buffer());
    return list;
  }
};

void expect_same(const Report& a, const Report& b) {
  EXPECT_EQ(a.status, b.status);
  EXPECT_EQ(a.command, b.command);
  EXPECT_EQ(a.total_cycles, b.total_cycles);
  EXPECT_EQ(a.busy_cycles, b.busy_cycles);
  EXPECT_EQ(a.host_cycles, b.host_cycles);
  EXPECT_EQ(a.stall_cycles, b.stall_cycles);
  EXPECT_EQ(a.copied_bytes, b.copied_bytes);
  EXPECT_EQ(a.calls, b.calls);
  EXPECT_EQ(a.peak_scratch_bytes, b.peak_scratch_bytes);
}

// Runs on the core and on each kit, twice (the second run must not depend on the first), and compares all memory.
void expect_kits_agree(Case& test_case, const std::vector<Kit>& kits) {
  const AlignedBytes payload = test_case.builder.build();
  Simulator::Slot slots[1];
  uint64_t arrivals[64];
  Simulator core(kTarget, slots, arrivals);
  uint32_t handle = 0;
  ASSERT_EQ(core.prepare(payload.data(), payload.size(), &handle), Status::kOk);
  Memory right(test_case);
  const Report report = core.run(handle, right.buffers(), right.scratch.buffer(), {});
  ASSERT_EQ(report.status, Status::kOk) << text(report.status) << " at " << report.command;
  for (const Kit& kit : kits) {
    SCOPED_TRACE(kit.name);
    HostSimulator host(kTarget, kit);
    ASSERT_EQ(host.prepare(payload.bytes(), handle).status, Status::kOk);
    for (int run = 0; run < 2; ++run) {
      Memory memory(test_case);
      expect_same(host.run(handle, memory.buffers(), memory.scratch.buffer()), report);
      for (size_t i = 0; i < memory.operands.size(); ++i) {
        const auto difference =
            std::mismatch(memory.operands[i].bytes().begin(), memory.operands[i].bytes().end(), right.operands[i].bytes().begin());
        ASSERT_TRUE(memory.operands[i] == right.operands[i])
            << "operand " << i << " byte " << difference.first - memory.operands[i].bytes().begin() << ": " << int(*difference.first)
            << " instead of " << int(*difference.second);
      }
      ASSERT_TRUE(memory.scratch == right.scratch);
    }
  }
}

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
          random.chance(80) ? (sum ? any_rescale(random, -20, -15) : any_rescale(random, -10, 0)) : any_rescale(random, -31, 31),
          low,
          random.between(low, 127)};
}

Window any_window(Random& random, uint32_t channels, bool dilated_columns) {
  Window w{1 + random.upto(1), 1 + random.upto(8), 1 + random.upto(8), 1 + random.upto(channels), 1, 1, 1 + random.upto(channels)};
  const bool pointwise = random.chance(25);
  w.kernel_height = pointwise ? 1 : 1 + random.upto(4), w.kernel_width = pointwise ? 1 : 1 + random.upto(4);
  w.stride_height = random.chance(60) ? 1 : 1 + random.upto(3), w.stride_width = random.chance(60) ? 1 : 1 + random.upto(3);
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
uint32_t output_bytes(const Window& w) { return w.batch * std::max(w.out.batch, w.out.row * w.out_height); }
uint32_t input_bytes(const Window& w) { return w.batch * std::max(w.in.batch, w.in.row * w.in_height); }

std::vector<test::Channel> any_channels(Random& random, uint32_t count) {
  std::vector<test::Channel> channels;
  const bool extreme = random.chance(25);
  for (uint32_t c = 0; c < count; ++c) {
    const Rescale by = extreme ? any_rescale(random, -31, 30) : any_rescale(random, -14, 1);
    channels.push_back(
        {extreme ? random.any() : random.between(-50000, 50000), extreme ? random.between(0, INT32_MAX) : by.multiplier, by.shift});
  }
  return channels;
}

Epilogue any_epilogue(Random& random, Case& to, const Window& w) {
  const int32_t low = random.between(-128, 0);
  Epilogue epilogue{random.between(-128, 127), low, random.between(low, 127), random.chance(25) ? kOneRounding : 0u, {}, {}, {}};
  if (random.chance(20)) {
    epilogue.flags |= kWithTable;
    epilogue.table = to.builder.stage(random.int8(256));
  }
  if (random.chance(20)) {
    epilogue.flags |= kWithAdd;
    epilogue.addend_strides = random.chance(50) ? w.out : any_strides(random, w.out_height, w.out_width, w.out_channels);
    epilogue.addend = to.input(random.int8(w.batch * std::max(epilogue.addend_strides.batch, epilogue.addend_strides.row * w.out_height)));
    epilogue.add = any_binary(random, BinaryKind::kAdd);
  }
  return epilogue;
}

// Weights come from constants, which a kit packs once, or as an input, which it packs in each run.
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

void add_conv2d(Random& random, Case& to) {
  const Packing packing = random.chance(50) ? Packing::kRows : Packing::kChannels;
  Window w = any_window(random, random.chance(20) ? 150 : 20, packing == Packing::kChannels);
  set_strides(random, w);
  const Address x = to.input(random.int8(input_bytes(w)));
  const size_t count = size_t{w.out_channels} * w.kernel_height * w.kernel_width * w.in_channels;
  const Address weights = place(random, to, test::pack_conv2d(kTarget, w, packing, random.int8(count)));
  const Address parameters = place(random, to, bytes_of(test::pack_parameters(kTarget, any_channels(random, w.out_channels))));
  const Epilogue epilogue = any_epilogue(random, to, w);
  const bool in_place = (epilogue.flags & kWithAdd) != 0 && epilogue.addend_strides == w.out && random.chance(50);
  const Address y = in_place ? epilogue.addend : output_of(to, w);
  to.builder.add(Conv2d{w, x, y, weights, parameters, random.between(-128, 127), packing, epilogue});
}

void add_depthwise(Random& random, Case& to) {
  Window w = any_window(random, random.chance(20) ? 150 : random.chance(20) ? 0 : 40, true);
  w.out_channels = w.in_channels * (random.chance(60) ? 1 : 1 + random.upto(w.in_channels == 1 ? 70 : 3));
  set_strides(random, w);
  const Address x = to.input(random.int8(input_bytes(w)));
  const size_t count = size_t{w.out_channels} * w.kernel_height * w.kernel_width;
  const Address weights = place(random, to, test::pack_depthwise(kTarget, w, random.int8(count)));
  const Address parameters = place(random, to, bytes_of(test::pack_parameters(kTarget, any_channels(random, w.out_channels))));
  const Epilogue epilogue = any_epilogue(random, to, w);
  const bool in_place = (epilogue.flags & kWithAdd) != 0 && epilogue.addend_strides == w.out && random.chance(50);
  const Address y = in_place ? epilogue.addend : output_of(to, w);
  to.builder.add(Depthwise{w, x, y, weights, parameters, random.between(-128, 127), epilogue});
}

void add_pool(Random& random, Case& to) {
  Window w = any_window(random, random.chance(10) ? 300 : 40, true);
  w.out_channels = w.in_channels;
  const PoolKind kind = static_cast<PoolKind>(random.upto(2));
  if (kind != PoolKind::kMean) {  // every window must hit the input
    w.pad_top = std::clamp(w.pad_top, 0, static_cast<int32_t>(w.kernel_height) - 1);
    w.pad_left = std::clamp(w.pad_left, 0, static_cast<int32_t>(w.kernel_width) - 1);
    w.out_height = std::min(w.out_height, (w.in_height - 1 + static_cast<uint32_t>(w.pad_top)) / w.stride_height + 1);
    w.out_width = std::min(w.out_width, (w.in_width - 1 + static_cast<uint32_t>(w.pad_left)) / w.stride_width + 1);
    if (w.dilation_height > w.in_height) w.pad_top = 0, w.out_height = 1;
    if (w.dilation_width > w.in_width) w.pad_left = 0, w.out_width = 1;
    if (w.dilation_height > 1) w.pad_top = 0, w.out_height = std::min(w.out_height, (w.in_height - 1) / w.stride_height + 1);
    if (w.dilation_width > 1) w.pad_left = 0, w.out_width = std::min(w.out_width, (w.in_width - 1) / w.stride_width + 1);
  }
  set_strides(random, w);
  const Address x = to.input(random.int8(input_bytes(w))), y = output_of(to, w);
  const int32_t low = random.between(-128, 0);
  to.builder.add(Pool{w, x, y, kind, random.between(-128, 127), random.between(-128, 127), random.between(-128, 127),
                      any_rescale(random, -10, 2), low, random.between(low, 127)});
}

// Dense operands, operands that stand still along some dimensions, and strided ones with gaps; in place where that is allowed.
void add_binary(Random& random, Case& to) {
  const auto kind = static_cast<BinaryKind>(random.upto(5));
  if (random.chance(40)) {
    const uint32_t elements = 1 + random.upto(200);
    const Address a = to.input(random.int8(elements)), b = to.input(random.int8(elements));
    const Address y = random.chance(30) ? a : random.chance(30) ? b : to.builder.output(elements);
    return to.builder.add(test::binary(kind, a, b, y, elements, any_binary(random, kind)));
  }
  Binary command{};
  command.kind = kind;
  command.arguments = any_binary(random, kind);
  uint32_t elements = 1, dense = 1, span = 1;
  for (uint32_t d = kMoveRank; d-- > 0;) {
    command.extent[d] = random.chance(40) ? 1 : 1 + random.upto(d == kMoveRank - 1 ? 40 : 4);
    elements *= command.extent[d];
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
  command.output = is_dense(command.extent, command.stride_0) && random.chance(50) ? command.input_0 : to.builder.output(elements);
  to.builder.add(command);
}

void add_lookup(Random& random, Case& to) {
  const uint32_t elements = 1 + random.upto(200);
  const Address x = to.input(random.int8(elements));
  const Address table = to.builder.stage(random.int8(256));
  to.builder.add(Lookup{x, random.chance(30) ? x : to.builder.output(elements), table, elements});
}

void add_softmax(Random& random, Case& to) {
  Softmax softmax = test::probability({}, {}, 1 + random.upto(3), 1 + random.upto(40), random.between(15, 23));
  softmax.inner = 1 + random.upto(3);
  softmax.input_rescale.multiplier = random.between(1 << 30, INT32_MAX);
  softmax.output_rescale = {random.between(1 << 30, INT32_MAX), random.between(-4, 12)};
  softmax.zero_point_out = random.between(-128, 127);
  if (random.chance(40)) {
    softmax.kind = SoftmaxKind::kLogarithm;
    softmax.difference = {random.between(1 << 30, INT32_MAX), random.between(8, 22)};
    softmax.output_rescale.shift = random.between(-12, 1);
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
  for (size_t i = kRank; i-- > 1;) std::swap(order[i], order[random.upto(static_cast<uint32_t>(i))]);
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
  const auto left_strides = any_strides(random, left), right_strides = any_strides(random, right), strides = any_strides(random, output);
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
  const std::array<uint32_t, kNormalizeRank> extent{1 + random.upto(3), 1 + random.upto(2), 1 + random.upto(5), 1 + random.upto(20)};
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
  for (uint32_t i = 0; i < 2 * parameters; ++i) values.push_back(random.between(-(1 << 24), 1 << 24));
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
    if (!repeated && reversed) move.input.offset += static_cast<uint32_t>((extent - 1) * input_stride);
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
  reduce.kind = static_cast<ReduceKind>(random.upto(3));
  std::fill(std::begin(reduce.extent), std::end(reduce.extent), 1u);
  std::fill(std::begin(reduce.reduced_extent), std::end(reduce.reduced_extent), 1u);
  int32_t stride = 1, output_stride = 1;
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
    return {1 + random.upto(6), 1 + random.upto(9), random.upto(3u << bits), random.between(-(1 << bits), 1 << bits), bits};
  };
  Resize resize{{}, {}, static_cast<ResizeKind>(random.upto(1)), 1 + random.upto(1), 1 + random.upto(12), axis(), axis()};
  const uint32_t planes = resize.batch * resize.channels;
  resize.input = to.input(random.int8(size_t{planes} * resize.height.in * resize.width.in));
  resize.output = to.builder.output(planes * resize.height.out * resize.width.out);
  to.builder.add(resize);
}

void add_fill(Random& random, Case& to) {
  const uint32_t bytes = 1 + random.upto(100);
  to.builder.add(Fill{to.builder.output(bytes), bytes, random.between(-128, 127)});
}

struct Generator {
  const char* name;
  void (*add)(Random&, Case&);
  int rounds;
};
void PrintTo(const Generator& generator, std::ostream* os) { *os << generator.name; }

class SimulatorKits : public testing::TestWithParam<Generator> {};

TEST_P(SimulatorKits, AgreeWithTheCore) {
  const std::vector<Kit> all = kits();
  ASSERT_GE(all.size(), 2U);
  for (int round = 0; round < GetParam().rounds; ++round) {
    SCOPED_TRACE("seed " + std::to_string(round));
    Random random(static_cast<uint32_t>(round));
    Case test_case;
    GetParam().add(random, test_case);
    expect_kits_agree(test_case, all);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Commands, SimulatorKits,
                         testing::Values(Generator{"Conv2d", add_conv2d, 400}, Generator{"Depthwise", add_depthwise, 400},
                                         Generator{"Pool", add_pool, 200}, Generator{"Binary", add_binary, 600},
                                         Generator{"Lookup", add_lookup, 50}, Generator{"Softmax", add_softmax, 200},
                                         Generator{"Matmul", add_matmul, 300}, Generator{"Normalize", add_normalize, 200},
                                         Generator{"Move", add_move, 200}, Generator{"StridedMove", add_strided_move, 200},
                                         Generator{"Reduce", add_reduce, 400}, Generator{"Resize", add_resize, 200},
                                         Generator{"Fill", add_fill, 10}),
                         [](const testing::TestParamInfo<Generator>& instance) { return std::string(instance.param.name); });

// Rescaling of accumulators at ties, next to them, and at the ends of 32 bits: an input of 0 leaves the bias alone in the accumulator.
void expect_rescaling(uint32_t flags, int32_t highest_shift) {
  std::vector<test::Channel> channels;
  for (int32_t shift = -31; shift <= highest_shift; ++shift)
    for (const int32_t multiplier : {0, 1, 1 << 30, (1 << 30) + 1, INT32_MAX}) {
      const int right = shift < 0 ? -shift : 0;
      for (const int64_t k : {0, 1, 2, 63, 64, 127})
        for (const int64_t nudge : {-1, 0, 1})
          for (const int64_t sign : {-1, 1}) {
            const int64_t tie = sign * (((2 * k + 1) << right) + nudge);  // multiplier 2^30 halves it
            channels.push_back({static_cast<int32_t>(std::clamp<int64_t>(tie, INT32_MIN, INT32_MAX)), multiplier, shift});
          }
      for (const int32_t bias : {INT32_MIN, INT32_MIN + 1, INT32_MAX, INT32_MAX - 1, 0}) channels.push_back({bias, multiplier, shift});
    }
  const auto count = static_cast<uint32_t>(channels.size());
  for (const int32_t zero_point : {0, -128, 127}) {
    Case test_case;
    const Window w = dense({1, 1, 1, 1, 1, 1, count, 1, 1, 1, 1, 1, 1, 0, 0});
    const Address x = test_case.input({0}), y = test_case.builder.output(count), z = test_case.builder.output(count);
    const Address weights = test_case.builder.stage(test::pack_conv2d(kTarget, w, Packing::kChannels, std::vector<int8_t>(count, 1)));
    const Address thin = test_case.builder.stage(test::pack_depthwise(kTarget, w, std::vector<int8_t>(count, 1)));
    const Address parameters = test_case.builder.stage(test::pack_parameters(kTarget, channels));
    test_case.builder.add(Conv2d{w, x, y, weights, parameters, 0, Packing::kChannels, {zero_point, -128, 127, flags, {}, {}, {}}});
    test_case.builder.add(Depthwise{w, x, z, thin, parameters, 0, {zero_point, -100, 99, flags, {}, {}, {}}});
    expect_kits_agree(test_case, kits());
  }
}
TEST(SimulatorKitsRescale, TiesAndExtremes) {
  expect_rescaling(0, 31);
  expect_rescaling(kOneRounding, 30);
}

// Larger than one band, and channels that end within a vector.
TEST(SimulatorKitsLarge, BandsAndTails) {
  const std::vector<Kit> all = kits();
  Random random(7);
  for (const uint32_t stride : {1U, 2U}) {
    Case test_case;
    Window w = dense({1, 61, 67, 37, 0, 0, 37, 3, 3, stride, stride, 1, 1, 1, 1});
    w.out_height = (w.in_height - 1) / stride + 1, w.out_width = (w.in_width - 1) / stride + 1;
    w = dense(w);
    const Address x = test_case.input(random.int8(input_bytes(w)));
    const Address y = test_case.builder.output(output_bytes(w)), z = test_case.builder.output(output_bytes(w));
    const Address weights = test_case.builder.stage(test::pack_conv2d(kTarget, w, Packing::kChannels, random.int8(37 * 9 * 37)));
    const Address thin = test_case.builder.stage(test::pack_depthwise(kTarget, w, random.int8(37 * 9)));
    const Address parameters = test_case.builder.stage(test::pack_parameters(kTarget, any_channels(random, 37)));
    test_case.builder.add(Conv2d{w, x, y, weights, parameters, 5, Packing::kChannels, {1, -128, 127, 0, {}, {}, {}}});
    test_case.builder.add(Depthwise{w, x, z, thin, parameters, 5, {1, -128, 127, 0, {}, {}, {}}});
    expect_kits_agree(test_case, all);
  }
}

// ---- The watch over memory.

// A pointwise convolution whose weights and parameters come from flash; `edit` may change the parts before they are put together.
struct Staged {
  Case test_case;
  Window w = dense({1, 2, 2, 8, 2, 2, 8, 1, 1, 1, 1, 1, 1, 0, 0});
  Address x, y, weights, parameters, constant;
  bool wait = true;
  Staged() {
    x = test_case.input(std::vector<int8_t>(32, 1));
    y = test_case.builder.output(32);
    weights = test_case.builder.scratch(64), parameters = test_case.builder.scratch(96);
    constant = test_case.builder.constant(std::vector<std::byte>(160));
  }
  Conv2d conv() const { return {w, x, y, weights, parameters, 0, Packing::kChannels, {0, -128, 127, 0, {}, {}, {}}}; }
  void load(bool wait_for_parameters = true) {
    test_case.builder.copy(weights, constant, 64);
    test_case.builder.copy(parameters, {constant.region, constant.offset + 64}, 96);
    test_case.builder.add(Wait{wait_for_parameters ? 2U : 1U});
  }
  Report run() {
    const AlignedBytes payload = test_case.builder.build();
    HostSimulator host;
    uint32_t handle = 0;
    const Fault fault = host.prepare(payload.bytes(), handle);
    if (fault.status != Status::kOk) return {fault.status, fault.command};
    Memory memory(test_case);
    return host.run(handle, memory.buffers(), memory.scratch.buffer());
  }
};

TEST(SimulatorWatch, AcceptsAGoodProgram) {
  Staged program;
  program.load();
  program.test_case.builder.add(program.conv());
  const Report report = program.run();
  EXPECT_EQ(report.status, Status::kOk) << text(report.status);
  EXPECT_EQ(report.peak_scratch_bytes, 160U);
}

TEST(SimulatorWatch, RefusesAMissingWait) {
  Staged program;
  program.load(false);
  program.test_case.builder.add(program.conv());
  const Report report = program.run();
  EXPECT_EQ(report.status, Status::kReadsInFlight);
  EXPECT_EQ(report.command, 3U);
}

TEST(SimulatorWatch, RefusesAShiftedAddress) {
  Staged program;
  program.load();
  Conv2d conv = program.conv();
  conv.parameters.offset += 16;  // beyond scratch
  program.test_case.builder.add(conv);
  EXPECT_EQ(program.run().status, Status::kOutOfBounds);

  Staged inside;
  inside.load();
  inside.test_case.builder.scratch(16);  // never written
  conv = inside.conv();
  conv.parameters.offset += 16;
  inside.test_case.builder.add(conv);
  const Report report = inside.run();
  EXPECT_EQ(report.status, Status::kReadsUninitialized);
  EXPECT_EQ(report.command, 3U);
}

TEST(SimulatorWatch, RefusesFlashInACall) {
  Staged program;
  Conv2d conv = program.conv();
  conv.weights = program.constant;
  program.load();
  program.test_case.builder.add(conv);
  EXPECT_EQ(program.run().status, Status::kFlashAccess);
}

TEST(SimulatorWatch, RefusesWritesUnderACopy) {
  Staged program;
  program.test_case.builder.copy(program.weights, program.constant, 64);
  program.test_case.builder.add(Fill{{kScratch, 60}, 8, 0});
  const Report report = program.run();
  EXPECT_EQ(report.status, Status::kReadsInFlight);
  EXPECT_EQ(report.command, 1U);

  Staged twice;
  twice.test_case.builder.copy(twice.weights, twice.constant, 64);
  twice.test_case.builder.copy(twice.weights, twice.constant, 64);
  EXPECT_EQ(twice.run().command, 1U);
}

TEST(SimulatorWatch, RefusesUnwrittenOutputsAndLateCopies) {
  Staged unwritten;
  unwritten.test_case.builder.add(Fill{unwritten.y, 31, 0});
  Report report = unwritten.run();
  EXPECT_EQ(report.status, Status::kReadsUninitialized);
  EXPECT_EQ(report.command, 1U);

  Staged late;
  late.test_case.builder.add(Fill{late.y, 32, 0});
  late.test_case.builder.copy(late.weights, late.constant, 64);
  report = late.run();
  EXPECT_EQ(report.status, Status::kReadsInFlight);
  EXPECT_EQ(report.command, 2U);
}

TEST(SimulatorWatch, SeesGapsOfStridedMoves) {
  const auto run = [](uint32_t shift) {
    Staged program;
    Address box = program.test_case.builder.scratch(64);
    // Four rows of eight bytes, eight bytes apart.
    program.test_case.builder.add(Move{program.x, box, {1, 1, 1, 1, 4, 8}, {0, 0, 0, 0, 8, 1}, {0, 0, 0, 0, 16, 1}});
    box.offset += shift;
    program.test_case.builder.add(Move{box, program.y, {1, 1, 1, 1, 4, 8}, {0, 0, 0, 0, 16, 1}, {0, 0, 0, 0, 8, 1}});
    return program.run();
  };
  EXPECT_EQ(run(0).status, Status::kOk);
  EXPECT_EQ(run(1).status, Status::kReadsUninitialized);
  EXPECT_EQ(run(1).command, 1U);
  EXPECT_EQ(run(8).status, Status::kReadsUninitialized);
  EXPECT_EQ(run(9).status, Status::kOutOfBounds);
}

// The memory planner may give an operand's memory to scratch once the operand is dead, or the other way round.
TEST(SimulatorWatch, SeesOperandsThatShareMemoryWithScratch) {
  Case test_case;
  const Address x = test_case.input(std::vector<int8_t>(32, 3)), y = test_case.builder.output(32);
  const Address temporary = test_case.builder.scratch(32);
  const auto move = [&](Address from, Address to) {
    test_case.builder.add(Move{from, to, {1, 1, 1, 1, 1, 32}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}});
  };
  move(x, temporary);
  move(temporary, y);
  const AlignedBytes payload = test_case.builder.build();
  HostSimulator host;
  uint32_t handle = 0;
  ASSERT_EQ(host.prepare(payload.bytes(), handle).status, Status::kOk);
  AlignedBytes arena(96);
  std::memset(arena.data(), 3, 96);
  const auto run = [&](size_t x_at, size_t y_at, size_t scratch_at) {
    const std::vector<Buffer> operands{{arena.data() + x_at, 32}, {arena.data() + y_at, 32}};
    return host.run(handle, operands, {arena.data() + scratch_at, 32});
  };
  EXPECT_EQ(run(0, 32, 64).status, Status::kOk);
  EXPECT_EQ(run(0, 0, 64).status, Status::kOk);           // the output takes the dead input's place
  EXPECT_EQ(run(0, 32, 0).status, Status::kBadArgument);  // a move onto itself
  EXPECT_EQ(run(0, 32, 16).status, Status::kBadArgument);
  EXPECT_EQ(run(0, 32, 64).status, Status::kOk);  // the layout before is no lasting verdict
}

TEST(SimulatorWatch, SeesAnOperandThatScratchHasOverwritten) {
  Case test_case;
  const Address x = test_case.input(std::vector<int8_t>(32, 3)), y = test_case.builder.output(32);
  const Address temporary = test_case.builder.scratch(32);
  test_case.builder.add(Fill{temporary, 32, 1});
  test_case.builder.add(
      test::binary(BinaryKind::kAdd, x, temporary, y, 32, {0, 0, 0, {1 << 30, 0}, {1 << 30, 0}, {1 << 30, -18}, -128, 127}));
  const AlignedBytes payload = test_case.builder.build();
  HostSimulator host;
  uint32_t handle = 0;
  ASSERT_EQ(host.prepare(payload.bytes(), handle).status, Status::kOk);
  AlignedBytes arena(96);
  const std::vector<Buffer> operands{{arena.data(), 32}, {arena.data() + 32, 32}};
  EXPECT_EQ(host.run(handle, operands, {arena.data() + 64, 32}).status, Status::kOk);
  const Report report = host.run(handle, operands, {arena.data(), 32});
  EXPECT_EQ(report.status, Status::kReadsUninitialized);
  EXPECT_EQ(report.command, 1U);
}

// Weights that a call has changed after their copy must not come from the packed constants.
TEST(SimulatorStaging, SeesOverwrittenWeights) {
  for (const uint32_t offset : {0U, 63U, 64U, 100U}) {
    SCOPED_TRACE(offset);
    Staged program;
    program.load();
    program.test_case.builder.add(Fill{{kScratch, offset}, 1, 1});
    program.test_case.builder.add(program.conv());
    expect_kits_agree(program.test_case, kits());
  }
}

TEST(SimulatorHost, RefusesWhatTheDecoderRefuses) {
  Staged program;
  program.load();
  program.test_case.builder.add(program.conv());
  AlignedBytes payload = program.test_case.builder.build();
  HostSimulator host;
  uint32_t handle = 0;
  for (size_t i = 0; i < payload.size(); ++i) {
    payload.data()[i] ^= std::byte{0x01};
    ASSERT_NE(host.prepare(payload.bytes(), handle).status, Status::kOk) << i;
    payload.data()[i] ^= std::byte{0x01};
  }
  EXPECT_EQ(host.run(3, {}, {}).status, Status::kBadOperand);
}

TEST(SimulatorHost, HandlesAreReused) {
  Staged program;
  program.load();
  program.test_case.builder.add(program.conv());
  const AlignedBytes payload = program.test_case.builder.build();
  HostSimulator host;
  const Driver driver = host.driver();
  uint32_t first = 9, second = 9, third = 9;
  ASSERT_EQ(driver.prepare(driver.context, payload.data(), payload.size(), &first), Status::kOk);
  ASSERT_EQ(driver.prepare(driver.context, payload.data(), payload.size(), &second), Status::kOk);
  EXPECT_NE(first, second);
  driver.unprepare(driver.context, first);
  ASSERT_EQ(driver.prepare(driver.context, payload.data(), payload.size(), &third), Status::kOk);
  EXPECT_EQ(third, first);
}

}  // namespace
}  // namespace dtr
