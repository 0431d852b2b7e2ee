// cortex_m::quantized_linear.out(input [.., I], weights [O, I], bias? [O], kernel_sum?, input_offset, filter_offset, output_offset,
// multipliers, shifts, activation_max, activation_min, out [.., O]): lists of one entry, or of one for each output; kernel_sum is the form
// of MVE, which this kernel does not read, and filter_offset 0.
// deuteron::quantized_linear.out(input, weights, bias?, input_offset, output_offset, multipliers [O], shifts [O], one_rounding,
// activation_min, activation_max, out): the same with parameters per output as tensors, as they take a tenth of the space; `one_rounding`
// as LiteRT's FULLY_CONNECTED rescales. int8, contiguous.
#include "runtime/kernels/cortex_m/image.h"
#include "runtime/kernels/cortex_m/kernels.h"
#include "runtime/kernels/cortex_m/loops.h"

namespace dtr::runtime::cortex_m {
namespace {

struct Linear {
  const int8_t* weights = nullptr;
  int32_t in = 0, out = 0, rows = 0;
  int32_t offset = 0;  // −zero point of the input
  const int32_t* biases = nullptr;

  // Calls write(output, sum).
  template <int kRows, class Write>
  void outputs(const int8_t* x, int32_t first, Write write) const {
    int32_t sums[kRows];
    unrolled<kRows>([&](auto row) { sums[row] = biases == nullptr ? 0 : biases[first + row]; });
    Loops::multiply_vector<kRows>(weights + first * in, in, x, offset, in, sums);
    unrolled<kRows>([&](auto row) { write(first + row, sums[row]); });
  }

  // Calls rescale(sum, output) for every element of the result.
  template <class Rescale>
  void run(const int8_t* x, int8_t* y, const Finish& finish, Rescale rescale) const {
    for (int32_t row = 0; row < rows; ++row, x += in, y += out) {
      const auto write = [&](int32_t output, int32_t sum) { y[output] = finish(rescale(sum, output)); };
      int32_t first = 0;
      for (; first + 4 <= out; first += 4) outputs<4>(x, first, write);
      for (; first < out; ++first) outputs<1>(x, first, write);
    }
  }
};

bool read_linear(const Tensor& in, const Tensor& weights, const Tensor* bias, int64_t offset, const Tensor& out, Linear* linear) {
  if (in.rank < 1 || in.rank != out.rank || weights.rank != 2 || !is_contiguous(in) || !is_contiguous(out) || !good_offset(offset)) {
    return false;
  }
  const int last = in.rank - 1;
  if (!std::equal(in.sizes, in.sizes + last, out.sizes) || in.sizes[last] != weights.sizes[1] || out.sizes[last] != weights.sizes[0]) {
    return false;
  }
  if (bias != nullptr && (bias->dtype != ScalarType::kInt || bias->rank != 1 || bias->sizes[0] != weights.sizes[0])) return false;
  *linear = {weights.values<int8_t>(),
             weights.sizes[1],
             weights.sizes[0],
             1,
             static_cast<int32_t>(offset),
             bias == nullptr ? nullptr : bias->values<int32_t>()};
  for (int dim = 0; dim < last; ++dim) linear->rows *= in.sizes[dim];
  return true;
}

bool all_int8(const Tensor& in, const Tensor& weights, const Tensor& out) {
  return in.dtype == ScalarType::kChar && weights.dtype == ScalarType::kChar && out.dtype == ScalarType::kChar;
}

}  // namespace

Error quantized_linear_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& weights = arguments.tensor(1);
  const Tensor* bias = arguments.optional_tensor(2);
  const bool has_sums = !arguments.is_none(3);
  const int64_t offset = arguments.integer(4), filter_offset = arguments.integer(5), zero_point = arguments.integer(6);
  const auto multipliers = arguments.ints(7), shifts = arguments.ints(8);
  const int64_t high = arguments.integer(9), low = arguments.integer(10);
  const Tensor& out = arguments.output(11);
  Linear linear;
  Finish finish;
  if (!arguments.good() || has_sums || filter_offset != 0 || !read_linear(in, weights, bias, offset, out, &linear) ||
      !read_finish(zero_point, low, high, &finish) || multipliers.size() != shifts.size() ||
      (multipliers.size() != 1 && multipliers.size() != static_cast<size_t>(linear.out))) {
    return Error::kKernelArguments;
  }
  for (size_t i = 0; i < shifts.size(); ++i) {
    if (!good_rescaling(multipliers[i], shifts[i])) return Error::kKernelArguments;
  }
  if (!all_int8(in, weights, out)) return Error::kKernelDtype;
  linear.run(in.values<int8_t>(), out.values<int8_t>(), finish, [&](int32_t sum, int32_t output) {
    const size_t at = multipliers.size() == 1 ? 0 : static_cast<size_t>(output);
    return rescale(sum, static_cast<int32_t>(multipliers[at]), static_cast<int32_t>(shifts[at]));
  });
  return Error::kOk;
}

Error quantized_linear_per_channel_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& weights = arguments.tensor(1);
  const Tensor* bias = arguments.optional_tensor(2);
  const int64_t offset = arguments.integer(3), zero_point = arguments.integer(4);
  const Tensor& multipliers = arguments.tensor(5);
  const Tensor& shifts = arguments.tensor(6);
  const bool one_rounding = arguments.flag(7);
  const int64_t low = arguments.integer(8), high = arguments.integer(9);
  const Tensor& out = arguments.output(10);
  Linear linear;
  Channels channels;
  if (!arguments.good() || !read_linear(in, weights, bias, offset, out, &linear) ||
      !read_channels(multipliers, shifts, bias, linear.out, &channels) || !read_finish(zero_point, low, high, &channels.finish)) {
    return Error::kKernelArguments;
  }
  if (!all_int8(in, weights, out)) return Error::kKernelDtype;
  const auto run = [&](auto rescale) {
    linear.run(in.values<int8_t>(), out.values<int8_t>(), channels.finish,
               [&](int32_t sum, int32_t output) { return rescale(sum, channels.multipliers[output], channels.shifts[output]); });
  };
  if (one_rounding) {
    run(rescale_once);
  } else {
    run([](int32_t sum, int32_t multiplier, int32_t shift) { return rescale(sum, multiplier, shift); });
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
