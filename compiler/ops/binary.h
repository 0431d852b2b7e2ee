// Helpers for elementwise operators of two operands: PyTorch's broadcasting, a fused activation if
// the operator supports one, and the integer form of device/numerics/binary.h.
#pragma once

#include "compiler/ops/broadcast.h"
#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"
#include "compiler/ops/integral.h"
#include "device/numerics/binary.h"

namespace dtr::ops {

// Checks that both operands are float, both int8 quantized per tensor, or both plain integers of
// one dtype where the op takes them, and that their shapes broadcast. Error: kIrInvalid.
Result<void> verify_binary(const OpView& view);
std::vector<Type> infer_binary(const OpView& view);

// y = function(a, b) of all pairs, then the fused activation.
template <class T, class Function>
void map_pairs(const OpView& view, std::span<const TensorView> operands, const TensorView& result,
               Function function) {
  const T* a = operands[0].values<T>().data();
  const T* b = operands[1].values<T>().data();
  T* y = result.values<T>().data();
  const RealBounds bounds = activation_bounds(view);
  for_each_broadcast_row(
      operands[0].shape, operands[1].shape, result.shape,
      [&](int64_t at, int64_t at_a, int64_t at_b, int64_t count, int64_t step_a, int64_t step_b) {
        for (int64_t i = 0; i < count; ++i)
          y[at + i] = bounds.clamp(function(a[at_a + i * step_a], b[at_b + i * step_b]));
      });
}

// The op's integer function, with its fused activation; std::nullopt for operators without this
// form.
std::optional<numerics::BinaryParameters> binary_parameters(const OpView& view);
// Integer evaluation by binary_parameters.
void evaluate_binary_integer(const OpView& view, std::span<const TensorView> operands,
                             std::span<const TensorView> results);

// Evaluation by a function of two T that needs no attribute.
template <class T, auto kFunction>
void evaluate_binary(const OpView& view, std::span<const TensorView> operands,
                     std::span<const TensorView> results) {
  map_pairs<T>(view, operands, results[0], kFunction);
}
// Completes the definition of an op. Set fields that differ on the result: under the sanitizers g++
// 12 does not accept a comparison of a function with nullptr as a constant (GCC bug 71962).
template <auto kFunction>
constexpr OpDef binary_op(OpDef def) {
  def.traits |= kElementwise;
  def.verify = verify_binary;
  def.infer = infer_binary;
  def.evaluate_float = evaluate_binary<float, kFunction>;
  def.evaluate_double = evaluate_binary<double, kFunction>;
  def.evaluate_integer = evaluate_binary_integer;
  return def;
}

// binary_op of an operator that takes integers and bools too; `Integer` as in map_integer_pairs.
template <class T, auto kFunction, class Integer>
void evaluate_numbers(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  if (is_float(operands[0].dtype)) return evaluate_binary<T, kFunction>(view, operands, results);
  map_integer_pairs<Integer>(operands, results[0], kFunction);
}
template <auto kFunction, class Integer>
constexpr OpDef binary_op_on_numbers(OpDef def) {
  def = binary_op<kFunction>(def);
  def.traits |= kOnIntegers;
  def.evaluate_float = evaluate_numbers<float, kFunction, Integer>;
  def.evaluate_double = evaluate_numbers<double, kFunction, Integer>;
  return def;
}

// The same for sums with an `alpha`, a function of two T that is made of it: [](auto alpha) {
// return [=](auto a, auto b) {…}; }.
template <class T, auto kFunctionOf>
void evaluate_with_alpha(const OpView& view, std::span<const TensorView> operands,
                         std::span<const TensorView> results) {
  const double alpha = view.argument<double>("alpha");
  if (is_float(operands[0].dtype))
    return map_pairs<T>(view, operands, results[0], kFunctionOf(static_cast<T>(alpha)));
  map_integer_pairs<uint64_t>(
      operands, results[0],
      kFunctionOf(static_cast<uint64_t>(numerics::saturating_cast<int64_t>(alpha))));
}
template <auto kFunctionOf>
constexpr OpDef binary_op_with_alpha(OpDef def) {
  def = binary_op<[](auto a, auto) { return a; }>(def);
  def.traits |= kOnIntegers;
  def.evaluate_float = evaluate_with_alpha<float, kFunctionOf>;
  def.evaluate_double = evaluate_with_alpha<double, kFunctionOf>;
  return def;
}

}  // namespace dtr::ops
