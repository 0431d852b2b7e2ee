// deuteron::quantized_sum.out(input, dim, keepdim, of_bytes, zero_point, multiplier, shift, output_zero_point, activation_min,
// activation_max, out): the sum over dimensions (all if the list is empty), rescaled; with the multiplier of a mean, the mean. `of_bytes`:
// as LiteRT's SUM, elements and result are bytes without sign. int8, any order.
#include "runtime/kernels/cortex_m/image.h"
#include "runtime/kernels/cortex_m/kernels.h"
#include "runtime/kernels/portable/reduce.h"

namespace dtr::runtime::cortex_m {
namespace {

// Sums of more int8 could leave int32.
constexpr int64_t kMaxCount = 1 << 23;

// Reduced dimensions, innermost last, neighbours in memory taken together: the last one is walked with a pointer.
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
};

}  // namespace

Error quantized_sum_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const auto dims = portable::dims_or_all(arguments, 1);
  const bool keepdim = arguments.flag(2), of_bytes = arguments.flag(3);
  const int64_t zero_point = arguments.integer(4), multiplier = arguments.integer(5), shift = arguments.integer(6);
  const int64_t output_zero_point = arguments.integer(7), low = arguments.integer(8), high = arguments.integer(9);
  const Tensor& out = arguments.output(10);
  Finish finish;
  portable::Reduction reduction;
  if (!arguments.good() || !is_code(zero_point) || !good_rescaling(multiplier, shift) ||
      !read_finish(output_zero_point, low, high, &finish) || !portable::make_reduction(in, dims, keepdim, out, &reduction) ||
      reduction.count > kMaxCount) {
    return Error::kKernelArguments;
  }
  if (in.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar) return Error::kKernelDtype;
  if (of_bytes) finish.low = 0, finish.high = 255;
  const Inner inner(in, reduction);
  const uint32_t last = inner.rank - 1;
  const int32_t run = inner.sizes[last], step = inner.strides.of[last];
  const auto start = static_cast<int32_t>(-reduction.count * zero_point);
  const auto add_up = [&](auto value_at) {
    const auto result = [&](int32_t from, int32_t to) {
      int32_t sum = start;
      const auto add_run = [&](int32_t at) {
        const int8_t* x = in.values<int8_t>() + from + at;
        for (int32_t i = run; i > 0; --i, x += step) sum += value_at(x);
      };
      portable::for_each_offset({inner.sizes, last}, add_run, inner.strides);
      out.values<int8_t>()[to] = finish(rescale(sum, static_cast<int32_t>(multiplier), static_cast<int32_t>(shift)));
    };
    portable::for_each_offset({reduction.outer, in.rank}, result, reduction.in_strides, reduction.out_strides);
  };
  if (reduction.count == 0) {
    for (size_t i = 0; i < out.elements(); ++i) out.values<int8_t>()[i] = finish(0);
  } else if (of_bytes) {
    add_up([](const int8_t* x) { return static_cast<int32_t>(static_cast<uint8_t>(*x)); });
  } else {
    add_up([](const int8_t* x) { return static_cast<int32_t>(*x); });
  }
  return Error::kOk;
}

}  // namespace dtr::runtime::cortex_m
