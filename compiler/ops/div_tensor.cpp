// aten.div.Tensor: a / b with broadcasting. The quantized form rounds the quotient of the real
// values once: x / 0 is the end of the result's range on the side of x's sign, 0 / 0 the zero
// point.
#include "compiler/ops/binary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunction = [](auto a, auto b) { return a / b; };

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const Quantization& qa = *view.operand(0).quantization;
  const Quantization& qb = *view.operand(1).quantization;
  const Quantization& out = *view.result().quantization;
  const int8_t* a = operands[0].values<int8_t>().data();
  const int8_t* b = operands[1].values<int8_t>().data();
  int8_t* y = results[0].values<int8_t>().data();
  const auto real = [](int8_t q, const Quantization& by) {
    return by.scale() * static_cast<float>(q - by.zero_point());
  };
  for_each_broadcast_row(
      operands[0].shape, operands[1].shape, results[0].shape,
      [&](int64_t at, int64_t at_a, int64_t at_b, int64_t count, int64_t step_a, int64_t step_b) {
        for (int64_t i = 0; i < count; ++i) {
          const float quotient = real(a[at_a + i * step_a], qa) / real(b[at_b + i * step_b], qb);
          y[at + i] = static_cast<int8_t>(range_of(out).clamp(
              numerics::quantize_real(quotient, out.scale(), out.zero_point())));
        }
      });
}

}  // namespace

constinit const OpDef kDivTensor = [] {
  OpDef def = binary_op<kFunction>({.name = "aten.div.Tensor",
                                    .summary = "a / b with broadcasting",
                                    .schema = "(Tensor self, Tensor other)"});
  def.evaluate_integer = evaluate_integer;
  return def;
}();

}  // namespace dtr::ops
