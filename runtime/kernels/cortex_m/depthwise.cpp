// cortex_m::quantized_depthwise_conv2d.out(input, weight [1, kH, kW, O], bias?, stride, padding, dilation, depth_multiplier, input_offset,
// output_offset, multipliers [O], shifts [O], activation_min, activation_max, scratch, out): output channel c reads input channel
// c / depth_multiplier. int8, channels-last, any batch.
//
// Without a multiplier four neighbouring channels are computed together, pixel after pixel: a word of inputs at every tap, four sums in
// registers, and where no tap is padding, weights that are packed once.
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

  int32_t taps() const { return h.kernel * w.kernel; }

  // All outputs of a sample.
  void run(const int8_t* x, int8_t* y, TapPair* pairs) const {
    int32_t channel = 0;
    for (; multiplier == 1 && channel + 4 <= out.channels; channel += 4) four_channels(x, channel, y + channel, pairs);
    for (; channel < out.channels; ++channel) one_channel(x, channel, y + channel);
  }

 private:
  int32_t input_of(int32_t ky, int32_t kx, int32_t channel) const {
    return (ky * h.dilation * in.width + kx * w.dilation) * in.channels + channel / multiplier;
  }
  int32_t weight_of(int32_t ky, int32_t kx, int32_t channel) const { return (ky * w.kernel + kx) * out.channels + channel; }

  void four_channels(const int8_t* x, int32_t channel, int8_t* y, TapPair* pairs) const {
    static constexpr int8_t kNoWeights[4] = {};
    TapPair* const end = pairs + (taps() + 1) / 2;
    for (int32_t tap = 0; tap < taps(); ++tap) {
      TapPair& pair = pairs[tap / 2];
      pair.offsets[tap % 2] = input_of(tap / w.kernel, tap % w.kernel, channel);
      if (tap % 2 != 0) continue;
      const int8_t* first = weights + tap * out.channels + channel;
      const bool last = tap + 1 == taps();
      Loops::pack(first, last ? kNoWeights : first + out.channels, &pair);
      if (last) pair.offsets[1] = channel;
    }
    int32_t biases[4], multipliers[4], shifts[4];
    unrolled<4>([&](auto i) {
      biases[i] = channels.bias(channel + i);
      multipliers[i] = channels.multipliers[channel + i];
      shifts[i] = channels.shifts[channel + i];
    });
    const Finish finish = channels.finish;
    const TapSteps steps{out.channels, w.kernel * out.channels, w.dilation * in.channels, h.dilation * in.width * in.channels};
    const int32_t top = h.inside_begin(), bottom = h.inside_end(), left = w.inside_begin(), right = w.inside_end();
    const int32_t next = w.stride * in.channels;
    for (int32_t oy = 0; oy < out.height; ++oy) {
      const int8_t* from = x + (h.first(oy) * in.width + w.first(0)) * in.channels;
      const bool rows_inside = oy >= top && oy < bottom;
      for (int32_t ox = 0; ox < out.width; ++ox, from += next, y += out.channels) {
        int32_t sums[4];
        unrolled<4>([&](auto i) { sums[i] = biases[i]; });
        if (rows_inside && ox >= left && ox < right) {
          Loops::multiply_taps(pairs, end, from, offset, sums);
        } else {
          at_border(from, oy, ox, channel, steps, sums);
        }
        unrolled<4>([&](auto i) { y[i] = finish(sums[i], multipliers[i], shifts[i]); });
      }
    }
  }

  void at_border(const int8_t* x, int32_t oy, int32_t ox, int32_t channel, const TapSteps& steps, int32_t (&sums)[4]) const {
    const int32_t top = h.begin(oy), rows = h.end(oy) - top, left = w.begin(ox), columns = w.end(ox) - left;
    if (rows <= 0 || columns <= 0) return;
    Loops::multiply_rectangle(weights + weight_of(top, left, channel), x + input_of(top, left, channel), steps, rows, columns, offset,
                              sums);
  }

  void one_channel(const int8_t* x, int32_t channel, int8_t* y) const {
    for (int32_t oy = 0; oy < out.height; ++oy) {
      for (int32_t ox = 0; ox < out.width; ++ox, y += out.channels) {
        const int8_t* from = x + (h.first(oy) * in.width + w.first(ox)) * in.channels;
        int32_t sum = channels.bias(channel);
        for (int32_t ky = h.begin(oy); ky < h.end(oy); ++ky) {
          for (int32_t kx = w.begin(ox); kx < w.end(ox); ++kx) {
            sum = add_wrapping(sum, weights[weight_of(ky, kx, channel)] * (from[input_of(ky, kx, channel)] + offset));
          }
        }
        *y = channels(sum, channel);
      }
    }
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
      !read_channels(multipliers, shifts, bias, conv.out.channels, &conv.channels)) {
    return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kChar || weight.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar) return Error::kKernelDtype;
  conv.h = {conv.in.height, conv.out.height, weight.sizes[1], entry(stride, 0), entry(padding, 0), entry(dilation, 0)};
  conv.w = {conv.in.width, conv.out.width, weight.sizes[2], entry(stride, 1), entry(padding, 1), entry(dilation, 1)};
  if (!conv.h.good() || !conv.w.good()) return Error::kKernelArguments;
  conv.multiplier = static_cast<int32_t>(multiplier);
  conv.offset = static_cast<int32_t>(offset);
  conv.weights = weight.values<int8_t>();
  if (!is_scratch(scratch, dtr::cortex_m::depthwise_scratch_bytes(conv.taps(), conv.in.channels, multiplier))) {
    return Error::kKernelArguments;
  }
  for (int32_t n = 0; n < conv.out.batch; ++n) {
    conv.run(in.values<int8_t>() + n * conv.in.pixels() * conv.in.channels,
             out.values<int8_t>() + n * conv.out.pixels() * conv.out.channels, reinterpret_cast<TapPair*>(scratch.data));
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
