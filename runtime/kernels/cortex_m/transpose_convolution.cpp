// cortex_m::quantized_transpose_conv2d.out(input, weight [O, kH, kW, I], bias?, stride, padding, output_padding, dilation, input_offset,
// output_offset, multipliers [O], shifts [O], activation_min, activation_max, scratch, output_scratch, out): int8, channels-last. I
// channels of the input make a group, as many as it takes; the output's extents hold padding at the end and output_padding.
//
// Every output pixel gathers from the inputs whose window it lies in; its channels are added up in the scratch operand.
#include "abi/cortex_m.h"
#include "runtime/kernels/cortex_m/image.h"
#include "runtime/kernels/cortex_m/kernels.h"
#include "runtime/kernels/cortex_m/loops.h"

namespace dtr::runtime::cortex_m {
namespace {

// `h` and `w` are those of the convolution that this one is the gradient of: their `in` is the output here.
struct TransposeConvolution {
  Image in, out;
  Axis h, w;
  int32_t group_in = 1, group_out = 1;  // channels
  int32_t offset = 0;                   // −zero point of the input
  const int8_t* weights = nullptr;
  Channels channels;

  // The input position whose tap k is `position` of the output; −1 if there is none.
  static int32_t source(const Axis& axis, int32_t position, int32_t k) {
    const int32_t from = position + axis.padding - k * axis.dilation;
    return from >= 0 && from % axis.stride == 0 && from / axis.stride < axis.out ? from / axis.stride : -1;
  }

  void pixel(const int8_t* x, int32_t py, int32_t px, int32_t* sums, int8_t* y) const {
    for (int32_t c = 0; c < out.channels; ++c) sums[c] = channels.bias(c);
    for (int32_t ky = 0; ky < h.kernel; ++ky) {
      const int32_t iy = source(h, py, ky);
      if (iy < 0) continue;
      for (int32_t kx = 0; kx < w.kernel; ++kx) {
        const int32_t ix = source(w, px, kx);
        if (ix >= 0) add_tap(x + (iy * in.width + ix) * in.channels, ky * w.kernel + kx, sums);
      }
    }
    for (int32_t c = 0; c < out.channels; ++c) y[c] = channels(sums[c], c);
  }

 private:
  void add_tap(const int8_t* x, int32_t tap, int32_t* sums) const {
    const int32_t taps = h.kernel * w.kernel;
    const int8_t* row = weights + tap * group_in;
    for (int32_t first = 0; first < out.channels; first += group_out, x += group_in) {
      int32_t c = first;
      for (; c + 2 <= first + group_out; c += 2, row += 2 * taps * group_in) {
        int32_t pair[2] = {sums[c], sums[c + 1]};
        Loops::multiply_vector<2>(row, taps * group_in, x, offset, group_in, pair);
        sums[c] = pair[0], sums[c + 1] = pair[1];
      }
      if (c == first + group_out) continue;
      int32_t last[1] = {sums[c]};
      Loops::multiply_vector<1>(row, taps * group_in, x, offset, group_in, last);
      sums[c] = last[0];
      row += taps * group_in;
    }
  }
};

}  // namespace

Error quantized_transpose_conv2d_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& weight = arguments.tensor(1);
  const Tensor* bias = arguments.optional_tensor(2);
  const auto stride = arguments.ints(3), padding = arguments.ints(4), dilation = arguments.ints(6);
  const int64_t offset = arguments.integer(7), zero_point = arguments.integer(8);
  const Tensor& multipliers = arguments.tensor(9);
  const Tensor& shifts = arguments.tensor(10);
  const int64_t low = arguments.integer(11), high = arguments.integer(12);
  const Tensor& scratch = arguments.output(13);
  const Tensor& output_scratch = arguments.output(14);
  const Tensor& out = arguments.output(15);
  TransposeConvolution conv;
  if (!arguments.good() || weight.rank != 4 || !read_image(in, &conv.in) || !read_image(out, &conv.out) || !good_offset(offset) ||
      !read_finish(zero_point, low, high, &conv.channels.finish) || conv.in.batch != conv.out.batch) {
    return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kChar || weight.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar) return Error::kKernelDtype;
  conv.h = {conv.out.height, conv.in.height, weight.sizes[1], entry(stride, 0), entry(padding, 0), entry(dilation, 0)};
  conv.w = {conv.out.width, conv.in.width, weight.sizes[2], entry(stride, 1), entry(padding, 1), entry(dilation, 1)};
  conv.group_in = weight.sizes[3];
  if (conv.group_in < 1 || conv.in.channels % conv.group_in != 0 || weight.sizes[0] != conv.out.channels || !conv.h.good() ||
      !conv.w.good()) {
    return Error::kKernelArguments;
  }
  const int32_t groups = conv.in.channels / conv.group_in;
  if (groups < 1 || conv.out.channels % groups != 0 || !read_channels(multipliers, shifts, bias, conv.out.channels, &conv.channels) ||
      !is_scratch(scratch, dtr::cortex_m::transposed_scratch_bytes(conv.out.channels)) || !is_scratch(output_scratch, 0)) {
    return Error::kKernelArguments;
  }
  conv.group_out = conv.out.channels / groups;
  conv.offset = static_cast<int32_t>(offset);
  conv.weights = weight.values<int8_t>();
  int8_t* y = out.values<int8_t>();
  for (int32_t n = 0; n < conv.out.batch; ++n) {
    const int8_t* x = in.values<int8_t>() + n * conv.in.pixels() * conv.in.channels;
    for (int32_t py = 0; py < conv.out.height; ++py) {
      for (int32_t px = 0; px < conv.out.width; ++px, y += conv.out.channels) conv.pixel(x, py, px, scratch.values<int32_t>(), y);
    }
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
