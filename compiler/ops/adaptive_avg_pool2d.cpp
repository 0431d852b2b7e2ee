// aten.adaptive_avg_pool2d: mean over windows that divide the operand into `output_size`.
#include "compiler/ops/adaptive_pool.h"
#include "compiler/ops/integer.h"

namespace dtr::ops {
namespace {

template <class T, class Sum>
Sum sum_of(const T* x, int64_t row, int64_t rows, int64_t columns) {
  Sum sum{};
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) sum += x[r * row + c];
  return sum;
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  T* y = results[0].values<T>().data();
  for_each_adaptive_window<T>(
      view, operands[0], [&](const T* x, int64_t row, int64_t rows, int64_t columns) {
        *y++ = sum_of<T, T>(x, row, rows, columns) / static_cast<T>(rows * columns);
      });
}

// As TFLite's MEAN of each window.
void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const Quantization& in = *view.operand(0).quantization;
  const Quantization& out = *view.result().quantization;
  int8_t* y = results[0].values<int8_t>().data();
  for_each_adaptive_window<int8_t>(
      view, operands[0], [&](const int8_t* x, int64_t row, int64_t rows, int64_t columns) {
        const int64_t count = rows * columns;
        const numerics::OutputStage stage{mean_multiplier(view, count), out.zero_point(),
                                          range_of(out)};
        *y++ = stage(static_cast<int32_t>(sum_of<int8_t, int64_t>(x, row, rows, columns) -
                                          count * in.zero_point()));
      });
}

}  // namespace

constinit const OpDef kAdaptiveAvgPool2d{
    .name = "aten.adaptive_avg_pool2d",
    .summary = "mean over windows that divide height and width into `output_size`",
    .schema = "(Tensor self, int[] output_size | bool qdq=False)",
    .kernel = "aten::_adaptive_avg_pool2d.out",
    .verify = verify_adaptive_pool,
    .infer = infer_adaptive_pool,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
