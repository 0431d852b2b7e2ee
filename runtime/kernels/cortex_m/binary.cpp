// Elementwise functions of two int8 tensors that broadcast, as numerics/binary.h defines them.
//
// cortex_m::quantized_add.out and deuteron::quantized_sub.out(self, zero_point, multiplier, shift, other, zero_point, multiplier, shift,
// output_zero_point, output_multiplier, output_shift, activation_min, activation_max, out),
// cortex_m::quantized_mul.out(self, zero_point, other, zero_point, output_zero_point, output_multiplier, output_shift, out), and
// deuteron::quantized_mul.out with activation_min, activation_max before `out`,
// cortex_m::maximum.out and minimum.out(self, other, out): one quantization for all,
// deuteron::quantized_maximum.out, quantized_minimum.out(self, zero_point, multiplier, shift, other, zero_point, multiplier, shift,
// output_zero_point, activation_min, activation_max, out): each operand is rescaled,
// deuteron::quantized_prelu.out(self, zero_point, multiplier, shift, weight, zero_point, product_multiplier, product_shift,
// output_zero_point, activation_min, activation_max, out),
// deuteron::quantized_div.out(self, scale, zero_point, other, scale, zero_point, output_scale, output_zero_point, quant_min, quant_max,
// out).
#include "numerics/binary.h"
#include "runtime/kernels/cortex_m/image.h"
#include "runtime/kernels/cortex_m/kernels.h"
#include "runtime/kernels/portable/elements.h"

namespace dtr::runtime::cortex_m {
namespace {

// out = f(a, b) for codes, broadcast.
template <class F>
Error map_pairs(const Tensor& a, const Tensor& b, const Tensor& out, F f) {
  if (!portable::broadcasts_to(a, out) || !portable::broadcasts_to(b, out)) return Error::kKernelArguments;
  if (a.dtype != ScalarType::kChar || b.dtype != ScalarType::kChar || out.dtype != ScalarType::kChar) return Error::kKernelDtype;
  const int8_t* x = a.values<int8_t>();
  const int8_t* y = b.values<int8_t>();
  int8_t* z = out.values<int8_t>();
  if (same_shape(a, out) && same_shape(b, out) && same_order(a, out) && same_order(b, out)) {
    for (size_t i = out.elements(); i > 0; --i) *z++ = f(*x++, *y++);
    return Error::kOk;
  }
  const auto at = [&](int32_t i, int32_t j, int32_t k) { z[k] = f(x[i], y[j]); };
  portable::for_each_offset(out.shape(), at, portable::broadcast_strides(a, out.rank), portable::broadcast_strides(b, out.rank),
                            portable::strides_of(out));
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
  return map_pairs(x, y, out, [=](int32_t p, int32_t q) {
    const int32_t raised_a = rescale((p - a.zero_point) * kRaise, a.by), raised_b = rescale((q - b.zero_point) * kRaise, b.by);
    return finish(rescale(kSubtract ? raised_a - raised_b : raised_a + raised_b, by));
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
  if (!arguments.good() || !good || !is_code(arguments.integer(1)) || !is_code(arguments.integer(3))) return Error::kKernelArguments;
  return map_pairs(x, y, out, [=](int32_t p, int32_t q) { return finish(rescale((p - zero_a) * (q - zero_b), by)); });
}

template <bool kMaximum>
Error extreme(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& a = arguments.tensor(0);
  const Tensor& b = arguments.tensor(1);
  const Tensor& out = arguments.output(2);
  if (!arguments.good()) return Error::kKernelArguments;
  return map_pairs(a, b, out, [](int8_t p, int8_t q) { return (p > q) == kMaximum ? p : q; });
}

// The arguments of kernels that rescale: f(difference of self, difference of other, rescaling of self, of the other).
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
  return map_pairs(x, y, out, [=](int32_t p, int32_t q) { return finish(f(p - a.zero_point, q - b.zero_point, a.by, b.by)); });
}

template <bool kMaximum>
Error rescaled_extreme(std::span<Value* const> values) {
  return rescaled(values, [](int32_t x, int32_t y, numerics::Requantization by_x, numerics::Requantization by_y) {
    const int32_t a = rescale(x, by_x), b = rescale(y, by_y);
    return (a > b) == kMaximum ? a : b;
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
  if (!read_finish(arguments.integer(4), arguments.integer(7), arguments.integer(8), &finish)) return Error::kKernelArguments;
  return product(arguments, finish, 9);
}

Error maximum_out(std::span<Value* const> values) { return extreme<true>(values); }
Error minimum_out(std::span<Value* const> values) { return extreme<false>(values); }
Error quantized_maximum_out(std::span<Value* const> values) { return rescaled_extreme<true>(values); }
Error quantized_minimum_out(std::span<Value* const> values) { return rescaled_extreme<false>(values); }

Error quantized_prelu_out(std::span<Value* const> values) {
  return rescaled(values, [](int32_t x, int32_t weight, numerics::Requantization by_x, numerics::Requantization by_product) {
    return x >= 0 ? rescale(x, by_x) : rescale(x * weight, by_product);
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
  const bool good = read_finish(arguments.integer(7), arguments.integer(8), arguments.integer(9), &finish);
  const Tensor& out = arguments.output(10);
  if (!arguments.good() || !good || !is_code(arguments.integer(2)) || !is_code(arguments.integer(5)) || !(scale > 0)) {
    return Error::kKernelArguments;
  }
  return map_pairs(x, y, out, [=](int32_t p, int32_t q) {
    const float quotient = scale_a * static_cast<float>(p - zero_a) / (scale_b * static_cast<float>(q - zero_b));
    return finish(numerics::round_half_away(quotient / scale));
  });
}

}  // namespace dtr::runtime::cortex_m
