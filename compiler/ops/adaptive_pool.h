// Adaptive pools: output o of an axis covers the inputs from ⌊o · in / out⌋ to before ⌈(o + 1) · in
// / out⌉, so that windows differ in size if `out` does not divide `in`.
#pragma once

#include "compiler/ops/define.h"

namespace dtr::ops {

struct AdaptiveAxis {
  int64_t in = 1, out = 1;
  int64_t first(int64_t o) const { return o * in / out; }
  int64_t end(int64_t o) const { return ((o + 1) * in + out - 1) / out; }
};
struct AdaptiveWindow {
  AdaptiveAxis h, w;
};
AdaptiveWindow adaptive_window(const OpView& view);
// Checks operand and output size of an adaptive pool. Error: kIrInvalid.
Result<void> verify_adaptive_pool(const OpView& view);
std::vector<Type> infer_adaptive_pool(const OpView& view);

// Calls window(first element, row stride, rows, columns) for every output in order.
template <class T, class Window>
void for_each_adaptive_window(const OpView& view, const TensorView& operand, Window window) {
  const auto [h, w] = adaptive_window(view);
  const T* x = operand.values<T>().data();
  const int64_t planes = operand.elements() / (h.in * w.in);
  for (int64_t plane = 0; plane < planes; ++plane, x += h.in * w.in)
    for (int64_t oh = 0; oh < h.out; ++oh)
      for (int64_t ow = 0; ow < w.out; ++ow)
        window(x + h.first(oh) * w.in + w.first(ow), w.in, h.end(oh) - h.first(oh),
               w.end(ow) - w.first(ow));
}

}  // namespace dtr::ops
