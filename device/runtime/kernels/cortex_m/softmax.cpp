// cortex_m::softmax.out(input, dim, input_zero_point, output_zero_point, input_multiplier,
// input_shift, diff_min, out): the result has scale 1/256 and zero point −128.
// deuteron::quantized_softmax.out(input, dim, mask?, input_multiplier, input_shift, diff_min,
// result_multiplier, result_shift, output_zero_point, out): any quantization of the result; `mask`
// holds a byte for every element of every row, rows in the order of their first elements in memory:
// 0 takes no part. deuteron::quantized_log_softmax.out(input, dim, input_multiplier, input_shift,
// diff_min, result_multiplier, result_shift, difference_multiplier, difference_shift,
// output_zero_point, out). Arithmetic: device/numerics/softmax.h. int8, any order, the same for
// both.
#include "device/numerics/softmax.h"

#include "device/runtime/kernels/cortex_m/image.h"
#include "device/runtime/kernels/cortex_m/kernels.h"
#include "device/runtime/kernels/portable/elements.h"

namespace dtr::runtime::cortex_m {
namespace {

// Calls row(offset of the first element) for every row along `axis`.
template <class Row>
void for_each_row(const Tensor& tensor, int axis, const portable::Strides& strides, Row row) {
  if (is_empty(tensor)) return;
  int32_t sizes[kMaxRank];
  std::copy_n(tensor.sizes, tensor.rank, sizes);
  sizes[axis] = 1;
  portable::for_each_offset({sizes, tensor.rank}, row, strides);
}

struct Rows {
  const Tensor* in = nullptr;
  const Tensor* out = nullptr;
  int axis = 0;
  int32_t count = 0, stride = 0;
  portable::Strides strides;
};

Error read_rows(const Tensor& in, int64_t dim, const Tensor& out, Rows* rows) {
  if (!same_shape(in, out) || !same_order(in, out) || in.rank == 0) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar) return Error::kKernelDtype;
  const int axis = portable::wrap_dim(dim, in.rank);
  if (axis < 0 || in.sizes[axis] > numerics::kMaxSoftmaxColumns) return Error::kKernelArguments;
  *rows = {&in, &out, axis, in.sizes[axis], 0, portable::strides_of(in)};
  rows->stride = rows->strides.of[axis];
  return Error::kOk;
}

bool read_exponent(Arguments& arguments, size_t index, numerics::SoftmaxParameters* by) {
  const int64_t multiplier = arguments.integer(index), shift = arguments.integer(index + 1),
                least = arguments.integer(index + 2);
  by->to_exponent = {static_cast<int32_t>(multiplier), static_cast<int32_t>(shift)};
  by->difference_min = static_cast<int32_t>(std::max<int64_t>(least, -256));
  return good_rescaling(multiplier, shift) && least <= 0;
}

bool read_rescaling(Arguments& arguments, size_t index, numerics::Requantization* by) {
  const int64_t multiplier = arguments.integer(index), shift = arguments.integer(index + 1);
  *by = {static_cast<int32_t>(multiplier), static_cast<int32_t>(shift)};
  return good_rescaling(multiplier, shift);
}

void run_softmax(const Rows& rows, const numerics::SoftmaxParameters& by, const int8_t* mask) {
  for_each_row(*rows.in, rows.axis, rows.strides, [&](int32_t at) {
    numerics::softmax(rows.in->values<int8_t>() + at, rows.out->values<int8_t>() + at, rows.count,
                      rows.stride, by, mask);
    if (mask != nullptr) mask += rows.count;
  });
}

}  // namespace

Error softmax_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1), zero_point = arguments.integer(3);
  numerics::SoftmaxParameters by = numerics::softmax_parameters(1);
  const bool good = read_exponent(arguments, 4, &by);
  const Tensor& out = arguments.output(7);
  Rows rows;
  if (!arguments.good() || !good || zero_point != by.zero_point) return Error::kKernelArguments;
  if (const Error error = read_rows(in, dim, out, &rows); error != Error::kOk) return error;
  run_softmax(rows, by, nullptr);
  return Error::kOk;
}

Error quantized_softmax_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const Tensor* mask = arguments.optional_tensor(2);
  numerics::SoftmaxParameters by;
  bool good = read_exponent(arguments, 3, &by);
  good &= read_rescaling(arguments, 6, &by.to_result);
  const int64_t zero_point = arguments.integer(8);
  by.zero_point = static_cast<int32_t>(zero_point);
  const Tensor& out = arguments.output(9);
  Rows rows;
  if (!arguments.good() || !good || !is_code(zero_point)) return Error::kKernelArguments;
  if (const Error error = read_rows(in, dim, out, &rows); error != Error::kOk) return error;
  if (mask != nullptr && mask->bytes() != in.bytes()) return Error::kKernelArguments;
  run_softmax(rows, by, mask == nullptr ? nullptr : mask->values<int8_t>());
  return Error::kOk;
}

Error quantized_log_softmax_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  numerics::SoftmaxParameters by;
  bool good = read_exponent(arguments, 2, &by);
  good &= read_rescaling(arguments, 5, &by.to_result) &&
          read_rescaling(arguments, 7, &by.to_difference);
  const int64_t zero_point = arguments.integer(9);
  by.zero_point = static_cast<int32_t>(zero_point);
  const Tensor& out = arguments.output(10);
  Rows rows;
  if (!arguments.good() || !good || !is_code(zero_point)) return Error::kKernelArguments;
  if (const Error error = read_rows(in, dim, out, &rows); error != Error::kOk) return error;
  for_each_row(in, rows.axis, rows.strides, [&](int32_t at) {
    numerics::log_softmax(in.values<int8_t>() + at, out.values<int8_t>() + at, rows.count,
                          rows.stride, by);
  });
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
