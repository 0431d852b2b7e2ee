// Distances of rows by the p-norm of their difference, float: aten::_cdist_forward.out(x1, x2, p,
// compute_mode, out), (…, P, M) and (…, R, M) to (…, P, R) with broadcasting; and
// aten::_pdist_forward.out(self, p, out), of each pair of rows of a matrix in order. p = 0 counts
// the differences, infinity takes the greatest.
#include <cmath>

#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

struct Row {
  const float* values;
  int32_t step;
};

float distance(const Row& a, const Row& b, int32_t count, float p) {
  float sum = 0;
  for (int32_t i = 0; i < count; ++i) {
    const float d = std::fabs(a.values[i * a.step] - b.values[i * b.step]);
    if (p == 0) {
      sum += d != 0 ? 1.0F : 0.0F;
    } else if (p == 1) {
      sum += d;
    } else if (p == 2) {
      sum += d * d;
    } else if (std::isinf(p)) {
      sum = d > sum || d != d ? d : sum;
    } else {
      sum += std::pow(d, p);
    }
  }
  if (p == 2) return std::sqrt(sum);
  return p == 0 || p == 1 || std::isinf(p) ? sum : std::pow(sum, 1 / p);
}

}  // namespace

Error cdist_forward_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& a = arguments.tensor(0);
  const Tensor& b = arguments.tensor(1);
  const auto p = static_cast<float>(arguments.number(2));
  const Tensor& out = arguments.output(4);
  if (!arguments.good() || !(p >= 0) || a.rank < 2 || b.rank < 2 || a.rank > out.rank ||
      b.rank > out.rank || a.sizes[a.rank - 1] != b.sizes[b.rank - 1] ||
      out.sizes[out.rank - 2] != a.sizes[a.rank - 2] ||
      out.sizes[out.rank - 1] != b.sizes[b.rank - 2])
    return Error::kKernelArguments;
  for (const Tensor* of : {&a, &b, &out}) {
    if (of->dtype != ScalarType::kFloat) return Error::kKernelDtype;
  }
  Strides left, right;  // by dimension of the result
  for (const auto& [of, strides] : {std::pair(&a, &left), std::pair(&b, &right)}) {
    const Strides own = strides_of(*of);
    for (int d = 0; d + 2 < of->rank; ++d) {
      const int at = out.rank - of->rank + d;
      if (of->sizes[d] != 1 && of->sizes[d] != out.sizes[at]) return Error::kKernelArguments;
      if (of->sizes[d] != 1) strides->of[at] = own.of[d];
    }
  }
  const Strides of_a = strides_of(a), of_b = strides_of(b);
  left.of[out.rank - 2] = of_a.of[a.rank - 2];
  right.of[out.rank - 1] = of_b.of[b.rank - 2];
  const int32_t count = a.sizes[a.rank - 1];
  for_each_offset(
      out.shape(),
      [&](int32_t i, int32_t j, int32_t k) {
        out.values<float>()[k] = distance({a.values<float>() + i, of_a.of[a.rank - 1]},
                                          {b.values<float>() + j, of_b.of[b.rank - 1]}, count, p);
      },
      left, right, strides_of(out));
  return Error::kOk;
}

Error pdist_forward_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto p = static_cast<float>(arguments.number(1));
  const Tensor& out = arguments.output(2);
  if (!arguments.good() || !(p >= 0) || in.rank != 2 || out.rank != 1)
    return Error::kKernelArguments;
  const int64_t rows = in.sizes[0];
  if (out.sizes[0] != (rows < 2 ? 0 : rows * (rows - 1) / 2)) return Error::kKernelArguments;
  if (in.dtype != ScalarType::kFloat || out.dtype != ScalarType::kFloat) return Error::kKernelDtype;
  const Strides strides = strides_of(in);
  float* to = out.values<float>();
  for (int32_t i = 0; i < rows; ++i) {
    for (int32_t j = i + 1; j < rows; ++j)
      *to++ = distance({in.values<float>() + i * strides.of[0], strides.of[1]},
                       {in.values<float>() + j * strides.of[0], strides.of[1]}, in.sizes[1], p);
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
