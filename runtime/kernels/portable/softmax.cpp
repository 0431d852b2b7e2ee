// aten::_softmax.out(self, dim, half_to_float, out): exp(x − max) / Σ exp(x − max) along `dim`, and aten::_log_softmax.out, its logarithm.
// Float.
#include <cmath>

#include "runtime/kernels/portable/elements.h"
#include "runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

template <bool kLogarithm>
Error softmax(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const Tensor& out = arguments.output(3);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  if (in.rank == 0) {
    if (dim != 0 && dim != -1) return Error::kKernelArguments;
    *out.values<float>() = kLogarithm ? 0.0f : 1.0f;
    return Error::kOk;
  }
  const int axis = wrap_dim(dim, in.rank);
  if (axis < 0) return Error::kKernelArguments;
  const Strides in_strides = strides_of(in);
  const Strides out_strides = strides_of(out);
  const int32_t count = in.sizes[axis];
  const int32_t in_step = in_strides.of[axis];
  const int32_t out_step = out_strides.of[axis];
  int32_t sizes[kMaxRank];
  std::copy_n(in.sizes, in.rank, sizes);
  sizes[axis] = count == 0 ? 0 : 1;
  const auto row = [&](int32_t from, int32_t to) {
    const float* x = in.values<float>() + from;
    float* y = out.values<float>() + to;
    float max = x[0];
    for (int32_t i = 1; i < count; ++i) max = std::max(max, x[i * in_step]);
    float sum = 0;
    for (int32_t i = 0; i < count; ++i) {
      const float e = std::exp(x[i * in_step] - max);
      y[i * out_step] = e;
      sum += e;
    }
    if (kLogarithm) {
      const float log_of_sum = std::log(sum);
      for (int32_t i = 0; i < count; ++i) y[i * out_step] = x[i * in_step] - max - log_of_sum;
    } else {
      for (int32_t i = 0; i < count; ++i) y[i * out_step] /= sum;
    }
  };
  for_each_offset({sizes, in.rank}, row, in_strides, out_strides);
  return Error::kOk;
}

}  // namespace

Error softmax_out(std::span<Value* const> values) { return softmax<false>(values); }
Error log_softmax_out(std::span<Value* const> values) { return softmax<true>(values); }

}  // namespace dtr::runtime::portable
