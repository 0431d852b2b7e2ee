// Helpers for reductions over dimensions: attributes `dim` (Ints, negative from the end, empty:
// all) and `keepdim` (Bool).
#pragma once

#include <vector>

#include "compiler/ops/define.h"
#include "compiler/ops/integral.h"

namespace dtr::ops {

// Which dimensions are reduced; std::nullopt if an entry of `dim` is out of range or repeated.
std::optional<std::vector<bool>> reduced_dims(const OpView& view);
// Checks `dim` and the operand. Error: kIrInvalid.
Result<void> verify_reduction(const OpView& view);
// verify_reduction, and the operand is not empty. Error: kIrInvalid.
Result<void> verify_partial_reduction(const OpView& view);
std::vector<Type> infer_reduction(const OpView& view);

// Calls step(result, element) for each element and the result that it is reduced to; results are in
// logical order.
template <class T, class Result, class Step>
void for_each_reduced(const OpView& view, const TensorView& operand, std::span<Result> results,
                      Step step) {
  const std::vector<bool> reduced = *reduced_dims(view);
  const Shape& shape = operand.shape;
  std::vector<int64_t> stride_of(shape.size());  // in the result, 0 along reduced dimensions
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    stride_of[i] = reduced[i] ? 0 : stride;
    if (!reduced[i]) stride *= shape[i];
  }
  // Trailing dimensions that are reduced alike are one run of elements.
  size_t leading = shape.size();
  int64_t run = 1;
  while (leading > 0 && reduced[leading - 1] == reduced.back()) run *= shape[--leading];
  const bool into_one = reduced.empty() || reduced.back();
  Shape index(leading, 0);
  int64_t at = 0;
  const T* const end = operand.values<T>().data() + operand.elements();
  for (const T* x = operand.values<T>().data(); x != end; x += run) {
    Result* const to = &results[static_cast<size_t>(at)];
    if (into_one) {
      Result result = *to;  // in a register: a store and its load take longer than a step
      for (int64_t i = 0; i < run; ++i) step(result, x[i]);
      *to = result;
    } else {
      for (int64_t i = 0; i < run; ++i) step(to[i], x[i]);
    }
    for (size_t dim = leading; dim-- > 0;) {
      at += stride_of[dim];
      if (++index[dim] < shape[dim]) break;
      at -= stride_of[dim] * shape[dim];
      index[dim] = 0;
    }
  }
}

// Reduces to the greatest or least element; NaN if any element is NaN.
template <class T, bool kGreatest>
void reduce_to_extreme(const OpView& view, std::span<const TensorView> operands,
                       std::span<const TensorView> results) {
  using Limits = std::numeric_limits<T>;
  const auto y = results[0].values<T>();
  const T first = kGreatest ? (Limits::has_infinity ? -Limits::infinity() : Limits::lowest())
                            : (Limits::has_infinity ? Limits::infinity() : Limits::max());
  std::fill(y.begin(), y.end(), first);
  for_each_reduced<T>(view, operands[0], y, [](T& result, T value) {
    if ((kGreatest ? value > result : value < result) || value != value) result = value;
  });
}

// The same of floats, and of plain integers and bools.
template <class T, bool kGreatest>
void reduce_numbers_to_extreme(const OpView& view, std::span<const TensorView> operands,
                               std::span<const TensorView> results) {
  if (is_float(operands[0].dtype)) return reduce_to_extreme<T, kGreatest>(view, operands, results);
  const Tensor wide = as_int64(operands[0]);
  Tensor extremes(DType::kInt64, results[0].shape);
  reduce_to_extreme<int64_t, kGreatest>(view, {&wide.view(), 1}, {&extremes.view(), 1});
  store_integers(extremes.values<int64_t>(), results[0]);
}

// Sums of plain integers or bools, in int64.
void sum_integers(const OpView& view, const TensorView& operand, const TensorView& result);

// Checks that the operand is not empty and the result has its quantization. Error: kIrInvalid.
Result<void> verify_extreme(const OpView& view);
template <bool kGreatest>
constexpr OpDef extreme_op(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .schema = "(Tensor self, int[] dim, bool keepdim)",
          .traits = kKeepsQuantization | kOnIntegers,
          .verify = verify_extreme,
          .infer = infer_reduction,
          .evaluate_float = reduce_numbers_to_extreme<float, kGreatest>,
          .evaluate_double = reduce_numbers_to_extreme<double, kGreatest>,
          .evaluate_integer = reduce_to_extreme<int8_t, kGreatest>};
}

}  // namespace dtr::ops
