// cortex_m::quantized_conv2d.out(input, weight [O, kH, kW, I], bias?, stride, padding, dilation, input_offset, output_offset, multipliers
// [O], shifts [O], activation_min, activation_max, scratch, out): int8, channels-last. I channels of the input make a group; padding stands
// before the first element, what follows the last one is what the output's extents ask for.
//
// The inputs of two outputs are gathered as columns of int16 in the scratch operand; two rows of weights times two columns use every loaded
// weight and input twice.
#include "abi/cortex_m.h"
#include "runtime/kernels/cortex_m/image.h"
#include "runtime/kernels/cortex_m/kernels.h"
#include "runtime/kernels/cortex_m/loops.h"

namespace dtr::runtime::cortex_m {
namespace {

struct Convolution {
  Image in, out;
  Axis h, w;
  int32_t group_in = 1, group_out = 1;  // channels
  int32_t offset = 0;                   // −zero point of the input
  Channels channels;

  int32_t depth() const { return h.kernel * w.kernel * group_in; }
};

// Brings the inputs of output (oy, ox) of a group into the order of the weights. `x` is the group's first channel in the sample.
class Gatherer {
 public:
  Gatherer(const Convolution& conv, const int8_t* x, int8_t* bytes)
      : conv_(conv), x_(x), bytes_(bytes), pointwise_(conv.h.is_point() && conv.w.is_point()) {}

  void gather(int32_t oy, int32_t ox, const Column& column) const {
    const Axis &h = conv_.h, &w = conv_.w;
    if (pointwise_) {
      Loops::expand(x_ + (h.first(oy) * conv_.in.width + w.first(ox)) * conv_.in.channels, column.depth, conv_.offset, column, 0);
      return;
    }
    const int32_t left = w.begin(ox), right = std::max(left, w.end(ox));
    const int32_t top = h.begin(oy), bottom = std::max(top, h.end(oy));
    const int32_t row = w.kernel * conv_.group_in;
    const int8_t* from = x_ + ((h.first(oy) + top * h.dilation) * conv_.in.width + w.first(ox) + left * w.dilation) * conv_.in.channels;
    if (conv_.group_in % 4 == 0) {
      Loops::clear(top * row, column, 0);
      for (int32_t ky = top; ky < bottom; ++ky, from += h.dilation * conv_.in.width * conv_.in.channels) {
        row_of_words(from, left, right, column, ky * row);
      }
      Loops::clear((h.kernel - bottom) * row, column, bottom * row);
    } else {
      const auto zero = static_cast<int8_t>(-conv_.offset);
      std::fill_n(bytes_, top * row, zero);
      for (int32_t ky = top; ky < bottom; ++ky, from += h.dilation * conv_.in.width * conv_.in.channels) {
        row_of_bytes(from, left, right, zero, bytes_ + ky * row);
      }
      std::fill_n(bytes_ + bottom * row, (h.kernel - bottom) * row, zero);
      Loops::expand(bytes_, column.depth, conv_.offset, column, 0);
    }
  }

 private:
  // Taps [left, right) come from `from`, the others are padding.
  void row_of_words(const int8_t* from, int32_t left, int32_t right, const Column& column, int32_t first) const {
    const int32_t run = conv_.group_in;
    Loops::clear(left * run, column, first);
    if (taps_are_dense()) {
      Loops::expand(from, (right - left) * run, conv_.offset, column, first + left * run);
    } else {
      for (int32_t tap = left; tap < right; ++tap, from += conv_.w.dilation * conv_.in.channels) {
        Loops::expand(from, run, conv_.offset, column, first + tap * run);
      }
    }
    Loops::clear((conv_.w.kernel - right) * run, column, first + right * run);
  }

  void row_of_bytes(const int8_t* from, int32_t left, int32_t right, int8_t zero, int8_t* to) const {
    const int32_t run = conv_.group_in;
    std::fill_n(to, left * run, zero);
    if (taps_are_dense()) {
      std::copy_n(from, (right - left) * run, to + left * run);
    } else {
      for (int32_t tap = left; tap < right; ++tap, from += conv_.w.dilation * conv_.in.channels) std::copy_n(from, run, to + tap * run);
    }
    std::fill_n(to + right * run, (conv_.w.kernel - right) * run, zero);
  }

  bool taps_are_dense() const { return conv_.w.dilation == 1 && conv_.group_in == conv_.in.channels; }

  const Convolution& conv_;
  const int8_t* x_;
  int8_t* bytes_;
  bool pointwise_;
};

// Output channels [channel, channel + kRows) of `kColumns` gathered pixels, which lie `pixel` apart.
template <int kRows, int kColumns>
[[gnu::always_inline]] inline void multiply_rows(const Channels& channels, const int8_t* weights, int32_t channel, const int16_t* columns,
                                                 int32_t depth, int8_t* y, int32_t pixel) {
  int32_t sums[kRows][kColumns];
  unrolled<kRows>([&](auto row) {
    const int32_t bias = channels.bias(channel + row);
    unrolled<kColumns>([&](auto column) { sums[row][column] = bias; });
  });
  Loops::multiply<kRows, kColumns>(weights, columns, depth, sums);
  unrolled<kRows>([&](auto row) {
    const int32_t multiplier = channels.multipliers[channel + row], shift = channels.shifts[channel + row];
    unrolled<kColumns>([&](auto column) { y[column * pixel + channel + row] = channels.finish(sums[row][column], multiplier, shift); });
  });
}

// All outputs of a group for `kColumns` gathered pixels.
template <int kColumns>
void multiply_columns(const Convolution& conv, const int8_t* weights, int32_t first_channel, const int16_t* columns, int8_t* y) {
  const Channels channels = conv.channels;
  const int32_t depth = conv.depth(), end = first_channel + conv.group_out, pixel = conv.out.channels;
  int32_t channel = first_channel;
  for (; channel + 2 <= end; channel += 2, weights += 2 * depth) {
    multiply_rows<2, kColumns>(channels, weights, channel, columns, depth, y, pixel);
  }
  if (channel < end) multiply_rows<1, kColumns>(channels, weights, channel, columns, depth, y, pixel);
}

void convolve_group(const Convolution& conv, int32_t group, const int8_t* x, const int8_t* weights, int8_t* y, int16_t* scratch) {
  const int32_t depth = conv.depth(), first_channel = group * conv.group_out, pixels = conv.out.pixels();
  weights += first_channel * depth;
  const Gatherer gatherer(conv, x + group * conv.group_in, reinterpret_cast<int8_t*>(scratch + std::min(pixels, int32_t{2}) * depth));
  int32_t oy = 0, ox = 0;
  const auto gather_next = [&](int32_t index, int32_t columns) {
    gatherer.gather(oy, ox, {scratch, index, columns, depth});
    if (++ox == conv.out.width) ox = 0, ++oy;
  };
  int32_t pixel = 0;
  for (; pixel + 2 <= pixels; pixel += 2, y += 2 * conv.out.channels) {
    gather_next(0, 2);
    gather_next(1, 2);
    multiply_columns<2>(conv, weights, first_channel, scratch, y);
  }
  if (pixel < pixels) {
    gather_next(0, 1);
    multiply_columns<1>(conv, weights, first_channel, scratch, y);
  }
}

}  // namespace

Error quantized_conv2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& weight = arguments.tensor(1);
  const Tensor* bias = arguments.optional_tensor(2);
  const auto stride = arguments.ints(3), padding = arguments.ints(4), dilation = arguments.ints(5);
  const int64_t offset = arguments.integer(6), zero_point = arguments.integer(7);
  const Tensor& multipliers = arguments.tensor(8);
  const Tensor& shifts = arguments.tensor(9);
  const int64_t low = arguments.integer(10), high = arguments.integer(11);
  const Tensor& scratch = arguments.output(12);
  const Tensor& out = arguments.output(13);
  Convolution conv;
  if (!arguments.good() || weight.rank != 4 || !read_image(in, &conv.in) || !read_image(out, &conv.out) || !good_offset(offset) ||
      !read_finish(zero_point, low, high, &conv.channels.finish) || conv.in.batch != conv.out.batch) {
    return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kChar || weight.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar) return Error::kKernelDtype;
  conv.h = {conv.in.height, conv.out.height, weight.sizes[1], entry(stride, 0), entry(padding, 0), entry(dilation, 0)};
  conv.w = {conv.in.width, conv.out.width, weight.sizes[2], entry(stride, 1), entry(padding, 1), entry(dilation, 1)};
  conv.group_in = weight.sizes[3];
  conv.offset = static_cast<int32_t>(offset);
  if (conv.group_in < 1 || conv.in.channels % conv.group_in != 0 || weight.sizes[0] != conv.out.channels || !conv.h.good() ||
      !conv.w.good()) {
    return Error::kKernelArguments;
  }
  const int32_t groups = conv.in.channels / conv.group_in;
  if (groups < 1 || conv.out.channels % groups != 0 || !read_channels(multipliers, shifts, bias, conv.out.channels, &conv.channels) ||
      !is_scratch(scratch, dtr::cortex_m::convolution_scratch_bytes(conv.depth(), conv.group_in, conv.out.pixels()))) {
    return Error::kKernelArguments;
  }
  conv.group_out = conv.out.channels / groups;
  for (int32_t n = 0; n < conv.in.batch; ++n) {
    const int8_t* x = in.values<int8_t>() + n * conv.in.pixels() * conv.in.channels;
    int8_t* y = out.values<int8_t>() + n * conv.out.pixels() * conv.out.channels;
    for (int32_t group = 0; group < groups; ++group) {
      convolve_group(conv, group, x, weight.values<int8_t>(), y, scratch.values<int16_t>());
    }
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
