// cortex_m::quantized_depthwise_conv2d.out(input, weight [1, kH, kW, O], bias?, stride, padding,
// dilation, depth_multiplier, input_offset, output_offset, multipliers [O], shifts [O],
// activation_min, activation_max, scratch, out): output channel c reads input channel c /
// depth_multiplier. int8, channels-last, any batch.
//
// A block of neighbouring channels is computed together, pixel after pixel: four of them without a
// multiplier, or sixteen with MVE.
#include "device/runtime/kernels/cortex_m/depthwise.h"

#include "device/runtime/kernels/cortex_m/kernels.h"

namespace dtr::runtime::cortex_m {

#if !defined(__ARM_FEATURE_MVE)
namespace {

int8_t* one_pixel(const Depthwise& conv, const int8_t* x, int32_t oy, int32_t ox, int32_t channel,
                  int8_t* y) {
  const ConvolutionArguments& from = conv.from;
  const Axis &h = from.h, &w = from.w;
  int32_t sum = from.channels.bias(channel);
  for (int32_t ky = h.begin(oy); ky < h.end(oy); ++ky) {
    for (int32_t kx = w.begin(ox); kx < w.end(ox); ++kx) {
      sum = add_wrapping(sum, from.weights[conv.weight_of(ky, kx, channel)] *
                                  (x[conv.input_of(ky, kx, channel)] + from.offset));
    }
  }
  *y = from.channels(sum, channel);
  return y + from.out.channels;
}

// Four channels at once: a word of inputs at every tap, four sums in registers, and where no tap is
// padding, the DSP extension has weights that are packed once.
class FourChannels {
 public:
  FourChannels(const Depthwise& conv, int32_t channel, std::byte* scratch)
      : conv_(conv),
        channel_(channel),
        pairs_(reinterpret_cast<TapPair*>(scratch)),
        finish_(conv.from.channels.finish) {
    const ConvolutionArguments& from = conv.from;
    steps_ = {from.out.channels, from.w.kernel * from.out.channels,
              from.w.dilation * from.in.channels,
              from.h.dilation * from.in.width * from.in.channels};
    unrolled<4>([&](auto i) {
      biases_[i] = from.channels.bias(channel + i);
      multipliers_[i] = from.channels.multipliers[channel + i];
      shifts_[i] = from.channels.shifts[channel + i];
    });
    pack(Loops());
  }

  [[gnu::always_inline]] void inside(const int8_t* x, int8_t* y) const {
    int32_t sums[4];
    unrolled<4>([&](auto i) { sums[i] = biases_[i]; });
    multiply_inside(Loops(), x, sums);
    finish(sums, y);
  }
  [[gnu::always_inline]] void at_border(const int8_t* x, int32_t oy, int32_t ox, int8_t* y) const {
    int32_t sums[4];
    unrolled<4>([&](auto i) { sums[i] = biases_[i]; });
    multiply_at_border(x, oy, ox, sums);
    finish(sums, y);
  }

 private:
  void pack(PortableLoops) {}
  void pack(DspLoops) {
    static constexpr int8_t kNoWeights[4] = {};
    const int32_t taps = conv_.taps(), kernel = conv_.from.w.kernel, next = conv_.from.out.channels;
    end_ = pairs_ + (taps + 1) / 2;
    for (int32_t tap = 0; tap < taps; ++tap) {
      TapPair& pair = pairs_[tap / 2];
      pair.offsets[tap % 2] = conv_.input_of(tap / kernel, tap % kernel, channel_);
      if (tap % 2 != 0) continue;
      const int8_t* first = conv_.from.weights + tap * next + channel_;
      const bool last = tap + 1 == taps;
      DspLoops::pack(first, last ? kNoWeights : first + next, &pair);
      if (last) pair.offsets[1] = channel_;
    }
  }

  void multiply_inside(PortableLoops, const int8_t* x, int32_t (&sums)[4]) const {
    PortableLoops::multiply_rectangle(conv_.from.weights + channel_, x + channel_, steps_,
                                      conv_.from.h.kernel, conv_.from.w.kernel, conv_.from.offset,
                                      sums);
  }
  [[gnu::always_inline]] void multiply_inside(DspLoops, const int8_t* x, int32_t (&sums)[4]) const {
    DspLoops::multiply_taps(pairs_, end_, x, conv_.from.offset, sums);
  }

  void multiply_at_border(const int8_t* x, int32_t oy, int32_t ox, int32_t (&sums)[4]) const {
    const Axis &h = conv_.from.h, &w = conv_.from.w;
    const int32_t top = h.begin(oy), rows = h.end(oy) - top, left = w.begin(ox),
                  columns = w.end(ox) - left;
    if (rows <= 0 || columns <= 0) return;
    Loops::multiply_rectangle(conv_.from.weights + conv_.weight_of(top, left, channel_),
                              x + conv_.input_of(top, left, channel_), steps_, rows, columns,
                              conv_.from.offset, sums);
  }

  [[gnu::always_inline]] void finish(const int32_t (&sums)[4], int8_t* y) const {
    unrolled<4>([&](auto i) { y[i] = finish_(sums[i], multipliers_[i], shifts_[i]); });
  }

  const Depthwise& conv_;
  int32_t channel_;
  TapPair* pairs_;
  const TapPair* end_ = nullptr;
  Finish finish_;
  TapSteps steps_{};
  int32_t biases_[4], multipliers_[4], shifts_[4];
};

void convolve(const Depthwise& conv, const int8_t* x, int8_t* y) {
  const int32_t channels = conv.from.out.channels;
  int32_t channel = 0;
  for (; conv.multiplier == 1 && channel + 4 <= channels; channel += 4) {
    for_each_pixel(conv, x, y + channel, FourChannels(conv, channel, conv.from.scratch.data));
  }
  for (; channel < channels; ++channel) {
    int8_t* to = y + channel;
    for (int32_t oy = 0; oy < conv.from.out.height; ++oy) {
      for (int32_t ox = 0; ox < conv.from.out.width; ++ox)
        to = one_pixel(conv, conv.window(x, oy, ox), oy, ox, channel, to);
    }
  }
}

}  // namespace
#endif

// A function of its own: what it has in registers would change the loops of the caller.
[[gnu::noinline]] static Error read_depthwise(std::span<Value* const> values, Depthwise* conv) {
  Arguments arguments(values);
  const int64_t multiplier = arguments.integer(6);
  if (const Error error =
          read_convolution(arguments, {.dilation = 5, .input_offset = 7, .out = 14}, &conv->from);
      error != Error::kOk) {
    return error;
  }
  const int32_t* sizes = conv->from.weight_sizes;
  const Image &in = conv->from.in, &out = conv->from.out;
  if (sizes[0] != 1 || sizes[3] != out.channels || multiplier < 1 || multiplier > INT32_MAX ||
      multiplier * in.channels != out.channels) {
    return Error::kKernelArguments;
  }
  conv->multiplier = static_cast<int32_t>(multiplier);
  const auto scratch_bytes = [&](auto core) {
    return dtr::cortex_m::depthwise_scratch_bytes(core, conv->taps(), in.channels, multiplier);
  };
  return is_scratch_of_core(conv->from.scratch, scratch_bytes) ? Error::kOk
                                                               : Error::kKernelArguments;
}

Error quantized_depthwise_conv2d_out(std::span<Value* const> values) {
  Depthwise conv;
  if (const Error error = read_depthwise(values, &conv); error != Error::kOk) return error;
  for (int32_t n = 0; n < conv.from.out.batch; ++n)
    convolve(conv, conv.from.input_of(n), conv.from.output_of(n));
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
