// Windows of a tensor as dimensions of their own, and layers over three dimensions as those over
// two.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// Windows of `size` elements, `step` apart, along `dim`; they become the last dimension. Errors:
// those of GraphBuilder::emit, for extents that do not fit.
Result<ValueId> windows_along(GraphBuilder& builder, ValueId x, int64_t dim, int64_t size,
                              int64_t step);

// Elements `step` apart along `dim`, with `between`, one element, in the places between them.
// Errors: the same.
Result<ValueId> spread(GraphBuilder& builder, ValueId x, int64_t dim, int64_t step,
                       ValueId between);

// Two extents each: of a window, between its elements, of the zeros around, between windows.
struct Blocks {
  Ints kernel, dilation, padding, stride;
};
// The windows of an image (N, C, H, W) as columns (N, C · window, windows). Errors: the
// same.
Result<ValueId> image_to_columns(GraphBuilder& builder, ValueId x, const Blocks& blocks);
// The columns added up to an image of `size` (H, W). Errors: the same.
Result<ValueId> columns_to_image(GraphBuilder& builder, ValueId x, const Ints& size,
                                 const Blocks& blocks);

// A convolution over (N, C, D, H, W), each argument with three entries, as one over two dimensions:
// the kernel's depth is made channels. Errors: the same.
struct Convolution3d {
  ValueId weight, bias;
  Ints stride, padding, dilation;
  int64_t groups = 1;
};
Result<ValueId> convolution3d(GraphBuilder& builder, ValueId x, const Convolution3d& of);
// The transposed convolution, with zeros or more added behind each dimension: a transposed one over
// two dimensions for each plane of the kernel, at its depth, and their sum. Errors: the same.
Result<ValueId> transposed_convolution3d(GraphBuilder& builder, ValueId x, const Convolution3d& of,
                                         const Ints& output_padding);

}  // namespace dtr::compositions
