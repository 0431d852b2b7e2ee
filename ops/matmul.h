// Inner loops that the linear operators share.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

namespace dtr::ops {

// Σ a[i] · b[i], summed in eight lanes so that the compiler may use vectors.
template <class T>
T dot(const T* a, const T* b, int64_t count) {
  constexpr int64_t kLanes = 8;
  std::array<T, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[static_cast<size_t>(lane)] += a[i + lane] * b[i + lane];
  T sum = ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// The same of int16 values with |a · b| ≤ 2^15, for operands of int8 less their zero point; wraps like 32-bit accumulators do.
inline int32_t dot(const int16_t* a, const int16_t* b, int64_t count) {
  constexpr int64_t kExact = 1 << 15;  // products that fit an int32 sum
  uint32_t total = 0;
  for (int64_t begin = 0; begin < count; begin += kExact) {
    const int64_t end = begin + kExact < count ? begin + kExact : count;
    int32_t sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += static_cast<int32_t>(a[i]) * static_cast<int32_t>(b[i]);
    total += static_cast<uint32_t>(sum);
  }
  return static_cast<int32_t>(total);
}

// y[r][c] += Σ_k a[r][k] · b[k][c] for `rows` rows of a (row length `depth`) and `columns` columns of b and y (row stride `stride_b`
// and `stride_y`). Works on four rows and eight columns at a time, held in registers.
template <class T>
void multiply_add(const T* a, const T* b, T* y, int64_t rows, int64_t depth, int64_t columns, int64_t stride_b, int64_t stride_y) {
  constexpr int64_t kRows = 4;
  constexpr int64_t kColumns = 32 / static_cast<int64_t>(sizeof(T));
  const auto block = [&](auto row_count, int64_t r, int64_t c) {
    constexpr int64_t kCount = decltype(row_count)::value;
    T sums[kCount][kColumns] = {};
    for (int64_t k = 0; k < depth; ++k) {
      const T* from = b + k * stride_b + c;
      for (int64_t i = 0; i < kCount; ++i) {
        const T factor = a[(r + i) * depth + k];
        for (int64_t j = 0; j < kColumns; ++j) sums[i][j] += factor * from[j];
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
      T sum{};
      for (int64_t k = 0; k < depth; ++k) sum += a[r * depth + k] * b[k * stride_b + j];
      y[r * stride_y + j] += sum;
    }
}

}  // namespace dtr::ops
