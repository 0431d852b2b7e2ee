// aten.avg_pool2d: mean over windows, of the input elements or of all elements of the padded input
// (count_include_pad).
#include "compiler/ops/integer.h"
#include "compiler/ops/window.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(verify_pool(view));
  const AttributeValue* divisor = view.attributes->find("divisor_override");
  if (divisor != nullptr &&
      (std::get<int64_t>(*divisor) < 1 || std::get<int64_t>(*divisor) > kMaxExtent))
    return broken(view, fmt::format("`divisor_override` is {}", std::get<int64_t>(*divisor)));
  return {};
}

// Elements of a window up to the end of the padding; ceil_mode lets windows reach beyond it.
int64_t extent(const WindowAxis& axis, int64_t o) {
  return std::min(axis.first(o) + axis.kernel, axis.in + axis.pad_end) - axis.first(o);
}

// Calls window_sum(sum of the input elements, their number, divisor) for every output in order.
template <class T, class Sum, class Finish>
void for_each_window(const OpView& view, const TensorView& operand, Finish finish) {
  const Window window = pool_window(view);
  const auto& [h, w] = window;
  const bool include_pad = view.attribute<bool>("count_include_pad");
  const int64_t divisor = view.attribute_or<int64_t>("divisor_override", 0);
  const T* x = operand.values<T>().data();
  const int64_t planes = operand.elements() / (h.in * w.in);
  for (int64_t plane = 0; plane < planes; ++plane, x += h.in * w.in)
    for (int64_t oh = 0; oh < h.out; ++oh)
      for (int64_t ow = 0; ow < w.out; ++ow) {
        const WindowAxis::Taps rows = h.taps(oh);
        const WindowAxis::Taps columns = w.taps(ow);
        Sum sum{};
        for (int64_t kh = rows.begin; kh < rows.end; ++kh) {
          const int64_t row = (h.first(oh) + kh) * w.in + w.first(ow);
          for (int64_t kw = columns.begin; kw < columns.end; ++kw) sum += x[row + kw];
        }
        const int64_t valid = (rows.end - rows.begin) * (columns.end - columns.begin);
        finish(sum, valid,
               divisor != 0  ? divisor
               : include_pad ? extent(h, oh) * extent(w, ow)
                             : valid);
      }
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  T* y = results[0].values<T>().data();
  for_each_window<T, T>(view, operands[0], [&](T sum, int64_t, int64_t divisor) {
    *y++ = sum / static_cast<T>(divisor);
  });
}

// In one quantization as TFLite's AVERAGE_POOL_2D: the quantized sum of a window is that of its
// input elements plus the zero point for every other element that the divisor counts. Else, or with
// a divisor of its own, as TFLite's MEAN of each window.
void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const Quantization& in = *view.operand(0).quantization;
  const Quantization& out = *view.result().quantization;
  const numerics::Range range = range_of(out);
  int8_t* y = results[0].values<int8_t>().data();
  for_each_window<int8_t,
                  int64_t>(view, operands[0], [&](int64_t sum, int64_t valid, int64_t divisor) {
    if (averages_codes(view)) {
      const int64_t mean =
          numerics::rounded_mean(sum + out.zero_point() * (divisor - valid), divisor);
      *y++ = static_cast<int8_t>(std::clamp<int64_t>(mean, range.low, range.high));
    } else {
      const numerics::OutputStage stage{mean_multiplier(view, divisor), out.zero_point(), range};
      *y++ = stage(static_cast<int32_t>(sum - valid * in.zero_point()));
    }
  });
}

}  // namespace

bool averages_codes(const OpView& view) {
  return view.operand(0).quantization == view.result().quantization &&
         view.attributes->find("divisor_override") == nullptr;
}

std::optional<int64_t> average_divisor(const OpView& view) {
  if (const AttributeValue* divisor = view.attributes->find("divisor_override"))
    return std::get<int64_t>(*divisor);
  const bool include_pad = view.attribute<bool>("count_include_pad");
  const Window window = pool_window(view);
  int64_t divisor = 1;
  for (const WindowAxis* axis : {&window.h, &window.w}) {
    const auto counted = [&](int64_t o) {
      return include_pad ? extent(*axis, o) : axis->taps(o).end - axis->taps(o).begin;
    };
    for (int64_t o = 1; o < axis->out; ++o)
      if (counted(o) != counted(0)) return std::nullopt;
    divisor *= counted(0);
  }
  return divisor;
}

constinit const OpDef kAvgPool2d{
    .name = "aten.avg_pool2d",
    .summary = "mean over windows of height and width",
    .schema =
        "(Tensor self, int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, bool "
        "count_include_pad, "
        "int? divisor_override=None | int[]? padding_end=None, bool qdq=False)",
    .verify = verify,
    .infer = infer_pool,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
