// Arithmetic on plain integers and bools, which operators with the trait kOnIntegers take beside
// floats: computed in int64 and stored modulo 2^bits of the result's dtype, as PyTorch does. Into
// bool, whatever is not zero is true.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ops/broadcast.h"
#include "compiler/ops/define.h"

namespace dtr::ops {

// An integer or bool that is the number itself, not a code of a real one.
inline bool is_integral(const Type& type) { return !is_float(type.dtype) && !type.quantized(); }

std::vector<int64_t> integers_of(const TensorView& tensor);
Tensor as_int64(const TensorView& tensor);
void store_integers(std::span<const int64_t> values, const TensorView& result);

// y = function(a, b) of all pairs. `Integer` is what the function computes in: uint64_t where sums
// and products wrap, int64_t where it compares.
template <class Integer, class Function>
void map_integer_pairs(std::span<const TensorView> operands, const TensorView& result,
                       Function function) {
  const std::vector<int64_t> a = integers_of(operands[0]), b = integers_of(operands[1]);
  std::vector<int64_t> y(static_cast<size_t>(result.elements()));
  for_each_broadcast_row(
      operands[0].shape, operands[1].shape, result.shape,
      [&](int64_t at, int64_t at_a, int64_t at_b, int64_t count, int64_t step_a, int64_t step_b) {
        for (int64_t i = 0; i < count; ++i)
          y[static_cast<size_t>(at + i)] = static_cast<int64_t>(
              function(static_cast<Integer>(a[static_cast<size_t>(at_a + i * step_a)]),
                       static_cast<Integer>(b[static_cast<size_t>(at_b + i * step_b)])));
      });
  store_integers(y, result);
}

// y = function(x) of all elements.
template <class Integer, class Function>
void map_integers(const TensorView& operand, const TensorView& result, Function function) {
  std::vector<int64_t> values = integers_of(operand);
  for (int64_t& value : values) value = static_cast<int64_t>(function(static_cast<Integer>(value)));
  store_integers(values, result);
}

}  // namespace dtr::ops
