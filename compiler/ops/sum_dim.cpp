// aten.sum.dim_IntList: sum over the dimensions `dim` (all if empty), of integers and bools in
// int64. `of_bytes` is what LiteRT's
// SUM makes of int8: its elements and its result are the bytes read as unsigned numbers
// (docs/numerics.md); only the .tflite reader sets it.
#include "compiler/ops/integer.h"
#include "compiler/ops/reduction.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(verify_reduction(view));
  if (view.argument<bool>("of_bytes") && !view.operand(0).quantized())
    return broken(view, "`of_bytes` is for quantized operands");
  return {};
}

std::vector<Type> infer(const OpView& view) {
  std::vector<Type> types = infer_reduction(view);
  if (is_integral(view.operand(0))) types[0].dtype = DType::kInt64;
  return types;
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  if (!is_float(operands[0].dtype)) return sum_integers(view, operands[0], results[0]);
  const auto y = results[0].values<T>();
  std::vector<double> sums(y.size());
  for_each_reduced<T>(view, operands[0], std::span(sums),
                      [](double& sum, T value) { sum += static_cast<double>(value); });
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<T>(sums[i]);
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const Quantization& in = *view.operand(0).quantization;
  const Quantization& out = *view.result().quantization;
  const auto y = results[0].values<int8_t>();
  const bool bytes = view.argument<bool>("of_bytes");
  std::vector<int64_t> sums(y.size());
  for_each_reduced<int8_t>(view, operands[0], std::span(sums), [&](int64_t& sum, int8_t value) {
    sum += (bytes ? static_cast<uint8_t>(value) : int32_t{value}) - in.zero_point();
  });
  const numerics::OutputStage stage{mean_multiplier(view, 1), out.zero_point(),
                                    bytes ? numerics::Range{0, 255} : range_of(out)};
  for (size_t i = 0; i < y.size(); ++i)
    y[i] = stage(static_cast<int32_t>(std::clamp<int64_t>(sums[i], INT32_MIN, INT32_MAX)));
}

}  // namespace

constinit const OpDef kSumDim{
    .name = "aten.sum.dim_IntList",
    .summary = "sum over the dimensions `dim`",
    .schema =
        "(Tensor self, int[] dim, bool keepdim, *, ScalarType? dtype=None | bool of_bytes=False, "
        "bool qdq=False)",
    .traits = kOnIntegers,
    .kernel = "aten::sum.IntList_out",
    .verify = verify,
    .infer = infer,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
