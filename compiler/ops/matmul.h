// Inner loops of the linear operators.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace dtr::ops {

// a · b in the type of the sum: T itself, or uint32 for int16 values, which wraps like a 32-bit
// accumulator.
template <class Sum, class T>
Sum product(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<Sum>(static_cast<int32_t>(a) * static_cast<int32_t>(b));
  } else {
    return a * b;
  }
}

// Σ a[i] · b[i], summed in eight lanes so that the compiler can vectorize it.
template <class Sum, class T>
Sum dot(const T* a, const T* b, int64_t count) {
  constexpr int64_t kLanes = 8;
  std::array<Sum, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[static_cast<size_t>(lane)] += product<Sum>(a[i + lane], b[i + lane]);
  Sum sum = ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
            ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
  for (; i < count; ++i) sum += product<Sum>(a[i], b[i]);
  return sum;
}

// y[r][c] += Σ_k a[r][k] · b[k][c] for `rows` rows of a (row length `depth`) and `columns` columns
// of b and y (row stride `stride_b` and `stride_y`). Works on four rows and a few vectors of
// columns at a time, held in registers.
template <class T, class Sum>
void multiply_add(const T* a, const T* b, Sum* y, int64_t rows, int64_t depth, int64_t columns,
                  int64_t stride_b, int64_t stride_y) {
  constexpr int64_t kRows = 4;
  constexpr int64_t kColumns = 32 / static_cast<int64_t>(sizeof(Sum));
  const auto block = [&](auto row_count, int64_t r, int64_t c) {
    constexpr int64_t kCount = decltype(row_count)::value;
    Sum sums[kCount][kColumns] = {};
    for (int64_t k = 0; k < depth; ++k) {
      const T* from = b + k * stride_b + c;
      for (int64_t i = 0; i < kCount; ++i) {
        const T factor = a[(r + i) * depth + k];
        for (int64_t j = 0; j < kColumns; ++j) sums[i][j] += product<Sum>(factor, from[j]);
      }
    }
    for (int64_t i = 0; i < kCount; ++i)
      for (int64_t j = 0; j < kColumns; ++j) y[(r + i) * stride_y + c + j] += sums[i][j];
  };
  int64_t c = 0;
  for (; c + kColumns <= columns; c += kColumns) {
    int64_t r = 0;
    for (; r + kRows <= rows; r += kRows) block(std::integral_constant<int64_t, kRows>{}, r, c);
    for (; r < rows; ++r) block(std::integral_constant<int64_t, 1>{}, r, c);
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = c; j < columns; ++j) {
      Sum sum{};
      for (int64_t k = 0; k < depth; ++k)
        sum += product<Sum>(a[r * depth + k], b[k * stride_b + j]);
      y[r * stride_y + j] += sum;
    }
}

}  // namespace dtr::ops
