// aten.softmax: exp(x) / Σ exp(x) along `dim`; aten.log_softmax: its logarithm.
#include "ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "ops/define.h"

namespace dtr::ops {
namespace {

Status verify(const OpView& view) {
  DTR_TRY(check_activation(view));
  const Type& x = view.operand(0);
  const int64_t dim = view.attribute<int64_t>("dim");
  if (!normalize_dim(dim, x.rank()))
    return broken(view, fmt::format("`dim` {} is out of range for the operand {}", dim, to_string(x.shape)));
  if (!x.quantized()) return {};
  if (const int64_t extent = x.rank() == 0 ? 1 : x.shape[*normalize_dim(dim, x.rank())]; extent > numerics::kMaxSoftmaxColumns)
    return broken(
        view, fmt::format("{} values along `dim` {} of a quantized operand, the sum holds {}", extent, dim, numerics::kMaxSoftmaxColumns));
  if (view.results.empty()) return {};
  const Quantization& out = *view.result().quantization;
  if (out.qmin != -128 || out.qmax != 127) return broken(view, "the quantized result does not have the range -128 to 127");
  if (view.def != &kLogSoftmax) return {};
  if (out.scale() < numerics::kMinLogSoftmaxScale || x.quantization->scale() > numerics::kMaxLogSoftmaxRatio * out.scale())
    return broken(view, fmt::format("the quantized result has the scale {}, expected at least {} and 1/{} of the operand's, {}",
                                    out.scale(), numerics::kMinLogSoftmaxScale, numerics::kMaxLogSoftmaxRatio, x.quantization->scale()));
  return {};
}

// Calls row(index of the first element, number of elements, stride) for every row along `dim`.
template <class Row>
void for_each_row(const OpView& view, const Shape& shape, Row row) {
  const size_t dim = *normalize_dim(view.attribute<int64_t>("dim"), shape.size());
  const int64_t stride = strides(shape, Layout::kContiguous)[dim];
  const int64_t block = stride * shape[dim];
  if (block == 0) return;
  for (int64_t outer = 0; outer < element_count(shape); outer += block)
    for (int64_t inner = 0; inner < stride; ++inner) row(outer + inner, shape[dim], stride);
}

template <class T, bool kLogarithm>
void evaluate(const OpView& view, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const T* x = operands[0].values<T>().data();
  T* y = results[0].values<T>().data();
  for_each_row(view, operands[0].shape, [&](int64_t first, int64_t count, int64_t stride) {
    const int64_t end = first + count * stride;
    T highest = x[first];
    for (int64_t i = first; i < end; i += stride) highest = std::max(highest, x[i]);
    T sum{0};
    for (int64_t i = first; i < end; i += stride) sum += y[i] = std::exp(x[i] - highest);
    if (kLogarithm) {
      const T log_of_sum = std::log(sum);
      for (int64_t i = first; i < end; i += stride) y[i] = x[i] - highest - log_of_sum;
    } else {
      for (int64_t i = first; i < end; i += stride) y[i] /= sum;
    }
  });
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const numerics::SoftmaxParameters parameters = softmax_parameters(view);
  const auto evaluate_row = view.def == &kLogSoftmax ? numerics::log_softmax : numerics::softmax;
  const int8_t* x = operands[0].values<int8_t>().data();
  int8_t* y = results[0].values<int8_t>().data();
  for_each_row(view, operands[0].shape,
               [&](int64_t first, int64_t count, int64_t stride) { evaluate_row(x + first, y + first, count, stride, parameters); });
}

constexpr AttributeDef kAttributes[] = {{"dim", AttributeKind::kInt}};

}  // namespace

numerics::SoftmaxParameters softmax_parameters(const OpView& view) {
  const float scale = view.operand(0).quantization->scale();
  const Quantization& out = *view.result().quantization;
  return view.def == &kLogSoftmax ? numerics::log_softmax_parameters(scale, out.scale(), out.zero_point())
                                  : numerics::softmax_parameters(scale, out.scale(), out.zero_point());
}

constinit const OpDef kSoftmax{
    .name = "aten.softmax",
    .summary = "exp(x) / sum of exp(x) along `dim`",
    .attributes = kAttributes,
    .verify = verify,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float, false>,
    .evaluate_double = evaluate<double, false>,
    .evaluate_integer = evaluate_integer,
};

constinit const OpDef kLogSoftmax{
    .name = "aten.log_softmax",
    .summary = "logarithm of softmax along `dim`",
    .attributes = kAttributes,
    .verify = verify,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float, true>,
    .evaluate_double = evaluate<double, true>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
