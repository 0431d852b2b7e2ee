#include "device/runtime/kernels/cortex_m/convolution_arguments.h"

namespace dtr::runtime::cortex_m {

Error read_convolution(Arguments& arguments, const ConvolutionPlaces& places,
                       ConvolutionArguments* convolution) {
  const Tensor& in = arguments.tensor(0);
  const Tensor& weight = arguments.tensor(1);
  const Tensor* bias = arguments.optional_tensor(2);
  const auto stride = arguments.ints(3), padding = arguments.ints(4),
             dilation = arguments.ints(places.dilation);
  const size_t at = places.input_offset;
  const int64_t offset = arguments.integer(at), zero_point = arguments.integer(at + 1);
  const Tensor& multipliers = arguments.tensor(at + 2);
  const Tensor& shifts = arguments.tensor(at + 3);
  const int64_t low = arguments.integer(at + 4), high = arguments.integer(at + 5);
  const Tensor& scratch = arguments.output(at + 6);
  const Tensor& out = arguments.output(places.out);
  ConvolutionArguments& conv = *convolution;
  if (!arguments.good() || weight.rank != 4 || !read_image(in, &conv.in) ||
      !read_image(out, &conv.out) || !good_offset(offset) ||
      !read_finish(zero_point, low, high, &conv.channels.finish) ||
      conv.in.batch != conv.out.batch ||
      !read_channels(multipliers, shifts, bias, conv.out.channels, &conv.channels)) {
    return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kChar || weight.dtype != ScalarType::kChar ||
      out.dtype != ScalarType::kChar)
    return Error::kKernelDtype;
  conv.h = {conv.in.height,   conv.out.height,   weight.sizes[1],
            entry(stride, 0), entry(padding, 0), entry(dilation, 0)};
  conv.w = {conv.in.width,    conv.out.width,    weight.sizes[2],
            entry(stride, 1), entry(padding, 1), entry(dilation, 1)};
  if (places.transposed) {
    std::swap(conv.h.in, conv.h.out);
    std::swap(conv.w.in, conv.w.out);
  }
  const auto scratch_bytes = static_cast<int64_t>(scratch.bytes());
  const auto trusted = [&](const Tensor& list) {
    return is_disjoint(list, scratch.data, scratch_bytes) &&
           is_disjoint(list, out.data, conv.out.bytes());
  };
  if (!good_axes(places.transposed ? conv.out : conv.in, conv.h, conv.w) ||
      !is_disjoint(scratch.data, scratch_bytes, out.data, conv.out.bytes()) ||
      !is_disjoint(in, scratch.data, scratch_bytes) || !trusted(multipliers) || !trusted(shifts)) {
    return Error::kKernelArguments;
  }
  std::copy_n(weight.sizes, 4, conv.weight_sizes);
  conv.offset = static_cast<int32_t>(offset);
  conv.x = in.values<int8_t>();
  conv.y = out.values<int8_t>();
  conv.weights = weight.values<int8_t>();
  conv.scratch = scratch;
  if (conv.out.bytes() == 0) conv.in.batch = conv.out.batch = 0;
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
