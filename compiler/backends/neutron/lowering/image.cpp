#include "compiler/backends/neutron/lowering/image.h"

namespace dtr::neutron {
namespace {

int64_t extent(const Shape& shape, int dim) {
  return dim < 0 ? 1 : shape[static_cast<size_t>(dim)];
}

// nullopt if no kernel can read or write that order.
std::optional<npu::Strides> strides_of(const StridedLayout& layout, const Shape& shape,
                                       const ImageDims& dims) {
  const auto steps = steps_of(layout, shape);
  if (!steps) return std::nullopt;
  const auto step = [&](int dim, int64_t dense) {
    return extent(shape, dim) == 1 ? dense : (*steps)[static_cast<size_t>(dim)];
  };
  if (step(dims.channels, 1) != 1) return std::nullopt;
  const int64_t pixel = step(dims.width, extent(shape, dims.channels));
  const int64_t row = step(dims.height, extent(shape, dims.width) * pixel);
  const int64_t batch = step(dims.batch, extent(shape, dims.height) * row);
  if (pixel < 1 || row < 1 || batch < 1) return std::nullopt;
  return npu::Strides{static_cast<uint32_t>(pixel), static_cast<uint32_t>(row),
                      static_cast<uint32_t>(batch)};
}

// As a call writes: each pixel ends before the next one begins, each row too, and each image.
bool in_order(const npu::Strides& strides, const Shape& shape, const ImageDims& dims) {
  int64_t length = extent(shape, dims.channels);
  for (const auto& [dim, stride] : {std::pair{dims.width, strides.pixel},
                                    {dims.height, strides.row},
                                    {dims.batch, strides.batch}}) {
    if (extent(shape, dim) == 1) continue;
    if (stride < length) return false;
    length += (extent(shape, dim) - 1) * stride;
  }
  return true;
}

}  // namespace

StridedLayout image_layout(const Shape& shape, const ImageDims& dims) {
  std::vector<int> layout;
  for (const int dim : {dims.batch, dims.height, dims.width, dims.channels})
    if (dim >= 0) layout.push_back(dim);
  return dense_layout(shape, layout);
}

Pixels read_image(Builder& builder, ValueId value, const ImageDims& dims) {
  const Shape& shape = builder.graph().type(value).shape;
  if (!builder.graph().is_constant(value)) {
    const StridedLayout existing = builder.layout_of(value);
    if (const auto strides = strides_of(existing, shape, dims))
      return {builder.read(value, existing), *strides};
  }
  const StridedLayout dense = image_layout(shape, dims);
  return {builder.read(value, dense), *strides_of(dense, shape, dims)};
}

Pixels define_image(Builder& builder, ValueId value, const ImageDims& dims,
                    std::span<const ValueId> read) {
  const Shape& shape = builder.graph().type(value).shape;
  if (const Subview* part = builder.planned_subview(value);
      part != nullptr && builder.may_write(*part, read))
    if (const auto strides = strides_of(part->layout, shape, dims);
        strides && in_order(*strides, shape, dims))
      return {builder.define(value, part->layout), *strides};
  const StridedLayout dense = image_layout(shape, dims);
  return {builder.define(value, dense), *strides_of(dense, shape, dims)};
}

}  // namespace dtr::neutron
