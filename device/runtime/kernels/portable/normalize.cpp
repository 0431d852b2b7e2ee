// aten::native_layer_norm.out(input, normalized_shape, weight, bias, eps, out, mean, rstd),
// aten::native_group_norm.out(input, weight, bias, N, C, HxW, group, eps, out, mean, rstd) and
// aten::rms_norm.out(input, normalized_shape, weight, eps, out). Float.
#include <cmath>

#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

// The elements of a row, as loops; a weight or bias that is absent is null.
struct Row {
  int32_t sizes[kMaxRank] = {};
  int rank = 0;
  Strides in, out, parameters;
};

struct Moments {
  float mean = 0, factor = 0;  // 1 / √(variance + eps)
};

// Writes one row, normalized; `center`: minus the mean.
Moments normalize_row(const Row& row, const float* x, float* y, const float* weight,
                      const float* bias, float eps, bool center) {
  const std::span<const int32_t> sizes(row.sizes, static_cast<size_t>(row.rank));
  float count = 1;
  for (const int32_t size : sizes) count *= static_cast<float>(size);
  Moments moments;
  if (center) {
    for_each_offset(
        sizes, [&](int32_t at) { moments.mean += x[at]; }, row.in);
    moments.mean /= count;
  }
  float squares = 0;
  for_each_offset(
      sizes, [&](int32_t at) { squares += (x[at] - moments.mean) * (x[at] - moments.mean); },
      row.in);
  moments.factor = 1.0f / std::sqrt(squares / count + eps);
  const auto finish = [&](int32_t from, int32_t to, int32_t parameter) {
    const float value = (x[from] - moments.mean) * moments.factor;
    y[to] = value * (weight == nullptr ? 1.0f : weight[parameter]) +
            (bias == nullptr ? 0.0f : bias[parameter]);
  };
  for_each_offset(sizes, finish, row.in, row.out, row.parameters);
  return moments;
}

bool is_float(const Tensor* tensor) {
  return tensor == nullptr || tensor->dtype == ScalarType::kFloat;
}
const float* values_of(const Tensor* tensor) {
  return tensor == nullptr ? nullptr : tensor->values<float>();
}

// Over the last dimensions; `mean` and `rstd` may be null.
Error normalize_last(const Tensor& in, std::span<const int64_t> shape, const Tensor* weight,
                     const Tensor* bias, float eps, bool center, const Tensor& out,
                     const Tensor* mean, const Tensor* rstd) {
  if (!same_shape(in, out) || shape.empty() || shape.size() > in.rank)
    return Error::kKernelArguments;
  const auto outer = static_cast<int>(in.rank - shape.size());
  for (int i = outer; i < in.rank; ++i)
    if (in.sizes[i] != shape[static_cast<size_t>(i - outer)]) return Error::kKernelArguments;
  for (const Tensor* parameter : {weight, bias}) {
    if (parameter == nullptr) continue;
    if (parameter->rank != shape.size() ||
        !std::equal(parameter->sizes, parameter->sizes + parameter->rank, in.sizes + outer))
      return Error::kKernelArguments;
  }
  if (!is_float(&in) || !is_float(&out) || !is_float(weight) || !is_float(bias) ||
      !is_float(mean) || !is_float(rstd))
    return Error::kKernelDtype;
  const Strides in_strides = strides_of(in);
  const Strides out_strides = strides_of(out);
  Row row;
  row.rank = in.rank - outer;
  int32_t place = 1;
  for (int i = row.rank; i-- > 0;) {
    row.sizes[i] = in.sizes[outer + i];
    row.in.of[i] = in_strides.of[outer + i];
    row.out.of[i] = out_strides.of[outer + i];
    row.parameters.of[i] = place;
    place *= row.sizes[i];
  }
  size_t rows = 1;
  for (int i = 0; i < outer; ++i) rows *= static_cast<size_t>(in.sizes[i]);
  for (const Tensor* moments : {mean, rstd})
    if (moments != nullptr && moments->elements() != rows) return Error::kKernelArguments;
  if (mean == nullptr && rstd == nullptr && is_empty(out)) return Error::kOk;
  size_t index = 0;
  const auto visit = [&](int32_t from, int32_t to) {
    const Moments moments = normalize_row(row, in.values<float>() + from, out.values<float>() + to,
                                          values_of(weight), values_of(bias), eps, center);
    if (mean != nullptr) mean->values<float>()[index] = moments.mean;
    if (rstd != nullptr) rstd->values<float>()[index] = moments.factor;
    ++index;
  };
  for_each_offset({in.sizes, static_cast<size_t>(outer)}, visit, in_strides, out_strides);
  return Error::kOk;
}

}  // namespace

Error native_layer_norm_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const std::span<const int64_t> shape = arguments.ints(1);
  const Tensor* weight = arguments.optional_tensor(2);
  const Tensor* bias = arguments.optional_tensor(3);
  const auto eps = static_cast<float>(arguments.number(4));
  const Tensor& out = arguments.output(5);
  const Tensor& mean = arguments.output(6);
  const Tensor& rstd = arguments.output(7);
  if (!arguments.good()) return Error::kKernelArguments;
  return normalize_last(in, shape, weight, bias, eps, true, out, &mean, &rstd);
}

Error rms_norm_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const std::span<const int64_t> shape = arguments.ints(1);
  const Tensor* weight = arguments.optional_tensor(2);
  const auto eps = static_cast<float>(arguments.number_or(3, 0x1p-23));
  const Tensor& out = arguments.output(4);
  if (!arguments.good()) return Error::kKernelArguments;
  return normalize_last(in, shape, weight, nullptr, eps, false, out, nullptr, nullptr);
}

Error native_group_norm_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor* weight = arguments.optional_tensor(1);
  const Tensor* bias = arguments.optional_tensor(2);
  const int64_t batch = arguments.integer(3), channels = arguments.integer(4),
                pixels = arguments.integer(5), groups = arguments.integer(6);
  const auto eps = static_cast<float>(arguments.number(7));
  const Tensor& out = arguments.output(8);
  const Tensor& mean = arguments.output(9);
  const Tensor& rstd = arguments.output(10);
  if (!arguments.good() || !same_shape(in, out) || in.rank < 2 || in.sizes[0] != batch ||
      in.sizes[1] != channels || groups < 1 || groups > INT32_MAX || channels % groups != 0 ||
      pixels < 0 || pixels > INT32_MAX ||
      static_cast<int64_t>(in.elements()) != batch * channels * pixels) {
    return Error::kKernelArguments;
  }
  for (const Tensor* parameter : {weight, bias})
    if (parameter != nullptr && (parameter->rank != 1 || parameter->sizes[0] != channels))
      return Error::kKernelArguments;
  for (const Tensor* moments : {&mean, &rstd})
    if (static_cast<int64_t>(moments->elements()) != batch * groups) return Error::kKernelArguments;
  if (!is_float(&in) || !is_float(&out) || !is_float(weight) || !is_float(bias) ||
      !is_float(&mean) || !is_float(&rstd))
    return Error::kKernelDtype;
  const Strides in_strides = strides_of(in);
  const Strides out_strides = strides_of(out);
  Row row;
  row.rank = in.rank - 1;
  for (int i = 0; i < row.rank; ++i) {
    row.sizes[i] = in.sizes[i + 1];
    row.in.of[i] = in_strides.of[i + 1];
    row.out.of[i] = out_strides.of[i + 1];
  }
  const auto per_group = static_cast<int32_t>(channels / groups);
  row.sizes[0] = per_group;
  row.parameters.of[0] = 1;
  for (int32_t n = 0; n < batch; ++n) {
    for (int32_t g = 0; g < groups; ++g) {
      const int32_t first = g * per_group;
      const float* const x = in.values<float>() + n * in_strides.of[0] + first * in_strides.of[1];
      float* const y = out.values<float>() + n * out_strides.of[0] + first * out_strides.of[1];
      const Moments moments =
          normalize_row(row, x, y, weight == nullptr ? nullptr : weight->values<float>() + first,
                        bias == nullptr ? nullptr : bias->values<float>() + first, eps, true);
      mean.values<float>()[n * groups + g] = moments.mean;
      rstd.values<float>()[n * groups + g] = moments.factor;
    }
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
