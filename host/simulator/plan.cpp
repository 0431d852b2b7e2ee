#include "host/simulator/plan.h"

#include <algorithm>
#include <cstring>

namespace dtr::simulator {
namespace {

using npu::Window;

// What a band may take: it should stay in the second-level cache beside the weights.
constexpr size_t kBandBytes = 192 << 10;

// Positions of a pointwise convolution have no neighbours: any split into bands does.
Window flattened(const Window& w) {
  const bool pointwise = w.kernel_height == 1 && w.kernel_width == 1 && w.stride_height == 1 &&
                         w.stride_width == 1 && w.in_height == w.out_height &&
                         w.in_width == w.out_width && w.pad_top == 0 && w.pad_left == 0;
  const bool even = w.in.row == uint64_t{w.in.pixel} * w.in_width &&
                    w.in.batch == uint64_t{w.in.row} * w.in_height;
  if (!pointwise || !even) return w;
  Window flat = w;
  flat.batch = 1;
  flat.in_height = flat.out_height = w.batch * w.in_height * w.in_width;
  flat.in_width = flat.out_width = 1;
  flat.in.row = flat.in.pixel;
  return flat;
}

}  // namespace

bool make_plan(const Window& window, int32_t pad_value, uint32_t element_bytes, bool depthwise,
               ConvolutionPlan& plan) {
  plan = {};
  plan.window = flattened(window);
  const Window& w = plan.window;
  plan.element_bytes = element_bytes;
  plan.repeat = depthwise ? w.out_channels / w.in_channels : 1;
  plan.phases = depthwise ? w.stride_width : 1;
  const uint64_t columns = uint64_t{w.out_width - 1} * w.stride_width +
                           uint64_t{w.kernel_width - 1} * w.dilation_width + 1;
  const uint64_t phase_columns = (columns + plan.phases - 1) / plan.phases;
  const uint64_t kernel_rows = uint64_t{w.kernel_height - 1} * w.dilation_height + 1;
  constexpr uint64_t kMostBytes = uint64_t{64} << 20;
  const uint64_t row_bytes =
      phase_columns * plan.phases * w.in_channels * plan.repeat * element_bytes;
  if (row_bytes > kMostBytes || row_bytes * kernel_rows > kMostBytes) return false;
  // A band holds what lies between the taps too: where they are this far apart, the plain loops
  // read less.
  constexpr uint64_t kMostBetweenTaps = 64;
  if (columns * kernel_rows > kMostBetweenTaps * w.out_width * w.kernel_width * w.kernel_height)
    return false;
  plan.phase_columns = static_cast<uint32_t>(phase_columns);

  const uint64_t most_rows = std::max<uint64_t>(kBandBytes / row_bytes, kernel_rows);
  plan.band_rows = static_cast<uint32_t>(
      std::min<uint64_t>((most_rows - kernel_rows) / w.stride_height + 1, w.out_height));
  plan.pad_row.assign(columns * w.in_channels, static_cast<int8_t>(pad_value));
  plan.offsets.reserve(size_t{plan.band_rows} * w.out_width);
  const size_t column_step = size_t{w.stride_width / plan.phases} * plan.channels();
  for (uint32_t y = 0; y < plan.band_rows; ++y)
    for (uint32_t x = 0; x < w.out_width; ++x)
      plan.offsets.push_back(static_cast<uint32_t>(
          y * size_t{w.stride_height} * plan.row_elements() + x * column_step));
  return true;
}

void ConvolutionPlan::load_band(const int8_t* input, uint32_t image, uint32_t first_row,
                                uint32_t rows, Convert convert, std::byte* band) const {
  const Window& w = window;
  const size_t c = w.in_channels;
  const int8_t* from = input + size_t{image} * w.in.batch;
  const size_t columns = pad_row.size() / c;
  const size_t band_row = row_elements() * element_bytes;
  const int64_t top = int64_t{first_row} * w.stride_height - w.pad_top;
  const size_t count = input_rows(rows);
  // Columns [left, right) of the padded row lie inside of the input, the first of them at `start`.
  const auto in_columns = [&](int64_t x) {
    return static_cast<size_t>(std::clamp<int64_t>(x, 0, static_cast<int64_t>(columns)));
  };
  const size_t left = in_columns(w.pad_left),
               right = std::max(left, in_columns(int64_t{w.pad_left} + w.in_width));
  const size_t start = static_cast<size_t>(static_cast<int64_t>(left) - w.pad_left) * w.in.pixel;
  const bool whole_rows = phases == 1 && repeat == 1 && w.in.pixel == c;

  const bool inside_only = left == 0 && right == columns && top >= 0 &&
                           static_cast<uint64_t>(top) + count <= w.in_height;
  if (whole_rows && inside_only && (w.in.row == columns * c || count == 1))
    return convert(from + static_cast<size_t>(top) * w.in.row + start, band, count * columns * c);
  std::vector<int8_t> repeated(repeat != 1 ? channels() : 0);
  for (size_t r = 0; r < count; ++r, band += band_row) {
    const int64_t y = top + static_cast<int64_t>(r);
    const bool inside = y >= 0 && y < w.in_height;
    const int8_t* row = inside ? from + static_cast<size_t>(y) * w.in.row : nullptr;
    if (whole_rows) {
      if (!inside) {
        convert(pad_row.data(), band, columns * c);
        continue;
      }
      convert(pad_row.data(), band, left * c);
      if (right > left) convert(row + start, band + left * c * element_bytes, (right - left) * c);
      convert(pad_row.data(), band + right * c * element_bytes, (columns - right) * c);
      continue;
    }
    for (size_t x = 0; x < columns; ++x) {
      const int8_t* pixel =
          inside && x >= left && x < right ? row + start + (x - left) * w.in.pixel : pad_row.data();
      if (repeat != 1) {
        for (size_t i = 0; i < c; ++i) std::memset(&repeated[i * repeat], pixel[i], repeat);
        pixel = repeated.data();
      }
      convert(pixel, band + (x % phases * phase_columns + x / phases) * channels() * element_bytes,
              channels());
    }
  }
}

}  // namespace dtr::simulator
