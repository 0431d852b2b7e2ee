// cortex_m::quantized_depthwise_conv2d.out(input, weight [1, kH, kW, O], bias?, stride, padding, dilation, depth_multiplier, input_offset,
// output_offset, multipliers [O], shifts [O], activation_min, activation_max, scratch, out): output channel c reads input channel
// c / depth_multiplier. int8, channels-last, any batch.
//
// Without a multiplier four neighbouring channels are a word of inputs and a word of weights at every tap, and their sums four registers.
#include "abi/cortex_m.h"
#include "runtime/kernels/cortex_m/image.h"
#include "runtime/kernels/cortex_m/kernels.h"
#include "runtime/kernels/cortex_m/loops.h"

namespace dtr::runtime::cortex_m {
namespace {

struct Depthwise {
  Image in, out;
  Axis h, w;
  int32_t multiplier = 1;  // output channels of an input channel
  int32_t offset = 0;      // −zero point of the input
  const int8_t* weights = nullptr;
  Channels channels;

  // Taps of an output whose inputs exist.
  struct Taps {
    int32_t top, bottom, left, right;
  };

  void pixel(const int8_t* x, int32_t oy, int32_t ox, int8_t* y) const {
    const Taps taps{h.begin(oy), h.end(oy), w.begin(ox), w.end(ox)};
    x += (h.first(oy) * in.width + w.first(ox)) * in.channels;
    int32_t channel = 0;
    if (multiplier == 1) {
      for (; channel + 4 <= out.channels; channel += 4) four_channels(x, taps, channel, y);
    }
    for (; channel < out.channels; ++channel) one_channel(x, taps, channel, y);
  }

 private:
  int32_t input_of(int32_t ky, int32_t kx, int32_t channel) const {
    return (ky * h.dilation * in.width + kx * w.dilation) * in.channels + channel / multiplier;
  }
  int32_t weight_of(int32_t ky, int32_t kx, int32_t channel) const { return (ky * w.kernel + kx) * out.channels + channel; }

  void four_channels(const int8_t* x, const Taps& taps, int32_t channel, int8_t* y) const {
    int32_t sums[4];
    unrolled<4>([&](auto i) { sums[i] = channels.bias(channel + i); });
    const int8_t* row = x + input_of(taps.top, taps.left, channel);
    const int8_t* weight_row = weights + weight_of(taps.top, taps.left, channel);
    for (int32_t ky = taps.top; ky < taps.bottom; ++ky) {
      Loops::multiply_channels(weight_row, out.channels, row, w.dilation * in.channels, offset, taps.right - taps.left, sums);
      row += h.dilation * in.width * in.channels;
      weight_row += w.kernel * out.channels;
    }
    unrolled<4>([&](auto i) { y[channel + i] = channels(sums[i], channel + i); });
  }

  void one_channel(const int8_t* x, const Taps& taps, int32_t channel, int8_t* y) const {
    int32_t sum = channels.bias(channel);
    for (int32_t ky = taps.top; ky < taps.bottom; ++ky) {
      for (int32_t kx = taps.left; kx < taps.right; ++kx) {
        sum = add_wrapping(sum, weights[weight_of(ky, kx, channel)] * (x[input_of(ky, kx, channel)] + offset));
      }
    }
    y[channel] = channels(sum, channel);
  }
};

}  // namespace

Error quantized_depthwise_conv2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& weight = arguments.tensor(1);
  const Tensor* bias = arguments.optional_tensor(2);
  const auto stride = arguments.ints(3), padding = arguments.ints(4), dilation = arguments.ints(5);
  const int64_t multiplier = arguments.integer(6), offset = arguments.integer(7), zero_point = arguments.integer(8);
  const Tensor& multipliers = arguments.tensor(9);
  const Tensor& shifts = arguments.tensor(10);
  const int64_t low = arguments.integer(11), high = arguments.integer(12);
  const Tensor& scratch = arguments.output(13);
  const Tensor& out = arguments.output(14);
  Depthwise conv;
  if (!arguments.good() || weight.rank != 4 || weight.sizes[0] != 1 || !read_image(in, &conv.in) || !read_image(out, &conv.out) ||
      !good_offset(offset) || !read_finish(zero_point, low, high, &conv.channels.finish) || conv.in.batch != conv.out.batch ||
      weight.sizes[3] != conv.out.channels || multiplier * conv.in.channels != conv.out.channels ||
      !read_channels(multipliers, shifts, bias, conv.out.channels, &conv.channels) ||
      !is_scratch(scratch, dtr::cortex_m::depthwise_scratch_bytes())) {
    return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kChar || weight.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar) return Error::kKernelDtype;
  conv.h = {conv.in.height, conv.out.height, weight.sizes[1], entry(stride, 0), entry(padding, 0), entry(dilation, 0)};
  conv.w = {conv.in.width, conv.out.width, weight.sizes[2], entry(stride, 1), entry(padding, 1), entry(dilation, 1)};
  if (!conv.h.good() || !conv.w.good()) return Error::kKernelArguments;
  conv.multiplier = static_cast<int32_t>(multiplier);
  conv.offset = static_cast<int32_t>(offset);
  conv.weights = weight.values<int8_t>();
  int8_t* y = out.values<int8_t>();
  for (int32_t n = 0; n < conv.out.batch; ++n) {
    const int8_t* x = in.values<int8_t>() + n * conv.in.pixels() * conv.in.channels;
    for (int32_t oy = 0; oy < conv.out.height; ++oy) {
      for (int32_t ox = 0; ox < conv.out.width; ++ox, y += conv.out.channels) conv.pixel(x, oy, ox, y);
    }
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
