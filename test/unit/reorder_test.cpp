// reorder: dense tensors between layouts, and what slices, reversals and repetitions make of one.
#include "compiler/ir/reorder.h"

#include <gtest/gtest.h>

#include <numeric>

namespace dtr {
namespace {

using Int64s = std::vector<int64_t>;

template <class T>
std::vector<T> reordered(const Shape& shape, const std::vector<T>& from, size_t first,
                         const Int64s& from_strides, const Int64s& to_strides) {
  std::vector<T> to(static_cast<size_t>(element_count(shape)), T{-1});
  reorder(shape, sizeof(T), reinterpret_cast<const std::byte*>(from.data() + first), from_strides,
          reinterpret_cast<std::byte*>(to.data()), to_strides);
  return to;
}

template <class T>
std::vector<T> counted(size_t count) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), T{0});
  return values;
}

TEST(Reorder, LayoutsOfEveryElementSize) {
  const Shape shape{2, 3, 2, 2};
  const auto check = [&]<class T>(T) {
    const std::vector<T> nhwc =
        reordered(shape, counted<T>(24), 0, strides(shape, Layout::kContiguous),
                  strides(shape, Layout::kChannelsLast));
    EXPECT_EQ(std::vector<T>(nhwc.begin(), nhwc.begin() + 6), (std::vector<T>{0, 4, 8, 1, 5, 9}));
    EXPECT_EQ(reordered(shape, nhwc, 0, strides(shape, Layout::kChannelsLast),
                        strides(shape, Layout::kContiguous)),
              counted<T>(24));
  };
  check(int8_t{});
  check(int16_t{});
  check(int32_t{});
  check(int64_t{});
}

TEST(Reorder, PartsReversedAndRepeated) {
  const std::vector<int32_t> x = counted<int32_t>(12);  // 3 × 4
  EXPECT_EQ(reordered<int32_t>({2, 2}, x, 5, {4, 1}, {2, 1}), (std::vector<int32_t>{5, 6, 9, 10}));
  EXPECT_EQ(reordered<int32_t>({3, 2}, x, 11, {-4, -2}, {2, 1}),
            (std::vector<int32_t>{11, 9, 7, 5, 3, 1}));
  EXPECT_EQ(reordered<int32_t>({2, 3}, x, 1, {0, 4}, {3, 1}),
            (std::vector<int32_t>{1, 5, 9, 1, 5, 9}));
}

TEST(Reorder, ScalarsAndNothing) {
  EXPECT_EQ(reordered<int16_t>({}, {7}, 0, {}, {}), std::vector<int16_t>{7});
  EXPECT_EQ(reordered<int16_t>({3, 0, 2}, {7}, 0, {0, 2, 1}, {0, 2, 1}), std::vector<int16_t>{});
}

}  // namespace
}  // namespace dtr
