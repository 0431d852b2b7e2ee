// aten::var.out(self, dim, unbiased, keepdim, out), aten::var.correction_out(self, dim, correction,
// keepdim, out) and aten::var_mean.correction_out(self, dim, correction, keepdim, variance, mean):
// the mean of squared differences from the mean, with count − correction as its divisor; float.
#include <limits>

#include "device/runtime/kernels/portable/kernels.h"
#include "device/runtime/kernels/portable/reduce.h"

namespace dtr::runtime::portable {
namespace {

// `means` may be null.
Error variance(const Tensor& in, std::span<const int64_t> dims, double correction, bool keepdim,
               const Tensor& out, const Tensor* means) {
  Reduction reduction, of_means;
  if (!make_reduction(in, dims, keepdim, out, &reduction) ||
      (means != nullptr && !make_reduction(in, dims, keepdim, *means, &of_means)))
    return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat ||
      (means != nullptr && means->dtype != ScalarType::kFloat))
    return Error::kKernelDtype;
  const auto count = static_cast<float>(reduction.count);
  const auto divisor =
      static_cast<float>(std::max(static_cast<double>(reduction.count) - correction, 0.0));
  for_each_offset(
      {reduction.outer, in.rank},
      [&](int32_t from, int32_t to, int32_t to_mean) {
        const auto sum = [&](auto f) {
          float total = 0;
          for_each_offset(
              {reduction.inner, in.rank},
              [&](int32_t at) { total += f(in.values<float>()[from + at]); }, reduction.in_strides);
          return total;
        };
        const float mean = sum([](float x) { return x; }) / count;
        const float squares = sum([mean](float x) { return (x - mean) * (x - mean); });
        out.values<float>()[to] = squares / divisor;
        if (means != nullptr) means->values<float>()[to_mean] = mean;
      },
      reduction.in_strides, reduction.out_strides, of_means.out_strides);
  return Error::kOk;
}

}  // namespace

Error var_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = dims_or_all(arguments, 1);
  const bool unbiased = arguments.flag(2);
  const bool keepdim = arguments.flag(3);
  const Tensor& out = arguments.output(4);
  return arguments.good() ? variance(in, dims, unbiased ? 1 : 0, keepdim, out, nullptr)
                          : Error::kKernelArguments;
}

Error var_correction_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = dims_or_all(arguments, 1);
  const double correction = arguments.number_or(2, 1);
  const bool keepdim = arguments.flag(3);
  const Tensor& out = arguments.output(4);
  return arguments.good() ? variance(in, dims, correction, keepdim, out, nullptr)
                          : Error::kKernelArguments;
}

Error var_mean_correction_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = dims_or_all(arguments, 1);
  const double correction = arguments.number_or(2, 1);
  const bool keepdim = arguments.flag(3);
  const Tensor& out = arguments.output(4);
  const Tensor& means = arguments.output(5);
  return arguments.good() ? variance(in, dims, correction, keepdim, out, &means)
                          : Error::kKernelArguments;
}

}  // namespace dtr::runtime::portable
