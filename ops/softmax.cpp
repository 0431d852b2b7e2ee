// aten.softmax: exp(x) / Σ exp(x) along `dim`.
#include <cmath>

#include "numerics/softmax.h"
#include "ops/define.h"

namespace dtr::ops {
namespace {

constexpr int64_t kMaxQuantizedExtent = 4096;  // integer bits of the fixed-point sum

Status verify(const OpView& view) {
  DTR_TRY(check_activation(view));
  const Type& x = view.operand(0);
  const int64_t dim = view.attribute<int64_t>("dim");
  if (!normalize_dim(dim, x.rank()))
    return broken(view, fmt::format("`dim` {} is out of range for the operand {}", dim, to_string(x.shape)));
  if (!x.quantized()) return {};
  if (const int64_t extent = x.shape[*normalize_dim(dim, x.rank())]; extent > kMaxQuantizedExtent)
    return broken(view, fmt::format("{} values along `dim` {} of a quantized operand, the sum holds {}", extent, dim, kMaxQuantizedExtent));
  if (!view.results.empty() && (view.result().quantization->scale() != 1.0F / 256 || view.result().quantization->zero_point() != -128))
    return broken(view, "the quantized result does not have scale 1/256 and zero point -128");
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

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const T* x = operands[0].values<T>().data();
  T* y = results[0].values<T>().data();
  for_each_row(view, operands[0].shape, [&](int64_t first, int64_t count, int64_t stride) {
    const int64_t end = first + count * stride;
    T highest = x[first];
    for (int64_t i = first; i < end; i += stride) highest = std::max(highest, x[i]);
    T sum{0};
    for (int64_t i = first; i < end; i += stride) sum += y[i] = std::exp(x[i] - highest);
    for (int64_t i = first; i < end; i += stride) y[i] /= sum;
  });
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const auto parameters = numerics::softmax_parameters(view.operand(0).quantization->scale());
  const int8_t* x = operands[0].values<int8_t>().data();
  int8_t* y = results[0].values<int8_t>().data();
  for_each_row(view, operands[0].shape,
               [&](int64_t first, int64_t count, int64_t stride) { numerics::softmax(x + first, y + first, count, stride, parameters); });
}

constexpr AttributeDef kAttributes[] = {{"dim", AttributeKind::kInt}};

}  // namespace

constinit const OpDef kSoftmax{
    .name = "aten.softmax",
    .summary = "exp(x) / sum of exp(x) along `dim`",
    .attributes = kAttributes,
    .verify = verify,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
