// aten.mean.dim: mean over the dimensions `dim` (all if empty).
#include "compiler/ops/integer.h"
#include "compiler/ops/reduction.h"

namespace dtr::ops {
namespace {

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const auto y = results[0].values<T>();
  std::vector<double> sums(y.size());
  for_each_reduced<T>(view, operands[0], std::span(sums),
                      [](double& sum, T value) { sum += static_cast<double>(value); });
  const double count = static_cast<double>(operands[0].elements()) / static_cast<double>(y.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<T>(sums[i] / count);
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const Quantization& in = *view.operand(0).quantization;
  const Quantization& out = *view.result().quantization;
  const auto y = results[0].values<int8_t>();
  std::vector<int64_t> sums(y.size());
  for_each_reduced<int8_t>(view, operands[0], std::span(sums),
                           [](int64_t& sum, int8_t value) { sum += value; });
  const int64_t count = operands[0].elements() / static_cast<int64_t>(y.size());
  const numerics::OutputStage stage{mean_multiplier(view, count), out.zero_point(), range_of(out)};
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = stage(static_cast<int32_t>(sums[i] - count * in.zero_point()));
}

}  // namespace

constinit const OpDef kMeanDim{
    .name = "aten.mean.dim",
    .summary = "mean over the dimensions `dim`",
    .schema = "(Tensor self, int[] dim, bool keepdim, *, ScalarType? dtype=None | bool qdq=False)",
    .kernel = "aten::mean.out",
    .verify = verify_partial_reduction,
    .infer = infer_reduction,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
