// Shared by the adaptive pools: output o of an axis covers the inputs from ⌊o · in / out⌋ to before
// ⌈(o + 1) · in / out⌉.
#pragma once

#include "device/runtime/kernels/portable/pool.h"

namespace dtr::runtime::portable {

// Returns false if ranks or extents do not match.
inline bool make_adaptive_pool(const Tensor& in, const Tensor& out, std::span<const int64_t> size,
                               Pool* pool) {
  if ((in.rank != 3 && in.rank != 4) || out.rank != in.rank || size.size() != 2) return false;
  pool->in = pool_image(in);
  pool->out = pool_image(out);
  return pool->in.batch == pool->out.batch && pool->in.channels == pool->out.channels &&
         pool->out.height == size[0] && pool->out.width == size[1] && pool->in.height > 0 &&
         pool->in.width > 0;
}

// Calls visit(offset, row, column) for each input of the window of output (row, column).
template <class Visit>
void for_each_in_window(const Pool& pool, int32_t from, int32_t out_row, int32_t out_column,
                        Visit visit) {
  const auto first = [](int64_t o, int64_t in, int64_t out) {
    return static_cast<int32_t>(o * in / out);
  };
  const auto end = [](int64_t o, int64_t in, int64_t out) {
    return static_cast<int32_t>(((o + 1) * in + out - 1) / out);
  };
  for (int32_t row = first(out_row, pool.in.height, pool.out.height);
       row < end(out_row, pool.in.height, pool.out.height); ++row) {
    for (int32_t column = first(out_column, pool.in.width, pool.out.width);
         column < end(out_column, pool.in.width, pool.out.width); ++column) {
      visit(from + row * pool.in.row_stride + column * pool.in.column_stride, row, column);
    }
  }
}

}  // namespace dtr::runtime::portable
