// Values of images between their pixels, at places that are known or computed: sums of rows of the
// table of pixels, each multiplied by its part.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

enum class Between : uint8_t { kNearest, kLinear, kCubic };  // nearest: of two the even one
enum class Outside : uint8_t { kZeros, kBorder, kReflection };

struct Sampling {
  Between between = Between::kLinear;
  Outside outside = Outside::kZeros;
  bool aligned = false;  // reflection at the centers of the outermost pixels, not at their edges
};

// The values (R, C, S) of images (N, C, …) at places: for each spatial dimension, the last first, a
// tensor (R, S) that counts pixels from the center of the first. Row r reads image r, or that whose
// number, a float, is in `images` (R, 1). Errors: those of GraphBuilder::emit; more than 2^24
// pixels, whose numbers float32 would not hold; shapes that do not fit.
Result<ValueId> sample_images(GraphBuilder& builder, ValueId x, const std::vector<ValueId>& places,
                              const Sampling& how, ValueId images = {});

// The same for places from −1 to 1, the edges of the image, or with `how.aligned` the centers of
// its outermost pixels: a grid (N, …, dimensions), the last dimension first (torch's grid_sample).
// Errors: the same.
Result<ValueId> sample_grid(GraphBuilder& builder, ValueId x, ValueId grid, const Sampling& how);

// The grid (N, …, dimensions) for `size`, (N, C, …): an affine function of each pixel's own place,
// with matrices `theta` (N, dimensions, dimensions + 1). `aligned` as in Sampling. Errors: the
// same.
Result<ValueId> affine_grid(GraphBuilder& builder, ValueId theta, const Ints& size, bool aligned);

// Averages (R, C, height, width) of the parts of boxes (R, 4), the left, upper, right and lower
// edge each, in images whose numbers are `images` (R): torchvision's roi_align. Errors: the same.
struct BoxParts {
  double scale = 1;  // from the boxes' units to pixels
  int64_t height = 1, width = 1;
  int64_t samples = 1;   // along each dimension of a part
  bool centered = true;  // boxes count from the edge of the first pixel, not from its center
};
Result<ValueId> box_parts(GraphBuilder& builder, ValueId x, ValueId boxes, ValueId images,
                          const BoxParts& of);

// A convolution over (N, C, H, W) whose taps are moved by `offset` (N, groups of offsets · kernel ·
// 2, h, w), y before x, and multiplied by `mask` (N, groups of offsets · kernel, h, w), which may
// be invalid, as `bias` (torchvision's deform_conv2d). Errors: the same.
struct MovedConvolution {
  ValueId weight, offset, mask, bias;
  Ints stride, padding, dilation;  // two entries each; padding above and on the left
  int64_t groups = 1, offset_groups = 1;
};
Result<ValueId> moved_convolution(GraphBuilder& builder, ValueId x, const MovedConvolution& of);

}  // namespace dtr::compositions
