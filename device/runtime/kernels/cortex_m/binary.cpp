// Elementwise functions of two int8 tensors that broadcast, as device/numerics/binary.h defines
// them.
//
// cortex_m::quantized_add.out and deuteron::quantized_sub.out(self, zero_point, multiplier, shift,
// other, zero_point, multiplier, shift, output_zero_point, output_multiplier, output_shift,
// activation_min, activation_max, out), cortex_m::quantized_mul.out(self, zero_point, other,
// zero_point, output_zero_point, output_multiplier, output_shift, out), and
// deuteron::quantized_mul.out with activation_min, activation_max before `out`,
// cortex_m::maximum.out and minimum.out(self, other, out): one quantization for all,
// deuteron::quantized_maximum.out, quantized_minimum.out(self, zero_point, multiplier, shift,
// other, zero_point, multiplier, shift, output_zero_point, activation_min, activation_max, out):
// each operand is rescaled, deuteron::quantized_prelu.out(self, zero_point, multiplier, shift,
// weight, zero_point, product_multiplier, product_shift, output_zero_point, activation_min,
// activation_max, out), deuteron::quantized_div.out(self, scale, zero_point, other, scale,
// zero_point, output_scale, output_zero_point, quant_min, quant_max, out).
#include <type_traits>
#include <utility>

#include "device/numerics/binary.h"
#include "device/runtime/kernels/cortex_m/image.h"
#include "device/runtime/kernels/cortex_m/kernels.h"
#include "device/runtime/kernels/portable/elements.h"

namespace dtr::runtime::cortex_m {
namespace {

// z[i] = f(x[i · x_step], y[i · y_step]).
template <class F>
void map_run(const int8_t* x, int32_t x_step, const int8_t* y, int32_t y_step, int8_t* z,
             int32_t count, F f) {
#if defined(__ARM_FEATURE_MVE)
  if constexpr (std::is_invocable_v<F, Lanes, Lanes>) {
    if (x_step == 1 && y_step == 1) {
      for (; count >= 4; count -= 4, x += 4, y += 4, z += 4)
        vstrbq_s32(z, f(vldrbq_s32(x), vldrbq_s32(y)));
    } else {
      const uint32x4_t lanes = vidupq_n_u32(0, 1),
                       x_lanes = vmulq_n_u32(lanes, static_cast<uint32_t>(x_step)),
                       y_lanes = vmulq_n_u32(lanes, static_cast<uint32_t>(y_step));
      for (; count >= 4; count -= 4, x += 4 * x_step, y += 4 * y_step, z += 4) {
        vstrbq_s32(z,
                   f(vldrbq_gather_offset_s32(x, x_lanes), vldrbq_gather_offset_s32(y, y_lanes)));
      }
    }
  }
#endif
  for (; count > 0; --count, x += x_step, y += y_step)
    *z++ = static_cast<int8_t>(f(int32_t{*x}, int32_t{*y}));
}

// out = f(a, b) for codes, broadcast: runs of elements that are contiguous in the result. A
// function of its own leaves all registers to the loop of the common case.
template <class F>
__attribute__((noinline)) void map_runs(const Tensor& a, const Tensor& b, const Tensor& out, F f) {
  const portable::Strides x_strides = portable::broadcast_strides(a, out.rank),
                          y_strides = portable::broadcast_strides(b, out.rank);
  int32_t sizes[kMaxRank];
  std::copy_n(out.sizes, out.rank, sizes);
  int inner = 0;
  for (const uint8_t dim : out.order())
    if (sizes[dim] != 1) inner = dim;
  const int32_t count = out.rank == 0 ? 1 : std::exchange(sizes[inner], 1);
  const auto run = [&](int32_t i, int32_t j, int32_t k) {
    map_run(a.values<int8_t>() + i, x_strides.of[inner], b.values<int8_t>() + j,
            y_strides.of[inner], out.values<int8_t>() + k, count, f);
  };
  portable::for_each_offset({sizes, out.rank}, run, x_strides, y_strides,
                            portable::strides_of(out));
}

// out = f(a, b) for codes, broadcast. f takes two int32, or lanes as well.
template <class F>
Error map_pairs(const Tensor& a, const Tensor& b, const Tensor& out, F f) {
  if (!portable::broadcasts_to(a, out) || !portable::broadcasts_to(b, out))
    return Error::kKernelArguments;
  if (a.dtype != ScalarType::kChar || b.dtype != ScalarType::kChar ||
      out.dtype != ScalarType::kChar)
    return Error::kKernelDtype;
  if (is_empty(out)) return Error::kOk;
  if (same_shape(a, out) && same_shape(b, out) && same_order(a, out) && same_order(b, out)) {
    map_run(a.values<int8_t>(), 1, b.values<int8_t>(), 1, out.values<int8_t>(),
            static_cast<int32_t>(out.elements()), f);
  } else {
    map_runs(a, b, out, f);
  }
  return Error::kOk;
}

// An operand: its zero point and, where `index` + 2 is its multiplier, how it is rescaled.
struct Operand {
  int32_t zero_point = 0;
  numerics::Requantization by;
};
numerics::Requantization read_requantization(Arguments& arguments, size_t index, bool* good) {
  const int64_t multiplier = arguments.integer(index), shift = arguments.integer(index + 1);
  *good &= good_rescaling(multiplier, shift);
  return {static_cast<int32_t>(multiplier), static_cast<int32_t>(shift)};
}
Operand read_operand(Arguments& arguments, size_t index, bool* good) {
  const int64_t zero_point = arguments.integer(index);
  *good &= is_code(zero_point);
  return {static_cast<int32_t>(zero_point), read_requantization(arguments, index + 1, good)};
}

template <bool kSubtract>
Error sum(std::span<Value* const> values) {
  Arguments arguments(values);
  bool good = true;
  Finish finish;
  const Tensor& x = arguments.tensor(0);
  const Operand a = read_operand(arguments, 1, &good);
  const Tensor& y = arguments.tensor(4);
  const Operand b = read_operand(arguments, 5, &good);
  good &= read_finish(arguments.integer(8), arguments.integer(11), arguments.integer(12), &finish);
  const numerics::Requantization by = read_requantization(arguments, 9, &good);
  const Tensor& out = arguments.output(13);
  if (!arguments.good() || !good) return Error::kKernelArguments;
  constexpr int32_t kRaise = 1 << numerics::BinaryParameters::kLeftShift;
  return map_pairs(x, y, out, [=](auto p, auto q) {
    const auto raised_a = rescale((p - a.zero_point) * kRaise, a.by),
               raised_b = rescale((q - b.zero_point) * kRaise, b.by);
    return finish(rescale(
        kSubtract ? subtract_wrapping(raised_a, raised_b) : add_wrapping(raised_a, raised_b), by));
  });
}

Error product(Arguments& arguments, const Finish& finish, size_t out_index) {
  bool good = true;
  const Tensor& x = arguments.tensor(0);
  const auto zero_a = static_cast<int32_t>(arguments.integer(1));
  const Tensor& y = arguments.tensor(2);
  const auto zero_b = static_cast<int32_t>(arguments.integer(3));
  const numerics::Requantization by = read_requantization(arguments, 5, &good);
  const Tensor& out = arguments.output(out_index);
  if (!arguments.good() || !good || !is_code(arguments.integer(1)) ||
      !is_code(arguments.integer(3)))
    return Error::kKernelArguments;
  return map_pairs(
      x, y, out, [=](auto p, auto q) { return finish(rescale((p - zero_a) * (q - zero_b), by)); });
}

template <bool kMaximum>
Error extreme(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& a = arguments.tensor(0);
  const Tensor& b = arguments.tensor(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good()) return Error::kKernelArguments;
  return map_pairs(a, b, out,
                   [](auto p, auto q) { return kMaximum ? larger(p, q) : smaller(p, q); });
}

// The arguments of kernels that rescale: f(difference of self, difference of other, rescaling of
// self, of the other).
template <class F>
Error rescaled(std::span<Value* const> values, F f) {
  Arguments arguments(values);
  bool good = true;
  Finish finish;
  const Tensor& x = arguments.tensor(0);
  const Operand a = read_operand(arguments, 1, &good);
  const Tensor& y = arguments.tensor(4);
  const Operand b = read_operand(arguments, 5, &good);
  good &= read_finish(arguments.integer(8), arguments.integer(9), arguments.integer(10), &finish);
  const Tensor& out = arguments.output(11);
  if (!arguments.good() || !good) return Error::kKernelArguments;
  return map_pairs(x, y, out, [=](auto p, auto q) {
    return finish(f(p - a.zero_point, q - b.zero_point, a.by, b.by));
  });
}

template <bool kMaximum>
Error rescaled_extreme(std::span<Value* const> values) {
  return rescaled(values,
                  [](auto x, auto y, numerics::Requantization by_x, numerics::Requantization by_y) {
                    return kMaximum ? larger(rescale(x, by_x), rescale(y, by_y))
                                    : smaller(rescale(x, by_x), rescale(y, by_y));
                  });
}

}  // namespace

Error quantized_add_out(std::span<Value* const> values) { return sum<false>(values); }
Error quantized_sub_out(std::span<Value* const> values) { return sum<true>(values); }

Error quantized_mul_out(std::span<Value* const> values) {
  Arguments arguments(values);
  Finish finish;
  if (!read_finish(arguments.integer(4), -128, 127, &finish)) return Error::kKernelArguments;
  return product(arguments, finish, 7);
}

Error quantized_mul_activation_out(std::span<Value* const> values) {
  Arguments arguments(values);
  Finish finish;
  if (!read_finish(arguments.integer(4), arguments.integer(7), arguments.integer(8), &finish))
    return Error::kKernelArguments;
  return product(arguments, finish, 9);
}

Error maximum_out(std::span<Value* const> values) { return extreme<true>(values); }
Error minimum_out(std::span<Value* const> values) { return extreme<false>(values); }
Error quantized_maximum_out(std::span<Value* const> values) {
  return rescaled_extreme<true>(values);
}
Error quantized_minimum_out(std::span<Value* const> values) {
  return rescaled_extreme<false>(values);
}

Error quantized_prelu_out(std::span<Value* const> values) {
  return rescaled(values, [](auto x, auto weight, numerics::Requantization by_x,
                             numerics::Requantization by_product) {
    return by_sign(x, rescale(x, by_x), rescale(x * weight, by_product));
  });
}

Error quantized_div_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& x = arguments.tensor(0);
  const auto scale_a = static_cast<float>(arguments.number(1));
  const auto zero_a = static_cast<int32_t>(arguments.integer(2));
  const Tensor& y = arguments.tensor(3);
  const auto scale_b = static_cast<float>(arguments.number(4));
  const auto zero_b = static_cast<int32_t>(arguments.integer(5));
  const auto scale = static_cast<float>(arguments.number(6));
  Finish finish;
  const bool good =
      read_finish(arguments.integer(7), arguments.integer(8), arguments.integer(9), &finish);
  const Tensor& out = arguments.output(10);
  if (!arguments.good() || !good || !is_code(arguments.integer(2)) ||
      !is_code(arguments.integer(5)) || !(scale > 0)) {
    return Error::kKernelArguments;
  }
  return map_pairs(x, y, out, [=](int32_t p, int32_t q) {
    const float quotient =
        scale_a * static_cast<float>(p - zero_a) / (scale_b * static_cast<float>(q - zero_b));
    return finish(numerics::round_half_away(quotient / scale));
  });
}

}  // namespace dtr::runtime::cortex_m
