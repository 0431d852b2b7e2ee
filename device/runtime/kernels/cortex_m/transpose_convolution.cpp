// cortex_m::quantized_transpose_conv2d.out(input, weight [O, kH, kW, I], bias?, stride, padding,
// output_padding, dilation, input_offset, output_offset, multipliers [O], shifts [O],
// activation_min, activation_max, scratch, output_scratch, out): int8, channels-last. I channels of
// the input make a group, as many as it takes; the output's extents hold padding at the end and
// output_padding.
//
// Every output pixel gathers from the inputs whose window contains it; its channels are added up in
// the scratch operand.
#include "device/runtime/kernels/cortex_m/convolution_arguments.h"
#include "device/runtime/kernels/cortex_m/kernels.h"

namespace dtr::runtime::cortex_m {
namespace {

struct TransposeConvolution {
  ConvolutionArguments from;
  int32_t group_in = 1, group_out = 1;  // channels

  // The input position whose tap k is `position` of the output; −1 if there is none.
  static int32_t source(const Axis& axis, int32_t position, int32_t k) {
    const int32_t at = position + axis.padding - k * axis.dilation;
    return at >= 0 && at % axis.stride == 0 && at / axis.stride < axis.out ? at / axis.stride : -1;
  }

  void pixel(const int8_t* x, int32_t py, int32_t px, int32_t* sums, int8_t* y) const {
    const Axis &h = from.h, &w = from.w;
    for (int32_t c = 0; c < from.out.channels; ++c) sums[c] = from.channels.bias(c);
    for (int32_t ky = 0; ky < h.kernel; ++ky) {
      const int32_t iy = source(h, py, ky);
      if (iy < 0) continue;
      for (int32_t kx = 0; kx < w.kernel; ++kx) {
        const int32_t ix = source(w, px, kx);
        if (ix >= 0)
          add_tap(x + (iy * from.in.width + ix) * from.in.channels, ky * w.kernel + kx, sums);
      }
    }
    for (int32_t c = 0; c < from.out.channels; ++c) y[c] = from.channels(sums[c], c);
  }

 private:
  void add_tap(const int8_t* x, int32_t tap, int32_t* sums) const {
    const int32_t next = from.h.kernel * from.w.kernel * group_in;
    const int8_t* row = from.weights + tap * group_in;
    for (int32_t first = 0; first < from.out.channels; first += group_out, x += group_in) {
      int32_t c = first;
      for (; c + 2 <= first + group_out; c += 2, row += 2 * next) {
        int32_t pair[2] = {sums[c], sums[c + 1]};
        Loops::multiply_vector<2>(row, next, x, from.offset, group_in, pair);
        sums[c] = pair[0], sums[c + 1] = pair[1];
      }
      if (c == first + group_out) continue;
      int32_t last[1] = {sums[c]};
      Loops::multiply_vector<1>(row, next, x, from.offset, group_in, last);
      sums[c] = last[0];
      row += next;
    }
  }
};

}  // namespace

Error quantized_transpose_conv2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  TransposeConvolution conv;
  const Tensor& output_scratch = arguments.output(14);
  constexpr ConvolutionPlaces kPlaces{
      .dilation = 6, .input_offset = 7, .out = 15, .transposed = true};
  if (const Error error = read_convolution(arguments, kPlaces, &conv.from); error != Error::kOk)
    return error;
  const Image &in = conv.from.in, &out = conv.from.out;
  conv.group_in = conv.from.weight_sizes[3];
  if (conv.group_in < 1 || in.channels % conv.group_in != 0 ||
      conv.from.weight_sizes[0] != out.channels)
    return Error::kKernelArguments;
  const int32_t groups = in.channels / conv.group_in;
  if (groups < 1 || out.channels % groups != 0 ||
      !is_scratch(conv.from.scratch, dtr::cortex_m::transposed_scratch_bytes(out.channels)) ||
      !is_scratch(output_scratch, 0)) {
    return Error::kKernelArguments;
  }
  conv.group_out = out.channels / groups;
  for (int32_t n = 0; n < out.batch; ++n) {
    int8_t* y = conv.from.output_of(n);
    for (int32_t py = 0; py < out.height; ++py) {
      for (int32_t px = 0; px < out.width; ++px, y += out.channels) {
        conv.pixel(conv.from.input_of(n), py, px, conv.from.scratch.values<int32_t>(), y);
      }
    }
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
