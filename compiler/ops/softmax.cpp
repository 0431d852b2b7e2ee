// aten.softmax: exp(x) / Σ exp(x) along `dim`; aten.log_softmax: its logarithm. With a mask of bool
// (operand 1, broadcast), only elements where it is true take part; the others give 0, and all of a
// row without any, as PyTorch's attention does.
#include "compiler/ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/broadcast.h"
#include "compiler/ops/define.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(check_activation(view));
  const Type& x = view.operand(0);
  const int64_t dim = view.attribute<int64_t>("dim");
  if (!normalize_dim(dim, x.rank()))
    return broken(
        view, fmt::format("`dim` {} is out of range for the operand {}", dim, to_string(x.shape)));
  if (view.has(1)) {
    const Type& mask = view.operand(1);
    if (mask.dtype != DType::kBool)
      return broken(view, fmt::format("the mask is {}, expected bool", name(mask.dtype)));
    if (broadcast_shape(mask.shape, x.shape) != x.shape)
      return broken(view, fmt::format("the mask of shape {} does not broadcast to {}",
                                      to_string(mask.shape), to_string(x.shape)));
  }
  if (!x.quantized()) return {};
  if (const int64_t extent = x.rank() == 0 ? 1 : x.shape[*normalize_dim(dim, x.rank())];
      extent > numerics::kMaxSoftmaxColumns)
    return broken(view,
                  fmt::format("{} values along `dim` {} of a quantized operand, the sum holds {}",
                              extent, dim, numerics::kMaxSoftmaxColumns));
  if (view.results.empty()) return {};
  const Quantization& out = *view.result().quantization;
  if (out.qmin != -128 || out.qmax != 127)
    return broken(view, "the quantized result does not have the range -128 to 127");
  if (view.def != &kLogSoftmax) return {};
  if (out.scale() < numerics::kMinLogSoftmaxScale ||
      x.quantization->scale() > numerics::kMaxLogSoftmaxRatio * out.scale())
    return broken(view, fmt::format("the quantized result has the scale {}, expected at least {} "
                                    "and 1/{} of the operand's, {}",
                                    out.scale(), numerics::kMinLogSoftmaxScale,
                                    numerics::kMaxLogSoftmaxRatio, x.quantization->scale()));
  return {};
}

// Calls row(index of the first element, number of elements, stride) for every row along `dim`.
template <class Row>
void for_each_row(const OpView& view, const Shape& shape, Row row) {
  const int64_t wanted = view.attribute<int64_t>("dim");
  const size_t dim = *normalize_dim(wanted, shape.size());
  const int64_t stride = strides(shape, Layout::kContiguous)[dim];
  const int64_t block = stride * shape[dim];
  if (block == 0) return;
  for (int64_t outer = 0; outer < element_count(shape); outer += block)
    for (int64_t inner = 0; inner < stride; ++inner) row(outer + inner, shape[dim], stride);
}

// Which elements take part.
std::vector<int8_t> taking_part(std::span<const TensorView> operands) {
  if (operands.size() < 2)
    return std::vector<int8_t>(static_cast<size_t>(operands[0].elements()), 1);
  return expand_mask(operands[1], operands[0].shape);
}

template <class T, bool kLogarithm>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const T* x = operands[0].values<T>().data();
  T* y = results[0].values<T>().data();
  const std::vector<int8_t> mask = taking_part(operands);
  for_each_row(view, operands[0].shape, [&](int64_t first, int64_t count, int64_t stride) {
    const int64_t end = first + count * stride;
    const auto takes_part = [&](int64_t i) { return mask[static_cast<size_t>(i)] != 0; };
    T highest = -std::numeric_limits<T>::infinity();
    for (int64_t i = first; i < end; i += stride)
      if (takes_part(i)) highest = std::max(highest, x[i]);
    T sum{0};
    for (int64_t i = first; i < end; i += stride)
      sum += y[i] = takes_part(i) ? std::exp(x[i] - highest) : T{0};
    if (kLogarithm) {
      const T log_of_sum = std::log(sum);
      for (int64_t i = first; i < end; i += stride) y[i] = x[i] - highest - log_of_sum;
    } else if (sum != 0) {
      for (int64_t i = first; i < end; i += stride) y[i] /= sum;
    }
  });
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const numerics::SoftmaxParameters parameters = softmax_parameters(view);
  const int8_t* x = operands[0].values<int8_t>().data();
  int8_t* y = results[0].values<int8_t>().data();
  if (view.def == &kLogSoftmax) {
    for_each_row(view, operands[0].shape, [&](int64_t first, int64_t count, int64_t stride) {
      numerics::log_softmax(x + first, y + first, count, stride, parameters);
    });
    return;
  }
  const std::vector<int8_t> mask = taking_part(operands);
  std::vector<int8_t> row;
  for_each_row(view, operands[0].shape, [&](int64_t first, int64_t count, int64_t stride) {
    row.clear();
    for (int64_t i = 0; i < count; ++i)
      row.push_back(mask[static_cast<size_t>(first + i * stride)]);
    numerics::softmax(x + first, y + first, count, stride, parameters, row.data());
  });
}

}  // namespace

numerics::SoftmaxParameters softmax_parameters(const OpView& view) {
  const float scale = view.operand(0).quantization->scale();
  const Quantization& out = *view.result().quantization;
  return view.def == &kLogSoftmax
             ? numerics::log_softmax_parameters(scale, out.scale(), out.zero_point())
             : numerics::softmax_parameters(scale, out.scale(), out.zero_point());
}

std::vector<int8_t> expand_mask(const TensorView& mask, const Shape& shape) {
  std::vector<int8_t> expanded(static_cast<size_t>(element_count(shape)));
  const uint8_t* from = mask.values<uint8_t>().data();
  for_each_broadcast_row(
      mask.shape, shape, shape,
      [&](int64_t at, int64_t at_mask, int64_t, int64_t count, int64_t step, int64_t) {
        for (int64_t i = 0; i < count; ++i)
          expanded[static_cast<size_t>(at + i)] = from[at_mask + i * step] != 0 ? 1 : 0;
      });
  return expanded;
}

constinit const OpDef kSoftmax{
    .name = "aten.softmax",
    .summary = "exp(x) / sum of exp(x) along `dim`, perhaps of those that a mask names",
    .schema = "(Tensor self, int dim | Tensor? mask)",
    .verify = verify,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float, false>,
    .evaluate_double = evaluate<double, false>,
    .evaluate_integer = evaluate_integer,
};

constinit const OpDef kLogSoftmax{
    .name = "aten.log_softmax",
    .summary = "logarithm of softmax along `dim`",
    .schema = "(Tensor self, int dim)",
    .verify = verify,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float, true>,
    .evaluate_double = evaluate<double, true>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
