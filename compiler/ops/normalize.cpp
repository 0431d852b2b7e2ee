// aten.layer_norm, aten.rms_norm (over the last dimensions) and aten.group_norm (over groups of
// channels and all that is behind them; as many groups as channels make it an instance norm):
// operands x, weight?, bias?. The integer form keeps weight and bias in float until they are
// rounded to fixed point: device/numerics/normalize.h.
#include "compiler/ops/normalize.h"

#include <cmath>

#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"

namespace dtr::ops {
namespace {

Result<void> check_parameters(const OpView& view, const Shape& shape) {
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (!view.has(i)) continue;
    const Type& parameter = view.operand(i);
    const bool fits = is_float(parameter.dtype) &&
                      (view.operand(0).quantized() || parameter.dtype == view.operand(0).dtype);
    if (!fits || parameter.quantized() || parameter.shape != shape)
      return broken(
          view, fmt::format("operand {} is {} of shape {}, expected float of shape {}", i,
                            name(parameter.dtype), to_string(parameter.shape), to_string(shape)));
  }
  const double eps = view.attribute<double>("eps");
  if (!(eps >= 0) || std::isinf(eps)) return broken(view, fmt::format("`eps` is {}", eps));
  const int64_t count = normalize_shape(view).count();
  if (count == 0) return broken(view, "a row has no elements");
  if (view.operand(0).quantized() && count > numerics::kMaxNormalizeElements)
    return broken(view, fmt::format("{} elements in a quantized row, 64 bits hold {}", count,
                                    numerics::kMaxNormalizeElements));
  return {};
}

Result<void> verify_last(const OpView& view) {
  DTR_TRY(check_activation(view));
  const Shape& x = view.operand(0).shape;
  const Ints& shape = view.attribute<Ints>("normalized_shape");
  if (shape.empty() || shape.size() > x.size() ||
      !std::equal(shape.begin(), shape.end(), x.end() - static_cast<ptrdiff_t>(shape.size())))
    return broken(view,
                  fmt::format("`normalized_shape` {} is not the end of the operand's shape {}",
                              to_string(shape), to_string(x)));
  return check_parameters(view, shape);
}

Result<void> verify_groups(const OpView& view) {
  DTR_TRY(check_activation(view));
  const Shape& x = view.operand(0).shape;
  const int64_t groups = view.attribute<int64_t>("num_groups");
  if (x.size() < 2 || groups < 1 || x[1] % groups != 0)
    return broken(view, fmt::format("the operand {} does not have channels in {} groups",
                                    to_string(x), groups));
  return check_parameters(view, {x[1]});
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const NormalizeShape shape = normalize_shape(view);
  const auto parameter = [&](size_t i, int64_t index, T absent) {
    return view.has(i) ? operands[i].values<T>()[static_cast<size_t>(index)] : absent;
  };
  const T* x = operands[0].values<T>().data();
  T* y = results[0].values<T>().data();
  const int64_t count = shape.count();
  for (int64_t row = 0; row < shape.a * shape.b; ++row, x += count, y += count) {
    T mean{0}, squares{0};
    if (shape.center) {
      for (int64_t i = 0; i < count; ++i) mean += x[i];
      mean /= static_cast<T>(count);
    }
    for (int64_t i = 0; i < count; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const T factor =
        T{1} / std::sqrt(squares / static_cast<T>(count) + static_cast<T>(shape.epsilon));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = row % shape.b * shape.step_b + i / shape.d * shape.step_c;
      y[i] = (x[i] - mean) * factor * parameter(1, index, T{1}) + parameter(2, index, T{0});
    }
  }
}

// Constants are double where the executor works in double.
std::vector<double> parameters_of(const OpView& view, std::span<const TensorView> operands,
                                  size_t index) {
  if (!view.has(index)) return {};
  const auto convert = [](auto values) {
    return std::vector<double>(values.begin(), values.end());
  };
  return operands[index].dtype == DType::kFloat64 ? convert(operands[index].values<double>())
                                                  : convert(operands[index].values<float>());
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const NormalizeShape shape = normalize_shape(view);
  const QuantizedNormalize quantized =
      quantized_normalize(view, parameters_of(view, operands, 1), parameters_of(view, operands, 2));
  const Quantization& out = *view.result().quantization;
  const std::vector<int16_t> differences = centered_values(view.operand(0), operands[0]);
  const int16_t* x = differences.data();
  int8_t* y = results[0].values<int8_t>().data();
  const int64_t count = shape.count();
  for (int64_t row = 0; row < shape.a * shape.b; ++row, x += count, y += count) {
    int64_t sum = 0;
    uint64_t squares = 0;
    for (int64_t i = 0; i < count; ++i) {
      sum += x[i];
      squares += static_cast<uint64_t>(x[i] * x[i]);
    }
    const numerics::NormalizedRow normalized(quantized.row, count, sum, squares);
    for (int64_t i = 0; i < count; ++i) {
      const auto index =
          static_cast<size_t>(row % shape.b * shape.step_b + i / shape.d * shape.step_c);
      y[i] = normalized(x[i], quantized.parameters[index], quantized.gain_shift, out.zero_point(),
                        range_of(out));
    }
  }
}

constexpr OpDef norm_op(OpDef def) {
  def.infer = infer_like_first;
  def.evaluate_float = evaluate<float>;
  def.evaluate_double = evaluate<double>;
  def.evaluate_integer = evaluate_integer;
  return def;
}

}  // namespace

NormalizeShape normalize_shape(const OpView& view) {
  const Shape& x = view.operand(0).shape;
  NormalizeShape shape{.center = view.def != &kRmsNorm, .epsilon = view.attribute<double>("eps")};
  if (view.def == &kGroupNorm) {
    shape.a = x[0];
    shape.b = view.attribute<int64_t>("num_groups");
    shape.c = x[1] / shape.b;
    for (size_t i = 2; i < x.size(); ++i) shape.d *= x[i];
    shape.step_b = shape.c;
  } else {
    const size_t outer = x.size() - view.attribute<Ints>("normalized_shape").size();
    for (size_t i = 0; i < x.size(); ++i) (i < outer ? shape.a : shape.c) *= x[i];
  }
  shape.step_c = 1;
  return shape;
}

QuantizedNormalize quantized_normalize(const OpView& view, std::span<const double> weight,
                                       std::span<const double> bias) {
  const NormalizeShape shape = normalize_shape(view);
  const Quantization& in = *view.operand(0).quantization;
  const double step = static_cast<double>(view.result().quantization->scale());
  QuantizedNormalize result{
      .row = {shape.center, in.zero_point(),
              numerics::normalize_epsilon(shape.epsilon, in.scale(), shape.count())}};
  const auto gain = [&](size_t i) { return (weight.empty() ? 1.0 : weight[i]) / step; };
  result.parameters.resize(
      static_cast<size_t>(shape.step_b > 0 ? shape.b * shape.step_b : shape.c));
  double largest = 0;
  for (size_t i = 0; i < result.parameters.size(); ++i)
    largest = std::max(largest, std::abs(gain(i)));
  result.gain_shift = numerics::gain_shift(largest);
  for (size_t i = 0; i < result.parameters.size(); ++i)
    result.parameters[i] = {
        numerics::to_fixed(gain(i), result.gain_shift),
        numerics::to_fixed(bias.empty() ? 0.0 : bias[i] / step, numerics::kOffsetFraction)};
  return result;
}

constinit const OpDef kGroupNorm =
    norm_op({.name = "aten.group_norm",
             .summary = "x of each group of channels, minus its mean, divided by its standard "
                        "deviation, times weight, plus bias",
             .schema = "(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps)",
             .verify = verify_groups});

constinit const OpDef kLayerNorm = norm_op(
    {.name = "aten.layer_norm",
     .summary = "x minus its mean over the last dimensions, divided by its standard deviation, "
                "times weight, plus bias",
     .schema = "(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps)",
     .verify = verify_last});

constinit const OpDef kRmsNorm =
    norm_op({.name = "aten.rms_norm",
             .summary = "x divided by its root mean square over the last dimensions, times weight",
             .schema = "(Tensor input, int[] normalized_shape, Tensor? weight, float eps)",
             .verify = verify_last});

}  // namespace dtr::ops
