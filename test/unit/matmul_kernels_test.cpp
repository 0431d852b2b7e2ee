// The inner loops of the linear operators on every instruction set of this machine, against loops
// that write the sums out in the order that the header promises: bit for bit.

#include <random>
#include <vector>

#include "compiler/ops/matmul.h"
#include "test/unit/every_target.h"

namespace dtr::ops {
namespace {

struct Size {
  int64_t rows, columns, depth;
};

// Odd and even, below and above a vector of each instruction set.
constexpr Size kSizes[] = {{1, 1, 1},   {1, 5, 7},    {2, 3, 8},   {3, 16, 9},   {4, 17, 16},
                           {5, 31, 33}, {17, 64, 24}, {19, 35, 0}, {33, 7, 131}, {0, 4, 4}};

class MatmulKernels : public test::EveryTarget {
 protected:
  template <class T>
  std::vector<T> values(int64_t count) {
    std::vector<T> made(static_cast<size_t>(count));
    for (T& value : made) {
      if constexpr (std::is_integral_v<T>) {
        value = static_cast<T>(std::uniform_int_distribution<int>(-255, 255)(random_));
      } else {
        value = std::uniform_real_distribution<T>(-1, 1)(random_);
      }
    }
    return made;
  }

  std::mt19937 random_{7};
};

template <class T, class Sum>
Sum times(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<Sum>(int64_t{a} * int64_t{b});
  } else {
    return a * b;
  }
}

template <class T, class Sum>
Sum sum_in_eight_lanes(const T* x, const T* w, int64_t depth) {
  Sum lanes[8] = {};
  const int64_t whole = depth - depth % 8;
  for (int64_t i = 0; i < whole; ++i) lanes[i % 8] += times<T, Sum>(x[i], w[i]);
  Sum sum = ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
            ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
  for (int64_t i = whole; i < depth; ++i) sum += times<T, Sum>(x[i], w[i]);
  return sum;
}

TEST_F(MatmulKernels, MultiplyRowsSumsInEightLanes) {
  const auto test = [&]<class T, class Sum>(T, Sum) {
    for (const Size& size : kSizes) {
      const int64_t rows = size.rows, outputs = size.columns, depth = size.depth;
      const auto x = values<T>(rows * depth), w = values<T>(outputs * depth);
      std::vector<Sum> expected;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t o = 0; o < outputs; ++o)
          expected.push_back(
              sum_in_eight_lanes<T, Sum>(x.data() + r * depth, w.data() + o * depth, depth));
      on_each([&] {
        std::vector<Sum> sums(expected.size(), Sum{1});
        multiply_rows(x.data(), w.data(), sums.data(), rows, outputs, depth);
        EXPECT_EQ(sums, expected) << rows << " x " << outputs << " x " << depth;
      });
    }
  };
  test(float{}, float{});
  test(double{}, double{});
  test(int16_t{}, uint32_t{});
}

TEST_F(MatmulKernels, MultiplyAddSumsByRisingDepth) {
  const auto test = [&]<class T, class Sum>(T, Sum) {
    for (const Size& size : kSizes) {
      const int64_t rows = size.rows, columns = size.columns, depth = size.depth;
      const int64_t stride_b = columns + 3, stride_y = columns + 2;
      const auto a = values<T>(rows * depth), b = values<T>(depth * stride_b);
      std::vector<Sum> start(static_cast<size_t>(rows * stride_y));
      for (size_t i = 0; i < start.size(); ++i) start[i] = static_cast<Sum>(i);
      std::vector<Sum> expected = start;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
          Sum sum{};
          for (int64_t k = 0; k < depth; ++k)
            sum += times<T, Sum>(a[static_cast<size_t>(r * depth + k)],
                                 b[static_cast<size_t>(k * stride_b + c)]);
          expected[static_cast<size_t>(r * stride_y + c)] += sum;
        }
      on_each([&] {
        std::vector<Sum> y = start;
        multiply_add(a.data(), b.data(), y.data(), rows, depth, columns, stride_b, stride_y);
        EXPECT_EQ(y, expected) << rows << " x " << columns << " x " << depth;
      });
    }
  };
  test(float{}, float{});
  test(double{}, double{});
  test(int16_t{}, uint32_t{});
}

}  // namespace
}  // namespace dtr::ops
