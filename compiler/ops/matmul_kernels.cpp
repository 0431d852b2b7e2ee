#include <algorithm>
#include <cstddef>

#include "compiler/ops/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compiler/ops/matmul_kernels.cpp"
#include <hwy/foreach_target.h>
// Highway requires this include after foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dtr::ops {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Σ_i x[r][i] · weights[i] of several rows at once, which share the loads of the weights.
template <int kRows, class T>
void dot(const T* x, const T* weights, int64_t depth, T* sums, int64_t stride) {
  constexpr size_t kLanes = 8;
  const hn::CappedTag<T, kLanes> tag;
  constexpr size_t kVector = hn::MaxLanes(tag), kVectors = kLanes / kVector;
  hn::Vec<decltype(tag)> parts[kRows][kVectors];
  for (auto& row : parts) std::fill_n(row, kVectors, hn::Zero(tag));
  int64_t i = 0;
  for (; i + int64_t{kLanes} <= depth; i += kLanes)
    for (size_t v = 0; v < kVectors; ++v) {
      const auto at = i + static_cast<int64_t>(v * kVector);
      const auto w = hn::LoadU(tag, weights + at);
      for (int r = 0; r < kRows; ++r)
        parts[r][v] = hn::Add(parts[r][v], hn::Mul(hn::LoadU(tag, x + r * depth + at), w));
    }
  for (int r = 0; r < kRows; ++r) {
    T l[kLanes];
    for (size_t v = 0; v < kVectors; ++v) hn::StoreU(parts[r][v], tag, l + v * kVector);
    T sum = ((l[0] + l[4]) + (l[1] + l[5])) + ((l[2] + l[6]) + (l[3] + l[7]));
    for (int64_t rest = i; rest < depth; ++rest) sum += x[r * depth + rest] * weights[rest];
    sums[r * stride] = sum;
  }
}

// Integers may be summed in any order.
template <int kRows>
void dot(const int16_t* x, const int16_t* weights, int64_t depth, uint32_t* sums, int64_t stride) {
  const hn::ScalableTag<int16_t> of_values;
  const hn::RepartitionToWide<decltype(of_values)> of_sums;
  const auto lanes = static_cast<int64_t>(hn::Lanes(of_values));
  hn::Vec<decltype(of_sums)> low[kRows], high[kRows];
  std::fill_n(low, kRows, hn::Zero(of_sums));
  std::fill_n(high, kRows, hn::Zero(of_sums));
  int64_t i = 0;
  for (; i + lanes <= depth; i += lanes) {
    const auto w = hn::LoadU(of_values, weights + i);
    for (int r = 0; r < kRows; ++r)
      low[r] = hn::ReorderWidenMulAccumulate(of_sums, hn::LoadU(of_values, x + r * depth + i), w,
                                             low[r], high[r]);
  }
  for (int r = 0; r < kRows; ++r) {
    auto sum =
        static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(of_sums, hn::Add(low[r], high[r]))));
    for (int64_t rest = i; rest < depth; ++rest)
      sum += product<uint32_t>(x[r * depth + rest], weights[rest]);
    sums[r * stride] = sum;
  }
}

// A block of rows stays in the first cache while all weights pass by it.
template <class T, class Sum>
void multiply_rows(const T* x, const T* weights, Sum* sums, int64_t rows, int64_t outputs,
                   int64_t depth) {
  constexpr int64_t kRows = 4, kBlock = 16;
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t end = std::min(first + kBlock, rows);
    for (int64_t o = 0; o < outputs; ++o) {
      const T* w = weights + o * depth;
      int64_t r = first;
      for (; r + kRows <= end; r += kRows)
        dot<kRows>(x + r * depth, w, depth, sums + r * outputs + o, outputs);
      for (; r < end; ++r) dot<1>(x + r * depth, w, depth, sums + r * outputs + o, outputs);
    }
  }
}

// A factor of a for each lane, and a vector of b's values, in the type of the sums.
template <class D>
hn::Vec<D> factor(D tag, hn::TFromD<D> value) {
  return hn::Set(tag, value);
}
template <class D>
hn::Vec<D> factor(D tag, int16_t value) {
  return hn::Set(tag, static_cast<uint32_t>(int32_t{value}));
}
template <class D>
hn::Vec<D> load(D tag, const hn::TFromD<D>* from) {
  return hn::LoadU(tag, from);
}
template <class D>
hn::Vec<D> load(D tag, const int16_t* from) {
  const hn::Rebind<int16_t, D> of_values;
  const hn::RebindToSigned<D> of_products;
  return hn::BitCast(tag, hn::PromoteTo(of_products, hn::LoadU(of_values, from)));
}

// y[i][j] += Σ_k a[i][k] · b[k][j] of kRows rows and kVectors vectors, held in registers.
template <int kRows, int kVectors, class D, class T>
void add_block(D tag, const T* a, const T* b, hn::TFromD<D>* y, int64_t depth, int64_t stride_b,
               int64_t stride_y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(tag));
  hn::Vec<D> sums[kRows][kVectors];
  for (auto& row : sums) std::fill_n(row, kVectors, hn::Zero(tag));
  for (int64_t k = 0; k < depth; ++k) {
    hn::Vec<D> from[kVectors];
    for (int v = 0; v < kVectors; ++v) from[v] = load(tag, b + k * stride_b + v * lanes);
    for (int i = 0; i < kRows; ++i) {
      const auto times = factor(tag, a[i * depth + k]);
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::Add(sums[i][v], hn::Mul(times, from[v]));
    }
  }
  for (int i = 0; i < kRows; ++i)
    for (int v = 0; v < kVectors; ++v) {
      auto* to = y + i * stride_y + v * lanes;
      hn::StoreU(hn::Add(hn::LoadU(tag, to), sums[i][v]), tag, to);
    }
}

// The columns that blocks of kVectors vectors cover; returns the first that is left.
template <int kVectors, class D, class T>
int64_t add_columns(D tag, const T* a, const T* b, hn::TFromD<D>* y, int64_t rows, int64_t depth,
                    int64_t begin, int64_t end, int64_t stride_b, int64_t stride_y) {
  constexpr int kRows = 4;
  const int64_t width = kVectors * static_cast<int64_t>(hn::Lanes(tag));
  for (; begin + width <= end; begin += width) {
    int64_t r = 0;
    for (; r + kRows <= rows; r += kRows)
      add_block<kRows, kVectors>(tag, a + r * depth, b + begin, y + r * stride_y + begin, depth,
                                 stride_b, stride_y);
    for (; r < rows; ++r)
      add_block<1, kVectors>(tag, a + r * depth, b + begin, y + r * stride_y + begin, depth,
                             stride_b, stride_y);
  }
  return begin;
}

template <class T, class Sum>
void multiply_add(const T* a, const T* b, Sum* y, int64_t rows, int64_t depth, int64_t columns,
                  int64_t stride_b, int64_t stride_y) {
  const hn::ScalableTag<Sum> wide;
  const hn::CappedTag<Sum, 2> narrow;
  const hn::CappedTag<Sum, 1> one;
  int64_t c = add_columns<2>(wide, a, b, y, rows, depth, 0, columns, stride_b, stride_y);
  c = add_columns<1>(narrow, a, b, y, rows, depth, c, columns, stride_b, stride_y);
  add_columns<1>(one, a, b, y, rows, depth, c, columns, stride_b, stride_y);
}

// What HWY_EXPORT takes: functions without overloads.
void rows_f32(const float* x, const float* w, float* sums, int64_t rows, int64_t outputs,
              int64_t depth) {
  multiply_rows(x, w, sums, rows, outputs, depth);
}
#if HWY_HAVE_FLOAT64
void rows_f64(const double* x, const double* w, double* sums, int64_t rows, int64_t outputs,
              int64_t depth) {
  multiply_rows(x, w, sums, rows, outputs, depth);
}
#else  // WebAssembly as Highway has it: the same sums, one number at a time
void rows_f64(const double* x, const double* w, double* sums, int64_t rows, int64_t outputs,
              int64_t depth) {
  for (int64_t r = 0; r < rows; ++r, x += depth)
    for (int64_t o = 0; o < outputs; ++o) {
      const double* weights = w + o * depth;
      double l[8] = {};
      const int64_t whole = depth / 8 * 8;
      for (int64_t i = 0; i < whole; ++i) l[i % 8] += x[i] * weights[i];
      double sum = ((l[0] + l[4]) + (l[1] + l[5])) + ((l[2] + l[6]) + (l[3] + l[7]));
      for (int64_t i = whole; i < depth; ++i) sum += x[i] * weights[i];
      *sums++ = sum;
    }
}
#endif
void rows_i16(const int16_t* x, const int16_t* w, uint32_t* sums, int64_t rows, int64_t outputs,
              int64_t depth) {
  multiply_rows(x, w, sums, rows, outputs, depth);
}
void add_f32(const float* a, const float* b, float* y, int64_t rows, int64_t depth, int64_t columns,
             int64_t stride_b, int64_t stride_y) {
  multiply_add(a, b, y, rows, depth, columns, stride_b, stride_y);
}
#if HWY_HAVE_FLOAT64
void add_f64(const double* a, const double* b, double* y, int64_t rows, int64_t depth,
             int64_t columns, int64_t stride_b, int64_t stride_y) {
  multiply_add(a, b, y, rows, depth, columns, stride_b, stride_y);
}
#else
void add_f64(const double* a, const double* b, double* y, int64_t rows, int64_t depth,
             int64_t columns, int64_t stride_b, int64_t stride_y) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += a[r * depth + k] * b[k * stride_b + c];
      y[r * stride_y + c] += sum;
    }
}
#endif
void add_i16(const int16_t* a, const int16_t* b, uint32_t* y, int64_t rows, int64_t depth,
             int64_t columns, int64_t stride_b, int64_t stride_y) {
  multiply_add(a, b, y, rows, depth, columns, stride_b, stride_y);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace dtr::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace dtr::ops {
namespace {

HWY_EXPORT(rows_f32);
HWY_EXPORT(rows_f64);
HWY_EXPORT(rows_i16);
HWY_EXPORT(add_f32);
HWY_EXPORT(add_f64);
HWY_EXPORT(add_i16);

}  // namespace

void multiply_rows(const float* x, const float* weights, float* sums, int64_t rows, int64_t outputs,
                   int64_t depth) {
  HWY_DYNAMIC_DISPATCH(rows_f32)(x, weights, sums, rows, outputs, depth);
}
void multiply_rows(const double* x, const double* weights, double* sums, int64_t rows,
                   int64_t outputs, int64_t depth) {
  HWY_DYNAMIC_DISPATCH(rows_f64)(x, weights, sums, rows, outputs, depth);
}
void multiply_rows(const int16_t* x, const int16_t* weights, uint32_t* sums, int64_t rows,
                   int64_t outputs, int64_t depth) {
  HWY_DYNAMIC_DISPATCH(rows_i16)(x, weights, sums, rows, outputs, depth);
}
void multiply_add(const float* a, const float* b, float* y, int64_t rows, int64_t depth,
                  int64_t columns, int64_t stride_b, int64_t stride_y) {
  HWY_DYNAMIC_DISPATCH(add_f32)(a, b, y, rows, depth, columns, stride_b, stride_y);
}
void multiply_add(const double* a, const double* b, double* y, int64_t rows, int64_t depth,
                  int64_t columns, int64_t stride_b, int64_t stride_y) {
  HWY_DYNAMIC_DISPATCH(add_f64)(a, b, y, rows, depth, columns, stride_b, stride_y);
}
void multiply_add(const int16_t* a, const int16_t* b, uint32_t* y, int64_t rows, int64_t depth,
                  int64_t columns, int64_t stride_b, int64_t stride_y) {
  HWY_DYNAMIC_DISPATCH(add_i16)(a, b, y, rows, depth, columns, stride_b, stride_y);
}

}  // namespace dtr::ops

#endif
