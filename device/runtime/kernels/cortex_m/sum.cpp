// deuteron::quantized_sum.out(input, dim, keepdim, of_bytes, zero_point, multiplier, shift,
// output_zero_point, activation_min, activation_max, out): the sum over dimensions (all if the list
// is empty), rescaled; with the multiplier of a mean, the mean. `of_bytes`: as LiteRT's SUM,
// elements and result are bytes without sign. int8, any order.
#include "device/runtime/kernels/cortex_m/image.h"
#include "device/runtime/kernels/cortex_m/kernels.h"
#include "device/runtime/kernels/portable/reduce.h"

namespace dtr::runtime::cortex_m {
namespace {

// Sums of more int8 could leave int32. (Of bytes without sign, those of two thirds of it could,
// which wrap as LiteRT's do.)
constexpr int64_t kMaxCount = 1 << 23;

// Reduced dimensions, innermost last, neighbours in memory taken together: the last one is walked
// with a pointer.
struct Inner {
  int32_t sizes[kMaxRank];
  portable::Strides strides;
  uint32_t rank = 0;

  Inner(const Tensor& in, const portable::Reduction& reduction) {
    for (const uint8_t dim : in.order()) {
      const int32_t size = reduction.inner[dim], stride = reduction.in_strides.of[dim];
      if (size == 1) continue;
      if (rank > 0 && strides.of[rank - 1] == size * stride) {
        sizes[rank - 1] *= size;
        strides.of[rank - 1] = stride;
        continue;
      }
      sizes[rank] = size;
      strides.of[rank++] = stride;
    }
    if (rank == 0) sizes[rank] = 1, strides.of[rank++] = 1;
  }

  // start + Σ value(x of an element).
  template <class Sum, class Value>
  Sum add_up(const int8_t* x, Sum start, Value value) const {
    const uint32_t last = rank - 1;
    const auto add_run = [&](int32_t at) {
      const int8_t* from = x + at;
      for (int32_t i = sizes[last]; i > 0; --i, from += strides.of[last])
        start = add_wrapping(start, value(from));
    };
    portable::for_each_offset({sizes, last}, add_run, strides);
    return start;
  }
};

#if defined(__ARM_FEATURE_MVE)
// Four results at a time, where they and their operands are contiguous. Returns how many
// there are in a line; the others stay in `reduction`.
int32_t write_fours(const Tensor& in, const Tensor& out, int32_t start, numerics::Requantization by,
                    const Finish& finish, const Inner& inner, portable::Reduction* reduction) {
  const int side = in.rank == 0 ? 0 : in.order().back();
  const int32_t count = reduction->outer[side] & ~3;
  if (in.rank == 0 || count == 0 || reduction->out_strides.of[side] != 1) return 0;
  int32_t sizes[kMaxRank];
  std::copy_n(reduction->outer, in.rank, sizes);
  sizes[side] = 1;
  const auto results = [&](int32_t from, int32_t to) {
    for (int32_t i = 0; i < count; i += 4) {
      const Lanes sums = inner.add_up(in.values<int8_t>() + from + i, vdupq_n_s32(start),
                                      [](const int8_t* x) { return vldrbq_s32(x); });
      vstrbq_s32(out.values<int8_t>() + to + i, finish(rescale(sums, by)));
    }
  };
  portable::for_each_offset({sizes, in.rank}, results, reduction->in_strides,
                            reduction->out_strides);
  reduction->outer[side] -= count;
  return count;
}
#endif

}  // namespace

Error quantized_sum_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = portable::dims_or_all(arguments, 1);
  const bool keepdim = arguments.flag(2), of_bytes = arguments.flag(3);
  const int64_t zero_point = arguments.integer(4), multiplier = arguments.integer(5),
                shift = arguments.integer(6);
  const int64_t output_zero_point = arguments.integer(7), low = arguments.integer(8),
                high = arguments.integer(9);
  const Tensor& out = arguments.output(10);
  Finish finish;
  portable::Reduction reduction;
  if (!arguments.good() || !is_code(zero_point) || !good_rescaling(multiplier, shift) ||
      !read_finish(output_zero_point, low, high, &finish) ||
      !portable::make_reduction(in, dims, keepdim, out, &reduction) ||
      reduction.count > kMaxCount) {
    return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar) return Error::kKernelDtype;
  if (of_bytes) finish.low = 0, finish.high = 255;
  const Inner inner(in, reduction);
  const auto start = static_cast<int32_t>(-reduction.count * zero_point);
  const numerics::Requantization by{static_cast<int32_t>(multiplier), static_cast<int32_t>(shift)};
  const auto write_sums = [&](int32_t done, auto value) {
    const auto result = [&](int32_t from, int32_t to) {
      const int32_t sum = inner.add_up(in.values<int8_t>() + from + done, start, value);
      out.values<int8_t>()[to + done] = finish(rescale(sum, by));
    };
    portable::for_each_offset({reduction.outer, in.rank}, result, reduction.in_strides,
                              reduction.out_strides);
  };
  if (reduction.count == 0) {
    for (size_t i = 0; i < out.elements(); ++i) out.values<int8_t>()[i] = finish(0);
  } else if (of_bytes) {
    write_sums(0, [](const int8_t* x) { return static_cast<int32_t>(static_cast<uint8_t>(*x)); });
  } else {
    int32_t done = 0;
#if defined(__ARM_FEATURE_MVE)
    done = write_fours(in, out, start, by, finish, inner, &reduction);
#endif
    write_sums(done, [](const int8_t* x) { return static_cast<int32_t>(*x); });
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
