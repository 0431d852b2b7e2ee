// deuteron::quantized_normalize.out(input, form [a, b, c, d, step_b], center, zero_point, epsilon,
// gains, offsets, gain_shift, output_zero_point, activation_min, activation_max, out): layer, group
// and root-mean-square normalization as device/numerics/normalize.h defines them. A row is (c, d)
// of (a, b, c, d); gain and offset of an element are the entries b · step_b + c. int8, contiguous.
#include "device/numerics/normalize.h"

#include "device/runtime/kernels/cortex_m/image.h"
#include "device/runtime/kernels/cortex_m/kernels.h"

namespace dtr::runtime::cortex_m {

Error quantized_normalize_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto form = arguments.ints(1);
  const bool center = arguments.flag(2);
  const int64_t zero_point = arguments.integer(3), epsilon = arguments.integer(4);
  const Tensor& gains = arguments.tensor(5);
  const Tensor& offsets = arguments.tensor(6);
  const int64_t shift = arguments.integer(7), output_zero_point = arguments.integer(8);
  const int64_t low = arguments.integer(9), high = arguments.integer(10);
  const Tensor& out = arguments.output(11);
  Finish finish;
  if (!arguments.good() || form.size() != 5 || !is_code(zero_point) || epsilon < 0 ||
      epsilon > int64_t{1} << 61 || shift < 0 || shift > 40 ||
      !read_finish(output_zero_point, low, high, &finish) || !same_shape(in, out) ||
      !is_contiguous(in) || !is_contiguous(out)) {
    return Error::kKernelArguments;
  }
  // Sums of a row bound its quotients: it may be written in place, but not before all of it is
  // read.
  if (in.data != out.data && !is_disjoint(in, out.data, static_cast<int64_t>(out.bytes())))
    return Error::kKernelArguments;
  if (in.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar ||
      gains.dtype != ScalarType::kInt || offsets.dtype != ScalarType::kInt) {
    return Error::kKernelDtype;
  }
  const int64_t a = form[0], b = form[1], c = form[2], d = form[3], step = form[4];
  for (const int64_t extent : form) {
    if (extent < 0 || extent > INT32_MAX) return Error::kKernelArguments;
  }
  const int64_t rows = a * b, count = c * d;
  if (count < 1 || count > numerics::kMaxNormalizeElements || rows > INT32_MAX ||
      static_cast<int64_t>(in.elements()) != rows * count ||
      gains.elements() != offsets.elements() ||
      (b - 1) * step + c > static_cast<int64_t>(gains.elements())) {
    return Error::kKernelArguments;
  }
  const numerics::NormalizeRow parameters{center, static_cast<int32_t>(zero_point),
                                          static_cast<uint64_t>(epsilon)};
  const int8_t* x = in.values<int8_t>();
  int8_t* y = out.values<int8_t>();
  const auto zero = static_cast<int32_t>(zero_point);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t sum = 0;
    uint64_t squares = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t difference = x[i] - zero;
      sum += difference;
      squares += static_cast<uint64_t>(difference * difference);
    }
    const numerics::NormalizedRow normalized(parameters, count, sum, squares);
    for (int64_t channel = 0; channel < c; ++channel) {
      const int64_t index = row % b * step + channel;
      const numerics::NormalizeParameter parameter{gains.values<int32_t>()[index],
                                                   offsets.values<int32_t>()[index]};
      for (int64_t i = 0; i < d; ++i) {
        *y++ = normalized(*x++ - zero, parameter, static_cast<int>(shift), finish.zero_point,
                          {finish.low, finish.high});
      }
    }
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
