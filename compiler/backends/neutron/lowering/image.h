// Values as NHWC images where they lie: kernels with a window take the distances of pixels, rows
// and images, so that a part of a larger tensor is read and written in place.
#pragma once

#include <array>

#include "compiler/backends/neutron/lowering/builder.h"

namespace dtr::neutron {

// Which dimension of a value is what; −1: there is none.
struct ImageDims {
  int batch, height, width, channels;
};
constexpr ImageDims kBatchOfImages{0, 2, 3, 1};  // (N, C, H, W)
constexpr ImageDims kBatchOfRows{0, -1, 2, 1};   // (N, C, W)
constexpr ImageDims kSingleImage{-1, 1, 2, 0};   // (C, H, W)

struct Pixels {
  npu::Address address;
  npu::Strides strides;
};

// Dense NHWC.
StridedLayout image_layout(const Shape& shape, const ImageDims& dims);
// A value for the call being built; it is copied first if its channels do not lie side by side.
Pixels read_image(Builder& builder, ValueId value, const ImageDims& dims);
// Where calls that read the values `read` write `value`: in a concatenation, if one wants it and
// they may.
Pixels define_image(Builder& builder, ValueId value, const ImageDims& dims,
                    std::span<const ValueId> read);

}  // namespace dtr::neutron
