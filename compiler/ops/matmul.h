// Inner loops of the linear operators, for the best instruction set that the machine has. All of
// them give the same bits: each sum is made in one order, without fused multiply-adds. Sums of
// int16 values are uint32, which wraps like a 32-bit accumulator; products of int16 are of values
// within -255 … 255, so that the sum of two does not overflow.
#pragma once

#include <cstdint>
#include <type_traits>

namespace dtr::ops {

// a · b in the type of the sum.
template <class Sum, class T>
Sum product(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<Sum>(int32_t{a} * int32_t{b});
  } else {
    return a * b;
  }
}

// sums[r][o] = Σ_i x[r][i] · weights[o][i] for `rows` rows of x and `outputs` rows of weights, all
// of them `depth` long. A sum of floats is made in eight lanes, which are added at the end.
void multiply_rows(const float* x, const float* weights, float* sums, int64_t rows, int64_t outputs,
                   int64_t depth);
void multiply_rows(const double* x, const double* weights, double* sums, int64_t rows,
                   int64_t outputs, int64_t depth);
void multiply_rows(const int16_t* x, const int16_t* weights, uint32_t* sums, int64_t rows,
                   int64_t outputs, int64_t depth);

// y[r][c] += Σ_k a[r][k] · b[k][c] for `rows` rows of a (row length `depth`) and `columns` columns
// of b and y (row stride `stride_b` and `stride_y`). A sum of floats is made by rising k.
void multiply_add(const float* a, const float* b, float* y, int64_t rows, int64_t depth,
                  int64_t columns, int64_t stride_b, int64_t stride_y);
void multiply_add(const double* a, const double* b, double* y, int64_t rows, int64_t depth,
                  int64_t columns, int64_t stride_b, int64_t stride_y);
void multiply_add(const int16_t* a, const int16_t* b, uint32_t* y, int64_t rows, int64_t depth,
                  int64_t columns, int64_t stride_b, int64_t stride_y);

}  // namespace dtr::ops
