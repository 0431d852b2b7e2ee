// Addresses values as NHWC images in place: kernels with a window take the strides of pixels, rows
// and images, so that they read and write a part of a larger tensor without a copy.
#pragma once

#include <array>

#include "compiler/backends/neutron/lowering/builder.h"

namespace dtr::neutron {

// Which dimension of a value is the batch, the height, the width and the channels; −1: it has none.
struct ImageDims {
  int batch, height, width, channels;
};
constexpr ImageDims kBatchOfImages{0, 2, 3, 1};  // (N, C, H, W)
constexpr ImageDims kBatchOfRows{0, -1, 2, 1};   // (N, C, W)
constexpr ImageDims kSingleImage{-1, 1, 2, 0};   // (C, H, W)

// An NHWC image in memory: the address of its first element and the strides of images, rows and
// pixels.
struct Pixels {
  npu::Address address;
  npu::Strides strides;
};

// Dense NHWC.
StridedLayout image_layout(const Shape& shape, const ImageDims& dims);
// The value as an operand of the call being built. Copies it first if its channels are not adjacent
// in memory.
Pixels read_image(Builder& builder, ValueId value, const ImageDims& dims);
// Where calls that read the values `read` write `value`: in its subview of a concatenation if it
// has one and the calls may write there, else in a storage of its own.
Pixels define_image(Builder& builder, ValueId value, const ImageDims& dims,
                    std::span<const ValueId> read);

}  // namespace dtr::neutron
