// Makes the OpDef of an elementwise operator of one tensor from its function of one real value.
//
// The quantized form is a table: the function in float, rounded as TFLite's LUTPopulate rounds
// (device/numerics/tables.h). Infinite results saturate. Outside of its domain the function has the
// value of the nearest point of the domain: log of −1 that of 0, the end of the range, sqrt of −1
// zero.
#pragma once

#include <cmath>

#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"
#include "compiler/ops/integral.h"

namespace dtr::ops {

// A function without attributes; `kFunction` takes float and double.
template <auto kFunction>
struct PlainFunction {
  explicit PlainFunction(const OpView&) {}
  template <class T>
  T operator()(T x) const {
    return kFunction(x);
  }
};

template <class Function, class T>
void evaluate_unary(const OpView& view, std::span<const TensorView> operands,
                    std::span<const TensorView> results) {
  const Function function(view);
  std::ranges::transform(operands[0].values<T>(), results[0].values<T>().begin(),
                         [&](T x) -> T { return function(x); });
}

template <class Function>
void evaluate_unary_integer(const OpView& view, std::span<const TensorView> operands,
                            std::span<const TensorView> results) {
  const Function function(view);
  look_up(
      view, [&](float x) -> float { return function(x); }, operands[0], results[0]);
}

// Completes the definition of an op; fields that `def` sets are kept. `Function` is constructed
// from an OpView and callable with float and double.
template <class Function>
constexpr OpDef unary_op(OpDef def) {
  def.traits |= kElementwise;
  if (def.verify == nullptr) def.verify = verify_activation;
  def.infer = infer_like_first;
  def.evaluate_float = evaluate_unary<Function, float>;
  def.evaluate_double = evaluate_unary<Function, double>;
  if (def.evaluate_integer == nullptr) def.evaluate_integer = evaluate_unary_integer<Function>;
  return def;
}
template <auto kFunction>
constexpr OpDef unary_op(OpDef def) {
  return unary_op<PlainFunction<kFunction>>(def);
}

// unary_op of an operator that takes integers and bools too; `Integer` as in map_integers.
template <class T, auto kFunction, class Integer>
void evaluate_number(const OpView& view, std::span<const TensorView> operands,
                     std::span<const TensorView> results) {
  if (is_float(operands[0].dtype))
    return evaluate_unary<PlainFunction<kFunction>, T>(view, operands, results);
  map_integers<Integer>(operands[0], results[0], kFunction);
}
template <auto kFunction, class Integer>
constexpr OpDef unary_op_on_numbers(OpDef def) {
  def = unary_op<kFunction>(def);
  def.traits |= kOnIntegers;
  def.evaluate_float = evaluate_number<float, kFunction, Integer>;
  def.evaluate_double = evaluate_number<double, kFunction, Integer>;
  return def;
}

}  // namespace dtr::ops
