// aten.linear: x · weightᵀ + bias over the last dimension, then the fused activation.
//
// `one_rounding` is set on FULLY_CONNECTED of .tflite files, whose quantized form LiteRT's
// reference kernels round once; all other rescaling, there and here, rounds twice.
#include <algorithm>

#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"
#include "compiler/ops/matmul.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(check_activation(view));
  DTR_TRY(check_fused_activation(view));
  const Shape& x = view.operand(0).shape;
  const Shape& weight = view.operand(1).shape;
  if (x.empty() || weight.size() != 2 || x.back() != weight[1])
    return broken(view, fmt::format("the operand {} and the weight {} do not multiply",
                                    to_string(x), to_string(weight)));
  DTR_TRY(check_weight_and_bias(view, 0, weight[0]));
  Shape result = x;
  result.back() = weight[0];
  return check_result_shape(view, result);
}

std::vector<Type> infer(const OpView& view) {
  std::vector<Type> types = infer_like_first(view);
  types[0].shape.back() = view.operand(1).shape[0];
  return types;
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const int64_t in = operands[1].shape[1];
  const int64_t out = operands[1].shape[0];
  const T* bias = view.has(2) ? operands[2].values<T>().data() : nullptr;
  const RealBounds bounds = activation_bounds(view);
  const auto y = results[0].values<T>();
  multiply_rows(operands[0].values<T>().data(), operands[1].values<T>().data(), y.data(),
                static_cast<int64_t>(y.size()) / std::max<int64_t>(out, 1), out, in);
  for (size_t i = 0; i < y.size(); ++i) {
    const auto o = static_cast<int64_t>(i) % out;
    y[i] = bounds.clamp(y[i] + (bias == nullptr ? T{0} : bias[o]));
  }
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const int64_t in = operands[1].shape[1];
  const int64_t out = operands[1].shape[0];
  const std::vector<int16_t> x = centered_values(view.operand(0), operands[0]);
  const std::vector<int16_t> weight = centered_values(view.operand(1), operands[1]);
  const std::vector<numerics::OutputStage> stages = output_stages(view, out);
  const bool one_rounding = view.argument<bool>("one_rounding");
  const auto y = results[0].values<int8_t>();
  std::vector<uint32_t> sums(y.size());
  multiply_rows(x.data(), weight.data(), sums.data(),
                static_cast<int64_t>(y.size()) / std::max<int64_t>(out, 1), out, in);
  for (size_t i = 0; i < y.size(); ++i) {
    const auto o = static_cast<int64_t>(i) % out;
    const int32_t bias = view.has(2) ? operands[2].values<int32_t>()[static_cast<size_t>(o)] : 0;
    const auto accumulator = static_cast<int32_t>(sums[i] + static_cast<uint32_t>(bias));
    const numerics::OutputStage& stage = stages[static_cast<size_t>(o)];
    y[i] = one_rounding ? stage.with_one_rounding(accumulator) : stage(accumulator);
  }
}

int64_t macs(const OpView& view) { return view.operand(0).elements() * view.operand(1).shape[0]; }

}  // namespace

constinit const OpDef kLinear{
    .name = "aten.linear",
    .summary = "x times the transposed weight, plus bias",
    .schema =
        "(Tensor input, Tensor weight, Tensor? bias | str? activation=None, bool "
        "one_rounding=False, bool qdq=False)",
    .verify = verify,
    .infer = infer,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
    .macs = macs,
};

}  // namespace dtr::ops
