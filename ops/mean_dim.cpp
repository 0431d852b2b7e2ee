// aten.mean.dim: mean over the dimensions `dim` (all if empty).
#include "numerics/mean.h"
#include "ops/define.h"
#include "ops/integer.h"

namespace dtr::ops {
namespace {

// Which dimensions are reduced; nullopt if `dim` is out of range or names one twice.
std::optional<std::vector<bool>> reduced_dims(const OpView& view) {
  const size_t rank = view.operand(0).rank();
  const Ints& dims = view.attribute<Ints>("dim");
  std::vector<bool> reduced(rank, dims.empty());
  for (const int64_t dim : dims) {
    const auto normalized = normalize_dim(dim, rank);
    if (!normalized || reduced[*normalized]) return std::nullopt;
    reduced[*normalized] = true;
  }
  return reduced;
}

Status verify(const OpView& view) {
  DTR_TRY(check_activation(view));
  if (!reduced_dims(view))
    return broken(view, fmt::format("`dim` is out of range or repeats for an operand of rank {}", view.operand(0).rank()));
  if (view.operand(0).elements() == 0) return broken(view, "the operand has no elements");
  return {};
}

std::vector<Type> infer(const OpView& view) {
  const std::vector<bool> reduced = *reduced_dims(view);
  const Shape& shape = view.operand(0).shape;
  Type type{.dtype = view.operand(0).dtype};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!reduced[i]) {
      type.shape.push_back(shape[i]);
    } else if (view.attribute<bool>("keepdim")) {
      type.shape.push_back(1);
    }
  }
  return {type};
}

// Adds every element of x to the sum of its output; `sums` has one entry an output, in order.
template <class T, class Sum>
void accumulate(const OpView& view, const TensorView& operand, std::span<Sum> sums) {
  const std::vector<bool> reduced = *reduced_dims(view);
  const Shape& shape = operand.shape;
  std::vector<int64_t> step(shape.size());  // stride in the result, 0 along reduced dimensions
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    step[i] = reduced[i] ? 0 : stride;
    if (!reduced[i]) stride *= shape[i];
  }
  Shape index(shape.size(), 0);
  int64_t at = 0;
  for (const T value : operand.values<T>()) {
    sums[static_cast<size_t>(at)] += value;
    for (size_t dim = shape.size(); dim-- > 0;) {
      at += step[dim];
      if (++index[dim] < shape[dim]) break;
      at -= step[dim] * shape[dim];
      index[dim] = 0;
    }
  }
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const auto y = results[0].values<T>();
  std::vector<double> sums(y.size());
  accumulate<T, double>(view, operands[0], sums);
  const double count = static_cast<double>(operands[0].elements()) / static_cast<double>(y.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<T>(sums[i] / count);
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands, std::span<const TensorView> results) {
  const Quantization& in = *view.operand(0).quantization;
  const Quantization& out = *view.result().quantization;
  const auto y = results[0].values<int8_t>();
  std::vector<int64_t> sums(y.size());
  accumulate<int8_t, int64_t>(view, operands[0], sums);
  const int64_t count = operands[0].elements() / static_cast<int64_t>(y.size());
  const numerics::OutputStage stage{numerics::mean_requantization(in.scale(), out.scale(), count), out.zero_point(), range_of(out)};
  for (size_t i = 0; i < y.size(); ++i) y[i] = stage(static_cast<int32_t>(sums[i] - count * in.zero_point()));
}

constexpr AttributeDef kAttributes[] = {{"dim", AttributeKind::kInts}, {"keepdim", AttributeKind::kBool}};

}  // namespace

constinit const OpDef kMeanDim{
    .name = "aten.mean.dim",
    .summary = "mean over the dimensions `dim`",
    .attributes = kAttributes,
    .verify = verify,
    .infer = infer,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
