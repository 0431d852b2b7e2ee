// Shared by the two pools: operands [C, H, W] or [N, C, H, W] and the window.
#pragma once

#include "device/runtime/kernels/portable/window.h"

namespace dtr::runtime::portable {

struct Pool {
  Image in, out;
  Axis vertical, horizontal;
};

// A tensor [C, H, W] or [N, C, H, W] as an image.
inline Image pool_image(const Tensor& tensor) {
  if (tensor.rank == 4) return image_of(tensor);
  const Strides strides = strides_of(tensor);
  return {.batch = 1,
          .channels = tensor.sizes[0],
          .height = tensor.sizes[1],
          .width = tensor.sizes[2],
          .batch_stride = 0,
          .channel_stride = strides.of[0],
          .row_stride = strides.of[1],
          .column_stride = strides.of[2]};
}

// Returns false if ranks, extents or parameters do not match.
inline bool make_pool(const Tensor& in, const Tensor& out, std::span<const int64_t> kernel,
                      std::span<const int64_t> stride, std::span<const int64_t> padding,
                      std::span<const int64_t> dilation, bool ceil, Pool* pool) {
  if ((in.rank != 3 && in.rank != 4) || out.rank != in.rank || kernel.empty()) return false;
  pool->in = pool_image(in);
  pool->out = pool_image(out);
  const auto axis = [&](size_t index) {
    const int64_t extent = per_axis(kernel, index, 1);
    return Axis{extent, per_axis(stride, index, extent), per_axis(padding, index, 0),
                per_axis(dilation, index, 1)};
  };
  pool->vertical = axis(0);
  pool->horizontal = axis(1);
  const auto fits = [&](const Axis& along, int32_t from, int32_t to) {
    return along.is_valid() && along.padding <= along.kernel / 2 &&
           to == along.out_extent(from, ceil);
  };
  return pool->in.batch == pool->out.batch && pool->in.channels == pool->out.channels &&
         fits(pool->vertical, pool->in.height, pool->out.height) &&
         fits(pool->horizontal, pool->in.width, pool->out.width);
}

// Calls visit(offset of the channel in the input, output row, output column, offset in the output)
// for every output element.
template <class Visit>
void for_each_window(const Pool& pool, Visit visit) {
  if (pool.out.channels == 0 || pool.out.height == 0 || pool.out.width == 0) return;
  for (int32_t n = 0; n < pool.out.batch; ++n) {
    for (int32_t c = 0; c < pool.out.channels; ++c) {
      const int32_t from = n * pool.in.batch_stride + c * pool.in.channel_stride;
      const int32_t to = n * pool.out.batch_stride + c * pool.out.channel_stride;
      for (int32_t row = 0; row < pool.out.height; ++row) {
        for (int32_t column = 0; column < pool.out.width; ++column) {
          visit(from, row, column,
                to + row * pool.out.row_stride + column * pool.out.column_stride);
        }
      }
    }
  }
}

}  // namespace dtr::runtime::portable
