#include "compiler/ir/reorder.h"

#include <algorithm>
#include <cstring>

namespace dtr {
namespace {

struct Loop {
  int64_t extent, from, to;  // strides in bytes
};

// Loops that continue each other on both sides are one; loops of one element are none.
std::vector<Loop> joined_loops(const Shape& shape, size_t element, std::span<const int64_t> from,
                               std::span<const int64_t> to) {
  const auto size = static_cast<int64_t>(element);
  std::vector<Loop> loops;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const Loop loop{shape[d], from[d] * size, to[d] * size};
    if (!loops.empty() && loops.back().from == loop.from * loop.extent &&
        loops.back().to == loop.to * loop.extent) {
      loops.back() = {loops.back().extent * loop.extent, loop.from, loop.to};
    } else {
      loops.push_back(loop);
    }
  }
  return loops;
}

template <size_t kElement>
void copy_run(const std::byte* from, std::byte* to, const Loop& run) {
  for (int64_t i = 0; i < run.extent; ++i)
    std::memcpy(to + i * run.to, from + i * run.from, kElement);
}

void copy_run(size_t element, const std::byte* from, std::byte* to, const Loop& run) {
  if (run.from == static_cast<int64_t>(element) && run.to == run.from) {
    std::memcpy(to, from, static_cast<size_t>(run.extent) * element);
    return;
  }
  switch (element) {
    case 1:
      return copy_run<1>(from, to, run);
    case 2:
      return copy_run<2>(from, to, run);
    case 4:
      return copy_run<4>(from, to, run);
    default:
      return copy_run<8>(from, to, run);
  }
}

}  // namespace

void reorder(const Shape& shape, size_t element, const std::byte* from,
             std::span<const int64_t> from_strides, std::byte* to,
             std::span<const int64_t> to_strides) {
  if (std::ranges::find(shape, 0) != shape.end()) return;
  std::vector<Loop> loops = joined_loops(shape, element, from_strides, to_strides);
  const Loop inner = loops.empty() ? Loop{1, 0, 0} : loops.back();
  if (!loops.empty()) loops.pop_back();
  std::vector<int64_t> index(loops.size(), 0);
  for (;;) {
    copy_run(element, from, to, inner);
    size_t d = loops.size();
    for (; d > 0; --d) {
      const Loop& loop = loops[d - 1];
      from += loop.from;
      to += loop.to;
      if (++index[d - 1] < loop.extent) break;
      from -= loop.from * loop.extent;
      to -= loop.to * loop.extent;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

void to_physical(const Type& type, const std::byte* logical, std::byte* physical) {
  reorder(type.shape, byte_size(type.dtype), logical, strides(type.shape, Layout::kContiguous),
          physical, strides(type.shape, type.layout));
}

void to_logical(const Type& type, const std::byte* physical, std::byte* logical) {
  reorder(type.shape, byte_size(type.dtype), physical, strides(type.shape, type.layout), logical,
          strides(type.shape, Layout::kContiguous));
}

}  // namespace dtr
