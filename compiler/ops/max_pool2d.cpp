// aten.max_pool2d: maximum over windows; padding never wins.
#include "compiler/ops/window.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(verify_pool(view));
  return check_keeps_quantization(view);
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const Window window = pool_window(view);
  const auto& [h, w] = window;
  const T* x = operands[0].values<T>().data();
  T* y = results[0].values<T>().data();
  const int64_t planes = operands[0].elements() / (h.in * w.in);
  for (int64_t plane = 0; plane < planes; ++plane, x += h.in * w.in)
    for (int64_t oh = 0; oh < h.out; ++oh)
      for (int64_t ow = 0; ow < w.out; ++ow) {
        const WindowAxis::Taps rows = h.taps(oh);
        const WindowAxis::Taps columns = w.taps(ow);
        T best = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                      : std::numeric_limits<T>::lowest();
        for (int64_t kh = rows.begin; kh < rows.end; ++kh) {
          const int64_t row = (h.first(oh) + kh * h.dilation) * w.in + w.first(ow);
          for (int64_t kw = columns.begin; kw < columns.end; ++kw) {
            const T value = x[row + kw * w.dilation];
            if (value > best || value != value) best = value;
          }
        }
        *y++ = best;
      }
}

}  // namespace

constinit const OpDef kMaxPool2d{
    .name = "aten.max_pool2d",
    .summary = "maximum over windows of height and width",
    .schema =
        "(Tensor self, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool "
        "ceil_mode "
        "| int[]? padding_end=None)",
    .traits = kKeepsQuantization,
    .verify = verify,
    .infer = infer_pool,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate<int8_t>,
};

}  // namespace dtr::ops
