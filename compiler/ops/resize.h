// What aten.upsample_nearest2d and aten.upsample_bilinear2d share: which input each output of an
// axis reads.
//
// Attributes beyond PyTorch's schema say what .tflite files may ask for: `half_pixel_centers` (of
// nearest neighbours; PyTorch's bilinear has them unless it aligns corners), `align_corners` of
// nearest neighbours, and `fraction_bits` 10: positions step as TFLite's do.
#pragma once

#include "compiler/ops/define.h"
#include "device/numerics/resize.h"

namespace dtr::ops {

struct ResizeRule {
  int64_t in = 1, out = 1;
  double factor = 0;  // PyTorch's scale argument, output to input; 0: the ratio of the extents
  bool align_corners = false, half_pixel_centers = false;
};
// Of height (0) or width (1).
ResizeRule resize_rule(const OpView& view, size_t axis);
Result<void> verify_resize(const OpView& view);
std::vector<Type> infer_resize(const OpView& view);

// The input that is nearest to output o, in float as PyTorch and TFLite compute it.
int64_t nearest_input(const ResizeRule& rule, int64_t o);
// The real position of output o, not limited to the input.
double resize_position(const ResizeRule& rule, double o);

// The axis in fixed point. Nearest neighbours: steps that give nearest_input for each output;
// nullopt if there are none (only extents in the millions could be so).
std::optional<numerics::ResizeAxis> nearest_axis(const ResizeRule& rule);
numerics::ResizeAxis bilinear_axis(const ResizeRule& rule, bool as_tflite);

}  // namespace dtr::ops
