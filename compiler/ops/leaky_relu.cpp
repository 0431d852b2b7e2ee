// aten.leaky_relu: x where it is positive, else negative_slope · x. The quantized form is rounded
// once. With `two_roundings` it is TFLite's LEAKY_RELU: a multiplier for each sign, whose products
// are rounded twice.
#include "compiler/ops/unary.h"
#include "device/numerics/binary.h"

namespace dtr::ops {
namespace {

struct Function {
  double slope;

  explicit Function(const OpView& view) : slope(view.argument<double>("negative_slope")) {}
  template <class T>
  T operator()(T x) const {
    return x > 0 ? x : x * static_cast<T>(slope);
  }
};

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  if (!view.argument<bool>("two_roundings"))
    return evaluate_unary_integer<Function>(view, operands, results);
  constexpr double kMost = 0x1p20;  // beyond it results leave int8 anyway
  const Quantization& in = *view.operand(0).quantization;
  const Quantization& out = *view.result().quantization;
  const auto slope = static_cast<float>(Function(view).slope);
  const numerics::Requantization rising =
      numerics::bounded_multiplier(static_cast<double>(in.scale() / out.scale()), kMost);
  const numerics::Requantization falling = numerics::bounded_multiplier(
      static_cast<double>(in.scale() * std::abs(slope) / out.scale()), kMost);
  const numerics::OutputStage stage{{}, out.zero_point(), range_of(out)};
  std::ranges::transform(
      operands[0].values<int8_t>(), results[0].values<int8_t>().begin(), [&](int8_t q) {
        const int32_t x = q - in.zero_point();
        return stage.finish(x >= 0 ? numerics::requantize(x, rising)
                                   : numerics::requantize(slope < 0 ? -x : x, falling));
      });
}

}  // namespace

constinit const OpDef kLeakyRelu = unary_op<Function>(
    {.name = "aten.leaky_relu",
     .summary = "x where positive, else negative_slope * x",
     .schema = "(Tensor self, Scalar negative_slope=0.01 | bool two_roundings=False)",
     .evaluate_integer = evaluate_integer});

}  // namespace dtr::ops
