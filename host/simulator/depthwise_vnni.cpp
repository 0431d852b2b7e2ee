// Slides over a row of outputs two at a time, so that columns of input that windows share are
// interleaved once, and weights and parameters are loaded once for two.
#include "host/simulator/depthwise_vnni.h"

#if defined(__x86_64__)

#include "host/simulator/vnni_vectors.h"

namespace dtr::simulator {
namespace {

using vnni::AwayFromZeroRescaler;
using vnni::FloorRescaler;
using vnni::Narrow;
using vnni::Wide;

constexpr uint32_t kVectors = 4;  // of a block

// The values of one column, four bytes a channel, and the same shape of sums.
template <class T>
struct Column {
  typename T::Vector at_0, at_1, at_2, at_3;

  DTR_VNNI_INLINE void load(const VnniColumns& row, int64_t column, uint64_t mask) {
    if (column < 0 || column >= row.in_columns) {
      at_0 = at_1 = at_2 = at_3 = T::flip(T::bytes(row.pad));
      return;
    }
    const auto value = [&](uint32_t index) DTR_VNNI {
      return T::flip(T::load(row.rows[index] + column * row.steps[index], mask));
    };
    const typename T::Vector top = value(0), middle = value(1), bottom = value(2);
    const typename T::Vector low = T::low8(top, middle), low_rest = T::low8(bottom, T::zero());
    const typename T::Vector high = T::high8(top, middle), high_rest = T::high8(bottom, T::zero());
    at_0 = T::low16(low, low_rest);
    at_1 = T::high16(low, low_rest);
    at_2 = T::low16(high, high_rest);
    at_3 = T::high16(high, high_rest);
  }
  DTR_VNNI_INLINE void start(const int32_t* bias) {
    at_0 = T::load(bias);
    at_1 = T::load(bias + T::kLanes);
    at_2 = T::load(bias + 2 * T::kLanes);
    at_3 = T::load(bias + 3 * T::kLanes);
  }
};

// Sums of two neighbouring outputs.
template <class T>
struct Pair {
  Column<T> left, right;

  DTR_VNNI_INLINE void add(const Column<T>& x, const Column<T>& y, const int8_t* weights) {
    add(left.at_0, right.at_0, x.at_0, y.at_0, weights);
    add(left.at_1, right.at_1, x.at_1, y.at_1, weights + T::kBytes);
    add(left.at_2, right.at_2, x.at_2, y.at_2, weights + 2 * T::kBytes);
    add(left.at_3, right.at_3, x.at_3, y.at_3, weights + 3 * T::kBytes);
  }
  template <class AnyRescaler>
  DTR_VNNI_INLINE void finish(const VnniLanes& lanes) {
    finish<AnyRescaler>(lanes, 0, left.at_0, right.at_0);
    finish<AnyRescaler>(lanes, 1, left.at_1, right.at_1);
    finish<AnyRescaler>(lanes, 2, left.at_2, right.at_2);
    finish<AnyRescaler>(lanes, 3, left.at_3, right.at_3);
  }

 private:
  DTR_VNNI_INLINE static void add(typename T::Vector& a, typename T::Vector& b,
                                  typename T::Vector x, typename T::Vector y,
                                  const int8_t* weights) {
    const typename T::Vector by = T::load(weights);
    a = T::products(a, x, by);
    b = T::products(b, y, by);
  }
  template <class AnyRescaler>
  DTR_VNNI_INLINE static void finish(const VnniLanes& lanes, uint32_t vector, typename T::Vector& a,
                                     typename T::Vector& b) {
    AnyRescaler rescaler;
    rescaler.load(lanes, vector);
    a = rescaler(a);
    b = rescaler(b);
  }
};

template <class T>
DTR_VNNI_INLINE void store(const VnniColumns& row, uint32_t position, uint64_t mask,
                           const Column<T>& values) {
  const typename T::Vector bytes = T::limit(
      T::pack16(T::pack32(values.at_0, values.at_1), T::pack32(values.at_2, values.at_3)),
      T::bytes(static_cast<int8_t>(row.clamp_low)), T::bytes(static_cast<int8_t>(row.clamp_high)));
  int8_t* to = row.output + size_t{position} * row.output_stride;
  if (row.channels == T::kBytes) {
    T::store(to, bytes);
  } else {
    T::store(to, mask, bytes);
  }
}

template <class T, uint32_t kStride, class AnyRescaler>
DTR_VNNI void convolve(const VnniColumns& row) {
  const uint64_t mask = ~uint64_t{0} >> (64 - row.channels);
  const int8_t* const weights_1 = row.weights + kVectors * T::kBytes;
  const int8_t* const weights_2 = row.weights + 2 * kVectors * T::kBytes;
  int64_t column = row.first_column;
  Column<T> first, second;
  first.load(row, column, mask);
  second.load(row, column + 1, mask);
  for (uint32_t position = 0; position < row.outputs; position += 2) {
    Column<T> third, fourth;
    third.load(row, column + 2, mask);
    fourth.load(row, column + 3, mask);
    Pair<T> sums;
    sums.left.start(row.bias);
    sums.right = sums.left;
    if constexpr (kStride == 1) {
      sums.add(first, second, row.weights);
      sums.add(second, third, weights_1);
      sums.add(third, fourth, weights_2);
      first = third;
      second = fourth;
    } else {
      Column<T> fifth;
      fifth.load(row, column + 4, mask);
      sums.add(first, third, row.weights);
      sums.add(second, fourth, weights_1);
      sums.add(third, fifth, weights_2);
      first = fifth;
      second.load(row, column + 5, mask);
    }
    column += 2 * kStride;
    sums.template finish<AnyRescaler>(row.lanes);
    store(row, position, mask, sums.left);
    if (position + 1 < row.outputs) store(row, position + 1, mask, sums.right);
  }
}

template <class T, uint32_t kStride>
DTR_VNNI void convolve(const VnniColumns& row) {
  row.fold == Fold::kFloor ? convolve<T, kStride, FloorRescaler<T>>(row)
                           : convolve<T, kStride, AwayFromZeroRescaler<T>>(row);
}

}  // namespace

void vnni_depthwise(const VnniColumns& row) {
  if (row.stride == 1) return row.wide ? convolve<Wide, 1>(row) : convolve<Narrow, 1>(row);
  row.wide ? convolve<Wide, 2>(row) : convolve<Narrow, 2>(row);
}

}  // namespace dtr::simulator

#else

namespace dtr::simulator {

void vnni_depthwise(const VnniColumns&) {}

}  // namespace dtr::simulator

#endif
