// Helpers for aten.upsample_nearest2d and aten.upsample_bilinear2d: which inputs each output of an
// axis reads.
//
// Attributes beyond PyTorch's schema are options of .tflite files: `half_pixel_centers` (of nearest
// neighbours; PyTorch's bilinear always has them unless it aligns corners), `align_corners` of
// nearest neighbours, and `fraction_bits` 10: positions are computed as TFLite does.
#pragma once

#include "compiler/ops/define.h"
#include "device/numerics/resize.h"

namespace dtr::ops {

struct ResizeRule {
  int64_t in = 1, out = 1;
  double factor = 0;  // PyTorch's scale argument, output to input; 0: the ratio of the extents
  bool align_corners = false, half_pixel_centers = false;
};
// The rule for height (axis 0) or width (1).
ResizeRule resize_rule(const OpView& view, size_t axis);
// Checks operand, sizes and scale factors. Error: kIrInvalid.
Result<void> verify_resize(const OpView& view);
std::vector<Type> infer_resize(const OpView& view);

// The input nearest to output o, computed in float as PyTorch and TFLite do.
int64_t nearest_input(const ResizeRule& rule, int64_t o);
// The real position of output o, not limited to the input.
double resize_position(const ResizeRule& rule, double o);

// The two inputs that each output lies between, and the part of the upper one.
struct BilinearTaps {
  int64_t lower, upper;
  double weight;
};
std::vector<BilinearTaps> bilinear_taps(const ResizeRule& rule);

// The axis in fixed point. Nearest neighbours: steps that reproduce nearest_input for each output;
// std::nullopt if there are none, which needs extents in the millions.
std::optional<numerics::ResizeAxis> nearest_axis(const ResizeRule& rule);
numerics::ResizeAxis bilinear_axis(const ResizeRule& rule, bool as_tflite);

}  // namespace dtr::ops
