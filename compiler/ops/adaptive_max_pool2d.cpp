// aten.adaptive_max_pool2d: maximum over windows that divide the operand into `output_size`; NaN
// wins.
#include "compiler/ops/adaptive_pool.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(verify_adaptive_pool(view));
  return check_keeps_quantization(view);
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  T* y = results[0].values<T>().data();
  for_each_adaptive_window<T>(
      view, operands[0], [&](const T* x, int64_t row, int64_t rows, int64_t columns) {
        T best = x[0];
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c)
            if (const T value = x[r * row + c]; value > best || value != value) best = value;
        *y++ = best;
      });
}

}  // namespace

constinit const OpDef kAdaptiveMaxPool2d{
    .name = "aten.adaptive_max_pool2d",
    .summary = "maximum over windows that divide height and width into `output_size`",
    .schema = "(Tensor self, int[] output_size)",
    .traits = kKeepsQuantization,
    .verify = verify,
    .infer = infer_adaptive_pool,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate<int8_t>,
};

}  // namespace dtr::ops
