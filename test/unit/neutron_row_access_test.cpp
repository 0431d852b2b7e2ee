// Which rows of its operands a call reads for some rows of its result, and the call for these rows,
// against cases computed by hand.
#include "compiler/backends/neutron/schedule/row_access.h"

#include "test/unit/neutron_fixture.h"

namespace dtr::test {
namespace {

using neutron::Pitches;
using neutron::RowRange;

neutron::Call convolution_call(uint32_t input, uint32_t output, npu::Window window) {
  npu::Conv2d conv{};
  conv.window = npu::dense(window);
  conv.input = {input, 0};
  conv.output = {output, 0};
  conv.weights = conv.parameters = {neutron::kOwnConstants, 0};
  return {.kernel = conv, .constants = {}};
}

npu::Window window(uint32_t height, uint32_t kernel, uint32_t stride, uint32_t pad) {
  const uint32_t out = (height + 2 * pad - kernel) / stride + 1;
  return {.batch = 1,
          .in_height = height,
          .in_width = 5,
          .in_channels = 3,
          .out_height = out,
          .out_width = 5,
          .out_channels = 8,
          .kernel_height = kernel,
          .kernel_width = 1,
          .stride_height = stride,
          .stride_width = 1,
          .dilation_height = 1,
          .dilation_width = 1,
          .pad_top = static_cast<int32_t>(pad),
          .pad_left = 0};
}

TEST(NeutronRows, OfAConvolution) {
  const neutron::Call call = convolution_call(0, 1, window(9, 3, 2, 1));
  neutron::Pitches pitches(2, 0);
  neutron::find_pitches(std::span(&call, 1), pitches);
  EXPECT_EQ(pitches, (neutron::Pitches{15, 40}));
  const auto access = neutron::row_access(call.kernel, pitches);
  ASSERT_TRUE(access);
  EXPECT_EQ(access->rows, 5u);
  // Row r reads rows 2r − 1 to 2r + 1.
  EXPECT_EQ(access->read_for({0, 1}, 9), (RowRange{0, 2}));
  EXPECT_EQ(access->read_for({1, 3}, 9), (RowRange{1, 6}));
  EXPECT_EQ(access->read_for({4, 5}, 9), (RowRange{7, 9}));
  const auto part = std::get<npu::Conv2d>(neutron::rows_of(call.kernel, *access, {0, 2}));
  EXPECT_EQ(part.window.pad_top, 1);
  EXPECT_EQ(part.window.in_height, 4u);
  EXPECT_EQ(part.window.out_height, 2u);
  const auto last = std::get<npu::Conv2d>(neutron::rows_of(call.kernel, *access, {3, 5}));
  EXPECT_EQ(last.window.pad_top, 0);
  EXPECT_EQ(last.window.in_height, 4u);
  EXPECT_EQ(last.input.offset, 5 * 15u);
  EXPECT_EQ(last.output.offset, 3 * 40u);
}

TEST(NeutronRows, OfATableTakeThePitchOfTheWindowBehindIt) {
  npu::Lookup table = npu::dense_lookup(9 * 15);
  table.input = {0, 0};
  table.output = {1, 0};
  table.table = {neutron::kOwnConstants, 0};
  const neutron::Call calls[] = {{.kernel = table, .constants = {}},
                                 convolution_call(1, 2, window(9, 3, 1, 1))};
  neutron::Pitches pitches(3, 0);
  neutron::find_pitches(calls, pitches);
  EXPECT_EQ(pitches, (neutron::Pitches{15, 15, 40}));
  const auto access = neutron::row_access(calls[0].kernel, pitches);
  ASSERT_TRUE(access);
  EXPECT_EQ(access->rows, 9u);
  const auto part = std::get<npu::Lookup>(neutron::rows_of(calls[0].kernel, *access, {2, 5}));
  EXPECT_EQ(part.extent[5], 45u);
  EXPECT_EQ(part.input.offset, 30u);
  // Alone it has no rows.
  EXPECT_FALSE(neutron::row_access(calls[0].kernel, neutron::Pitches(3, 0)));
}

// The row that a window of padding alone reads is there to be read; it has no part in any sum.
TEST(NeutronRows, OfPaddingAloneAreTheNearest) {
  // 1 row of the kernel, 3 of padding: rows 0 to 2 and 12 to 14 of the result are padding.
  const neutron::Call call = convolution_call(0, 1, window(9, 1, 1, 3));
  const auto access = neutron::row_access(call.kernel, {15, 40});
  ASSERT_TRUE(access);
  EXPECT_EQ(access->read_for({0, 2}, 9), (RowRange{0, 1}));
  EXPECT_EQ(access->read_for({2, 4}, 9), (RowRange{0, 1}));
  EXPECT_EQ(access->read_for({11, 13}, 9), (RowRange{8, 9}));
  EXPECT_EQ(access->read_for({13, 15}, 9), (RowRange{8, 9}));
  const auto first = std::get<npu::Conv2d>(neutron::rows_of(call.kernel, *access, {0, 2}));
  EXPECT_EQ(first.window.pad_top, 3);
  EXPECT_EQ(first.window.in_height, 1u);
  EXPECT_EQ(first.input.offset, 0u);
  // The first window starts 2 rows behind row 8.
  const auto last = std::get<npu::Conv2d>(neutron::rows_of(call.kernel, *access, {13, 15}));
  EXPECT_EQ(last.window.pad_top, -2);
  EXPECT_EQ(last.window.in_height, 1u);
  EXPECT_EQ(last.input.offset, 8 * 15u);
}

TEST(NeutronRows, OfSumsThereAreNone) {
  neutron::Call call = convolution_call(0, 1, window(9, 3, 1, 1));
  EXPECT_TRUE(neutron::row_access(call.kernel, {15, 40}));
  std::get<npu::Conv2d>(call.kernel).epilogue.flags = npu::kToSums;
  EXPECT_FALSE(neutron::row_access(call.kernel, {15, 40}));
}

// A linear layer of 6 rows of 3 elements, the result 8 each.
TEST(NeutronRows, OfABatch) {
  npu::Window w = window(1, 1, 1, 0);
  w.batch = 6;
  w.in_width = w.out_width = 1;
  const neutron::Call call = convolution_call(0, 1, w);
  Pitches pitches(2, 0);
  neutron::find_pitches(std::span(&call, 1), pitches);
  EXPECT_EQ(pitches, (Pitches{3, 8}));
  const auto access = neutron::row_access(call.kernel, pitches);
  ASSERT_TRUE(access);
  EXPECT_EQ(access->rows, 6u);
  EXPECT_FALSE(access->operands[0].windowed);
  const auto part = std::get<npu::Conv2d>(neutron::rows_of(call.kernel, *access, {2, 5}));
  EXPECT_EQ(part.window.batch, 3u);
  EXPECT_EQ(part.input.offset, 2 * 3u);
  EXPECT_EQ(part.output.offset, 2 * 8u);
  // Rows of an image of 2 pixels: the call takes 2 of its own as one.
  pitches = {6, 0};
  neutron::find_pitches(std::span(&call, 1), pitches);
  EXPECT_EQ(pitches, (Pitches{6, 16}));
  const auto pairs = neutron::row_access(call.kernel, pitches);
  ASSERT_TRUE(pairs);
  EXPECT_EQ(pairs->rows, 3u);
  const auto second = std::get<npu::Conv2d>(neutron::rows_of(call.kernel, *pairs, {1, 3}));
  EXPECT_EQ(second.window.batch, 4u);
  EXPECT_EQ(second.input.offset, 6u);
  EXPECT_EQ(second.output.offset, 16u);
  // Where operand and result have different rows those of the result are taken.
  const auto of_result = neutron::row_access(call.kernel, {6, 24});
  ASSERT_TRUE(of_result);
  EXPECT_EQ(of_result->rows, 2u);
  EXPECT_EQ(of_result->operands[0].pitch, 0u);  // 9 bytes are no rows of 6
}

// An image that is one row high: 9 columns of 3 channels, each 4 bytes from the next.
TEST(NeutronRows, OfAnImageOfOneRowAreItsColumns) {
  npu::Window w = window(1, 1, 1, 0);
  w.in_width = 9;
  w.out_width = 5;
  w.kernel_width = 3;
  w.stride_width = 2;
  w.pad_left = 1;
  neutron::Call call = convolution_call(0, 1, w);
  auto& conv = std::get<npu::Conv2d>(call.kernel);
  conv.packing = npu::Packing::kRows;
  conv.window.in = {4, 36, 36};
  Pitches pitches(2, 0);
  neutron::find_pitches(std::span(&call, 1), pitches);
  EXPECT_EQ(pitches, (Pitches{4, 8}));
  const auto access = neutron::row_access(call.kernel, pitches);
  ASSERT_TRUE(access);
  EXPECT_EQ(access->rows, 5u);
  EXPECT_EQ(access->read_for({0, 1}, 9), (RowRange{0, 2}));
  EXPECT_EQ(access->read_for({1, 3}, 9), (RowRange{1, 6}));
  const auto part = std::get<npu::Conv2d>(neutron::rows_of(call.kernel, *access, {3, 5}));
  EXPECT_EQ(part.window.pad_left, 0);
  EXPECT_EQ(part.window.in_width, 4u);
  EXPECT_EQ(part.window.out_width, 2u);
  EXPECT_EQ(part.window.in_height, 1u);
  EXPECT_EQ(part.input.offset, 5 * 4u);
  EXPECT_EQ(part.output.offset, 3 * 8u);
}

// 6 rows of 4 columns.
TEST(NeutronRows, OfASoftmax) {
  npu::Softmax softmax{};
  softmax.input = {0, 0};
  softmax.output = {1, 0};
  softmax.mask = {2, 0};
  softmax.outer = 6;
  softmax.columns = 4;
  softmax.inner = 1;
  const auto part = [&](uint32_t mask_rows, const Pitches& pitches, RowRange rows,
                        uint32_t all_rows) {
    softmax.mask_rows = mask_rows;
    const auto access = neutron::row_access(softmax, pitches);
    EXPECT_TRUE(access);
    EXPECT_EQ(access->rows, all_rows);
    return std::get<npu::Softmax>(neutron::rows_of(softmax, *access, rows));
  };
  const npu::Softmax plain = part(0, {4, 4, 0}, {2, 5}, 6);
  EXPECT_EQ(plain.outer, 3u);
  EXPECT_EQ(plain.input.offset, 8u);
  EXPECT_EQ(plain.output.offset, 8u);
  const npu::Softmax pairs = part(0, {8, 0, 0}, {1, 3}, 3);
  EXPECT_EQ(pairs.outer, 4u);
  EXPECT_EQ(pairs.input.offset, 8u);
  // A mask of as many rows goes along.
  const npu::Softmax masked = part(6, {4, 4, 4}, {2, 5}, 6);
  EXPECT_EQ(masked.mask_rows, 3u);
  EXPECT_EQ(masked.mask.offset, 8u);
  // One of 3 rows is repeated: a part has all of them, and reads all of the mask.
  const npu::Softmax repeated = part(3, {12, 12, 4}, {1, 2}, 2);
  EXPECT_EQ(repeated.outer, 3u);
  EXPECT_EQ(repeated.mask_rows, 3u);
  EXPECT_EQ(repeated.mask.offset, 0u);
  EXPECT_EQ(repeated.input.offset, 12u);
  const auto access = neutron::row_access(softmax, {4, 4, 4});
  ASSERT_TRUE(access);
  EXPECT_EQ(access->rows, 2u);
  for (const neutron::RowOperand& operand : access->operands) EXPECT_EQ(operand.pitch, 0u);
  // One of one row lets every row be told apart.
  EXPECT_EQ(part(1, {4, 4, 4}, {5, 6}, 6).outer, 1u);
}

// 3 images of 4 groups of 5 elements; each group has gains of its own.
TEST(NeutronRows, OfANormalization) {
  npu::Normalize normalize{};
  normalize.input = {0, 0};
  normalize.output = {1, 0};
  normalize.parameters = {neutron::kOwnConstants, 16};
  const auto set = [](auto& to, std::initializer_list<uint32_t> values) {
    std::ranges::copy(values, to);
  };
  set(normalize.extent, {3, 4, 1, 5});
  set(normalize.stride, {20, 5, 5, 1});
  set(normalize.parameter_stride, {0, 5, 0, 1});
  Pitches pitches(2, 0);
  const neutron::Call call{.kernel = normalize, .constants = {}};
  neutron::find_pitches(std::span(&call, 1), pitches);
  EXPECT_EQ(pitches, (Pitches{20, 20}));
  const auto images = neutron::row_access(normalize, pitches);
  ASSERT_TRUE(images);
  EXPECT_EQ(images->rows, 3u);
  const auto part = std::get<npu::Normalize>(neutron::rows_of(normalize, *images, {1, 3}));
  EXPECT_EQ(part.extent[0], 2u);
  EXPECT_EQ(part.input.offset, 20u);
  EXPECT_EQ(part.parameters.offset, 16u);
  // Of one image the rows are groups: 2 · 5 parameters of 8 bytes are before the third one's.
  normalize.extent[0] = 1;
  const auto groups = neutron::row_access(normalize, {5, 5});
  ASSERT_TRUE(groups);
  EXPECT_EQ(groups->rows, 4u);
  const auto last = std::get<npu::Normalize>(neutron::rows_of(normalize, *groups, {2, 4}));
  EXPECT_EQ(last.extent[1], 2u);
  EXPECT_EQ(last.output.offset, 10u);
  EXPECT_EQ(last.parameters.offset, 16u + 2 * 5 * 8);
  // Element i of row r is byte 4 · i + r: no row has bytes of its own.
  set(normalize.stride, {20, 1, 20, 4});
  EXPECT_FALSE(neutron::row_access(normalize, {5, 5}));
  EXPECT_FALSE(neutron::row_access(normalize, {4, 4}));
  EXPECT_FALSE(neutron::row_access(normalize, {1, 1}));
}

// [6, 4] times [4, 3], or times the transposed [3, 4].
npu::Matmul matmul() {
  npu::Matmul m{};
  m.left = {0, 0};
  m.right = {1, 0};
  m.output = {2, 0};
  std::ranges::fill(m.batch, 1);
  m.rows = 6;
  m.inner = 4;
  m.columns = 3;
  m.left_row_stride = 4;
  m.left_inner_stride = 1;
  m.right_inner_stride = 3;
  m.right_column_stride = 1;
  m.output_row_stride = 3;
  m.output_column_stride = 1;
  return m;
}

TEST(NeutronRows, OfAProduct) {
  const neutron::Call call{.kernel = matmul(), .constants = {}};
  Pitches pitches(3, 0);
  neutron::find_pitches(std::span(&call, 1), pitches);
  EXPECT_EQ(pitches, (Pitches{4, 0, 3}));  // all of the right operand is read for each row
  const auto access = neutron::row_access(call.kernel, pitches);
  ASSERT_TRUE(access);
  EXPECT_EQ(access->rows, 6u);
  const auto part = std::get<npu::Matmul>(neutron::rows_of(call.kernel, *access, {2, 5}));
  EXPECT_EQ(part.rows, 3u);
  EXPECT_EQ(part.left.offset, 8u);
  EXPECT_EQ(part.right.offset, 0u);
  EXPECT_EQ(part.output.offset, 6u);
}

// Where the result is stored transposed its rows are columns of the product.
TEST(NeutronRows, OfATransposedProductAreItsColumns) {
  npu::Matmul m = matmul();
  m.right_inner_stride = 1;
  m.right_column_stride = 4;
  m.output_row_stride = 1;
  m.output_column_stride = 6;
  const auto access = neutron::row_access(m, {0, 4, 6});
  ASSERT_TRUE(access);
  EXPECT_EQ(access->rows, 3u);
  EXPECT_EQ(access->operands[0].pitch, 0u);
  EXPECT_EQ(access->operands[1].pitch, 4u);
  const auto part = std::get<npu::Matmul>(neutron::rows_of(m, *access, {1, 3}));
  EXPECT_EQ(part.columns, 2u);
  EXPECT_EQ(part.left.offset, 0u);
  EXPECT_EQ(part.right.offset, 4u);
  EXPECT_EQ(part.output.offset, 6u);
}

// The rows of an image stay what they are, or the window could not be told to read some of them.
TEST(NeutronRows, OfAProductDoNotDivideThoseOfAWindow) {
  npu::Matmul m = matmul();
  m.rows = 45;  // the 9 · 5 pixels of the window's image
  m.left_row_stride = 8;
  m.inner = 8;
  m.left = {1, 0};
  m.right = {2, 0};
  m.output = {3, 0};
  const neutron::Call calls[] = {convolution_call(0, 1, window(9, 3, 1, 1)),
                                 {.kernel = m, .constants = {}}};
  Pitches pitches(4, 0);
  neutron::find_pitches(calls, pitches);
  EXPECT_EQ(pitches, (Pitches{15, 40, 0, 15}));
  const auto access = neutron::row_access(m, pitches);
  ASSERT_TRUE(access);
  EXPECT_EQ(access->rows, 9u);
  const auto part = std::get<npu::Matmul>(neutron::rows_of(m, *access, {1, 3}));
  EXPECT_EQ(part.rows, 10u);
  EXPECT_EQ(part.left.offset, 40u);
  EXPECT_EQ(part.output.offset, 15u);
}

}  // namespace
}  // namespace dtr::test
