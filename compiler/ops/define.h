// Helpers to define operators: rules that several operators check, and shapes that several infer.
#pragma once

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "compiler/ops/ops.h"

namespace dtr::ops {

// `infer` of ops whose result has the dtype and shape of operand 0.
std::vector<Type> infer_like_first(const OpView& view);

// Sets one evaluation for all element types.
constexpr OpDef with_one_evaluation(Evaluation evaluate, OpDef def) {
  def.evaluate_float = evaluate;
  def.evaluate_double = evaluate;
  def.evaluate_integer = evaluate;
  return def;
}

// The error for a violated rule of the op: kIrInvalid, "aten.relu: <reason>".
tl::unexpected<Diagnostic> broken(const OpView& view, std::string_view reason);

// True if the type has one positive finite scale and one zero point inside [qmin, qmax].
bool per_tensor(const Type& type);

// Checks that operand `index` is floating point, int8 quantized per tensor, or a plain integer or
// bool where the op has the trait kOnIntegers, and so is the first result once results are known.
// Errors of this and the checks below: kIrInvalid, with the violated rule.
Result<void> check_activation(const OpView& view, size_t index = 0);
// check_activation of operand 0: `verify` of elementwise ops of one operand.
Result<void> verify_activation(const OpView& view);
// Checks that the result and operand 0, if quantized, have the same quantization.
Result<void> check_keeps_quantization(const OpView& view);

// Checks weight (operand 1) and optional bias (operand 2) of linear operators over x (operand 0).
// Float x: both float. Quantized x: weight int8 with zero point 0, per tensor or per channel along
// `channel_axis`; bias int32 with zero point 0 and the scale s_x · s_weight[c], to float rounding.
// The bias has one dimension of `channels`.
Result<void> check_weight_and_bias(const OpView& view, int channel_axis, int64_t channels);

// Checks that the attribute has exactly `count` entries, all in [low, high].
Result<void> check_ints(const OpView& view, std::string_view attribute, size_t count, int64_t low,
                        int64_t high);
// Checks that a result has at most 2^31 − 1 elements.
Result<void> check_result_shape(const OpView& view, const Shape& shape);

// Upper limit of extents, strides and paddings: sums and products of two of them fit int64.
inline constexpr int64_t kMaxExtent = int64_t{1} << 30;

// Wraps a dimension that PyTorch counts from the end; std::nullopt if it is out of range.
std::optional<size_t> normalize_dim(int64_t dim, size_t rank);

// An interval of real values; infinite where there is no bound.
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
// Bounds of a fused activation by name: relu, relu6, relu_0_to_1, relu_n1_to_1; std::nullopt for
// other names.
std::optional<RealBounds> activation_bounds(std::string_view name);
// Bounds of the op's fused activation; infinite if it has none.
RealBounds activation_bounds(const OpView& view);
// Checks that the op's attribute `activation`, if present, is one of those names.
Result<void> check_fused_activation(const OpView& view);

}  // namespace dtr::ops
