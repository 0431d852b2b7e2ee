// aten::_softmax.out(self, dim, half_to_float, out): exp(x − max) / Σ exp(x − max) along `dim`, and
// aten::_log_softmax.out, its logarithm. Float. deuteron::masked_softmax.out(self, mask, dim, out):
// of the elements alone where the mask of bool, broadcast, is true; the others give 0.
#include <cmath>
#include <limits>

#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

template <bool kLogarithm>
Error softmax(const Tensor& in, int64_t dim, const Tensor* mask, const Tensor& out) {
  if (!same_shape(in, out) || (mask != nullptr && !broadcasts_to(*mask, in)))
    return Error::kKernelArguments;
  if (mask != nullptr && mask->dtype != ScalarType::kBool) return Error::kKernelDtype;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  if (in.rank == 0) {
    if (dim != 0 && dim != -1) return Error::kKernelArguments;
    *out.values<float>() =
        kLogarithm || (mask != nullptr && *mask->values<uint8_t>() == 0) ? 0.0f : 1.0f;
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
  const Strides mask_strides = mask == nullptr ? Strides{} : broadcast_strides(*mask, in.rank);
  const int32_t mask_step = mask_strides.of[axis];
  const auto row = [&](int32_t from, int32_t to, int32_t from_mask) {
    const uint8_t* parts = mask == nullptr ? nullptr : mask->values<uint8_t>() + from_mask;
    const auto takes_part = [&](int32_t i) {
      return parts == nullptr || parts[i * mask_step] != 0;
    };
    const float* x = in.values<float>() + from;
    float* y = out.values<float>() + to;
    float max = -std::numeric_limits<float>::infinity();
    for (int32_t i = 0; i < count; ++i)
      if (takes_part(i)) max = std::max(max, x[i * in_step]);
    float sum = 0;
    for (int32_t i = 0; i < count; ++i) {
      const float e = takes_part(i) ? std::exp(x[i * in_step] - max) : 0.0f;
      y[i * out_step] = e;
      sum += e;
    }
    if (kLogarithm) {
      const float log_of_sum = std::log(sum);
      for (int32_t i = 0; i < count; ++i) y[i * out_step] = x[i * in_step] - max - log_of_sum;
    } else if (sum != 0.0f) {
      for (int32_t i = 0; i < count; ++i) y[i * out_step] /= sum;
    }
  };
  for_each_offset({sizes, in.rank}, row, in_strides, out_strides, mask_strides);
  return Error::kOk;
}

template <bool kLogarithm>
Error softmax(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const int64_t dim = arguments.integer(1);
  const Tensor& out = arguments.output(3);
  return arguments.good() ? softmax<kLogarithm>(in, dim, nullptr, out) : Error::kKernelArguments;
}

}  // namespace

Error softmax_out(std::span<Value* const> values) { return softmax<false>(values); }
Error log_softmax_out(std::span<Value* const> values) { return softmax<true>(values); }
Error masked_softmax_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& mask = arguments.tensor(1);
  const int64_t dim = arguments.integer(2);
  const Tensor& out = arguments.output(3);
  return arguments.good() ? softmax<false>(in, dim, &mask, out) : Error::kKernelArguments;
}

}  // namespace dtr::runtime::portable
