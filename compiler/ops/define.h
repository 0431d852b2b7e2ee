// What the files of `compiler/ops/` share to define operators: rules that many of them check, and
// shapes that many of them infer.
#pragma once

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "compiler/ops/ops.h"

namespace dtr::ops {

// infer of ops whose result has dtype and shape of operand 0.
std::vector<Type> infer_like_first(const OpView& view);

// Sets the evaluation of an op that treats elements of all types alike.
constexpr OpDef with_one_evaluation(Evaluation evaluate, OpDef def) {
  def.evaluate_float = evaluate;
  def.evaluate_double = evaluate;
  def.evaluate_integer = evaluate;
  return def;
}

// A broken rule of `view`'s op: "aten.relu: <reason>".
tl::unexpected<Diagnostic> broken(const OpView& view, std::string_view reason);

// Quantized with one positive finite scale and one zero point inside [qmin, qmax].
bool per_tensor(const Type& type);

// Operand `index` takes part in arithmetic: floating point, int8 quantized per tensor, or a plain
// integer or bool where the op has the trait kOnIntegers. If the results are known, the first one
// is of the same kind.
Result<void> check_activation(const OpView& view, size_t index = 0);
// check_activation of operand 0: all that elementwise ops of one operand ask for.
Result<void> verify_activation(const OpView& view);
// Result and operand 0, if quantized, have the same quantization.
Result<void> check_keeps_quantization(const OpView& view);

// Weight (operand 1) and bias (operand 2, optional) of linear operators over x (operand 0). Float
// x: both float. Quantized x: weight int8 with zero point 0, per tensor or per channel along
// `channel_axis`; bias int32 with zero point 0 and the scale s_x · s_weight[c], to float rounding.
// The bias has one dimension of `channels`.
Result<void> check_weight_and_bias(const OpView& view, int channel_axis, int64_t channels);

// Every entry of the attribute in [low, high] and exactly `count` of them.
Result<void> check_ints(const OpView& view, std::string_view attribute, size_t count, int64_t low,
                        int64_t high);
// Result shapes that can exist at all: at most 2^31 − 1 elements.
Result<void> check_result_shape(const OpView& view, const Shape& shape);

// Extents, strides and paddings above this are refused: sums and products of two of them fit int64.
inline constexpr int64_t kMaxExtent = int64_t{1} << 30;

// PyTorch's negative dimensions counted from the end; nullopt if out of range.
std::optional<size_t> normalize_dim(int64_t dim, size_t rank);

// Bounds of real values, such as an op applies to its result; infinite where there is none.
struct RealBounds {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  bool operator==(const RealBounds&) const = default;
  bool contains(const RealBounds& other) const { return low <= other.low && high >= other.high; }

  // PyTorch's clamp: NaN stays NaN.
  template <class T>
  T clamp(T x) const {
    return x < static_cast<T>(low)    ? static_cast<T>(low)
           : x > static_cast<T>(high) ? static_cast<T>(high)
                                      : x;
  }
};
inline constexpr std::string_view kActivationAttribute = "activation";
// Bounds of the names that the attribute `activation` may have: relu, relu6, relu_0_to_1,
// relu_n1_to_1.
std::optional<RealBounds> activation_bounds(std::string_view name);
// Bounds of the op's fused activation; infinite if it has none.
RealBounds activation_bounds(const OpView& view);
Result<void> check_fused_activation(const OpView& view);

}  // namespace dtr::ops
