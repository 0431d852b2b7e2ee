// cortex_m::quantized_linear.out(input [.., I], weights [O, I], bias? [O], kernel_sum?,
// input_offset, filter_offset, output_offset, multipliers, shifts, activation_max, activation_min,
// out [.., O]): lists of one entry, or of one for each output; kernel_sum [O] is Σ input_offset ·
// weights + bias in the place of the bias, and filter_offset 0.
// deuteron::quantized_linear.out(input, weights, bias?, input_offset, output_offset, multipliers
// [O], shifts [O], one_rounding, activation_min, activation_max, out): the same with parameters per
// output as tensors, as they take a tenth of the space; `one_rounding` as LiteRT's FULLY_CONNECTED
// rescales. int8, contiguous.
#include "device/runtime/kernels/cortex_m/kernels.h"
#include "device/runtime/kernels/cortex_m/rows.h"

namespace dtr::runtime::cortex_m {
namespace {

// Multipliers and shifts as lists of one entry for each output.
struct Listed {
  std::span<const int64_t> multipliers, shifts;
  Finish finish;

  int8_t operator()(int32_t sum, int32_t output) const {
    const auto at = static_cast<size_t>(output);
    return finish(
        rescale(sum, static_cast<int32_t>(multipliers[at]), static_cast<int32_t>(shifts[at])));
  }
};

struct Linear {
  Matrix matrix;
  Rows rows;
};

// Whether biases are absent, or one for each output.
bool good_biases(const Tensor* biases, int32_t outputs) {
  return biases == nullptr ||
         (biases->dtype == ScalarType::kInt && biases->rank == 1 && biases->sizes[0] == outputs);
}

bool read_linear(const Tensor& in, const Tensor& weights, const Tensor* biases, int64_t offset,
                 const Tensor& out, Linear* linear) {
  if (in.rank < 1 || in.rank != out.rank || weights.rank != 2 || !is_contiguous(in) ||
      !is_contiguous(out) || !good_offset(offset)) {
    return false;
  }
  const int last = in.rank - 1;
  if (!std::equal(in.sizes, in.sizes + last, out.sizes) || in.sizes[last] != weights.sizes[1] ||
      out.sizes[last] != weights.sizes[0] || !good_biases(biases, weights.sizes[0])) {
    return false;
  }
  linear->matrix = {.weights = weights.values<int8_t>(),
                    .depth = weights.sizes[1],
                    .outputs = weights.sizes[0],
                    .offset = static_cast<int32_t>(offset),
                    .biases = biases == nullptr ? nullptr : biases->values<int32_t>()};
  linear->rows = {in.values<int8_t>(), weights.sizes[1], out.values<int8_t>(), weights.sizes[0], 1};
  for (int dim = 0; dim < last; ++dim) linear->rows.count *= in.sizes[dim];
  return true;
}

bool all_int8(const Tensor& in, const Tensor& weights, const Tensor& out) {
  return in.dtype == ScalarType::kChar && weights.dtype == ScalarType::kChar &&
         out.dtype == ScalarType::kChar;
}

}  // namespace

Error quantized_linear_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& weights = arguments.tensor(1);
  const Tensor* bias = arguments.optional_tensor(2);
  const Tensor* sums = arguments.optional_tensor(3);
  const int64_t offset = arguments.integer(4), filter_offset = arguments.integer(5),
                zero_point = arguments.integer(6);
  const auto multipliers = arguments.ints(7), shifts = arguments.ints(8);
  const int64_t high = arguments.integer(9), low = arguments.integer(10);
  const Tensor& out = arguments.output(11);
  Linear linear;
  Finish finish;
  if (!arguments.good() || (sums != nullptr && (bias != nullptr || !good_offset(offset))) ||
      filter_offset != 0 ||
      !read_linear(in, weights, sums == nullptr ? bias : sums, sums == nullptr ? offset : 0, out,
                   &linear) ||
      !read_finish(zero_point, low, high, &finish) || multipliers.size() != shifts.size() ||
      (multipliers.size() != 1 &&
       multipliers.size() != static_cast<size_t>(linear.matrix.outputs))) {
    return Error::kKernelArguments;
  }
  for (size_t i = 0; i < shifts.size(); ++i) {
    if (!good_rescaling(multipliers[i], shifts[i])) return Error::kKernelArguments;
  }
  if (!all_int8(in, weights, out)) return Error::kKernelDtype;
  if (multipliers.size() == 1) {
    multiply_rows(
        linear.matrix, linear.rows,
        AllOutputs{{static_cast<int32_t>(multipliers[0]), static_cast<int32_t>(shifts[0])},
                   finish});
  } else {
    multiply_rows(linear.matrix, linear.rows, Listed{multipliers, shifts, finish});
  }
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
  const auto out_bytes = static_cast<int64_t>(out.bytes());
  Linear linear;
  Channels channels;
  if (!arguments.good() || !read_linear(in, weights, bias, offset, out, &linear) ||
      !read_channels(multipliers, shifts, bias, linear.matrix.outputs, &channels) ||
      !is_disjoint(multipliers, out.data, out_bytes) || !is_disjoint(shifts, out.data, out_bytes) ||
      !read_finish(zero_point, low, high, &channels.finish)) {
    return Error::kKernelArguments;
  }
  if (!all_int8(in, weights, out)) return Error::kKernelDtype;
  if (one_rounding) {
    multiply_rows(linear.matrix, linear.rows, EachOutputOnce{channels});
  } else {
    multiply_rows(linear.matrix, linear.rows, EachOutput{channels});
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
