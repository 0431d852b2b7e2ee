#include "compiler/backends/neutron/layout/strided_layout.h"

#include <algorithm>
#include <cstdlib>

#include "compiler/support/diagnostic.h"

namespace dtr::neutron {
namespace {

void sort_by_step(StridedLayout& modes) {
  std::sort(modes.begin(), modes.end(), [](const Mode& a, const Mode& b) {
    return std::abs(a.byte_stride) > std::abs(b.byte_stride);
  });
}

// The digits of each dimension, highest place first; places count within the dimension.
using ModesOfDims = std::vector<std::vector<Mode>>;

std::optional<ModesOfDims> modes_of_dims(const StridedLayout& layout, const Shape& shape) {
  const std::optional<StridedLayout> modes = split_at_dims(layout, shape);
  if (!modes) return std::nullopt;
  const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
  ModesOfDims result(shape.size());
  for (const Mode& mode : *modes) {
    if (mode.extent == 1) continue;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (shape[dim] == 1 || mode.logical_stride < places[dim] ||
          mode.logical_stride >= places[dim] * shape[dim])
        continue;
      result[dim].push_back({mode.extent, mode.logical_stride / places[dim], mode.byte_stride});
      break;
    }
  }
  for (std::vector<Mode>& of_dim : result)
    std::sort(of_dim.begin(), of_dim.end(),
              [](const Mode& a, const Mode& b) { return a.logical_stride > b.logical_stride; });
  return result;
}

StridedLayout layout_of_dims(const ModesOfDims& dims, const Shape& shape) {
  const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
  StridedLayout modes;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    for (const Mode& mode : dims[dim])
      modes.push_back({mode.extent, mode.logical_stride * places[dim], mode.byte_stride});
  return normalized(std::move(modes));
}

}  // namespace

StridedLayout compacted(const StridedLayout& layout) {
  StridedLayout modes = layout;
  if (std::any_of(modes.begin(), modes.end(),
                  [](const Mode& mode) { return mode.byte_stride == 0; }))
    std::sort(modes.begin(), modes.end(),
              [](const Mode& a, const Mode& b) { return a.logical_stride > b.logical_stride; });
  int64_t step = 1;
  for (size_t i = modes.size(); i-- > 0;) {
    modes[i].byte_stride = step;
    step *= modes[i].extent;
  }
  return normalized(std::move(modes));
}

StridedLayout normalized(StridedLayout modes) {
  std::erase_if(modes, [](const Mode& mode) { return mode.extent == 1; });
  sort_by_step(modes);
  StridedLayout merged;
  for (const Mode& mode : modes) {
    if (!merged.empty() && merged.back().byte_stride == mode.byte_stride * mode.extent &&
        merged.back().logical_stride == mode.logical_stride * mode.extent) {
      merged.back() = {merged.back().extent * mode.extent, mode.logical_stride, mode.byte_stride};
    } else {
      merged.push_back(mode);
    }
  }
  return merged;
}

StridedLayout contiguous_layout(int64_t elements) { return normalized({{elements, 1, 1}}); }

StridedLayout strided_layout(const Shape& shape, std::span<const int64_t> steps) {
  const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
  StridedLayout modes;
  for (size_t i = 0; i < shape.size(); ++i) modes.push_back({shape[i], places[i], steps[i]});
  return normalized(std::move(modes));
}

StridedLayout dense_layout(const Shape& shape, std::span<const int> dims) {
  std::vector<int64_t> steps(shape.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    steps[static_cast<size_t>(dims[i])] = step;
    step *= shape[static_cast<size_t>(dims[i])];
  }
  return strided_layout(shape, steps);
}

StridedLayout strided_layout(const Shape& shape, Layout layout) {
  return dense_layout(shape, dim_order(layout, shape.size()));
}

std::optional<StridedLayout> split_at(const StridedLayout& layout,
                                      std::span<const int64_t> places) {
  std::vector<int64_t> sorted(places.begin(), places.end());
  std::sort(sorted.begin(), sorted.end());
  StridedLayout result;
  for (Mode rest : layout) {
    for (const int64_t place : sorted) {
      if (place <= rest.logical_stride || place >= rest.logical_stride * rest.extent) continue;
      if (place % rest.logical_stride != 0 || rest.logical_stride * rest.extent % place != 0)
        return std::nullopt;
      const int64_t inner = place / rest.logical_stride;
      result.push_back({inner, rest.logical_stride, rest.byte_stride});
      rest = {rest.extent / inner, place, rest.byte_stride * inner};
    }
    result.push_back(rest);
  }
  sort_by_step(result);
  return result;
}

std::optional<StridedLayout> split_at_dims(const StridedLayout& layout, const Shape& shape) {
  return split_at(layout, strides(shape, Layout::kContiguous));
}

std::optional<StridedLayout> permuted(const StridedLayout& layout, const Shape& shape,
                                      std::span<const size_t> dims) {
  const std::optional<ModesOfDims> modes = modes_of_dims(layout, shape);
  if (!modes) return std::nullopt;
  ModesOfDims moved;
  Shape new_shape;
  for (const size_t dim : dims) {
    moved.push_back((*modes)[dim]);
    new_shape.push_back(shape[dim]);
  }
  return layout_of_dims(moved, new_shape);
}

std::optional<Section> sliced(const StridedLayout& layout, const Shape& shape, size_t dim,
                              int64_t start, int64_t count, int64_t step) {
  std::optional<ModesOfDims> modes = modes_of_dims(layout, shape);
  if (!modes) return std::nullopt;
  Section part;
  std::vector<Mode> kept;
  for (const Mode& mode : (*modes)[dim]) {
    const int64_t last = start + (count - 1) * step;
    if (start / mode.logical_stride == last / mode.logical_stride) {  // one value of this digit
      part.offset += start / mode.logical_stride * mode.byte_stride;
      start %= mode.logical_stride;
      continue;
    }
    if (mode.logical_stride == 1) {
      kept.push_back({count, 1, mode.byte_stride * step});
    } else if (step == 1 && start % mode.logical_stride == 0 &&
               count % mode.logical_stride == 0) {  // whole values of it, and all of those below
      kept.push_back({count / mode.logical_stride, mode.logical_stride, mode.byte_stride});
      count = mode.logical_stride;
    } else {
      return std::nullopt;
    }
    part.offset += start / mode.logical_stride * mode.byte_stride;
    start = 0;
  }
  Shape new_shape = shape;
  new_shape[dim] = 1;
  for (const Mode& mode : kept) new_shape[dim] *= mode.extent;
  (*modes)[dim] = std::move(kept);
  part.layout = layout_of_dims(*modes, new_shape);
  return part;
}

std::optional<Section> reversed(const StridedLayout& layout, const Shape& shape,
                                const std::vector<bool>& dims) {
  std::optional<ModesOfDims> modes = modes_of_dims(layout, shape);
  if (!modes) return std::nullopt;
  Section part;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (!dims[dim]) continue;
    for (Mode& mode : (*modes)[dim]) {
      part.offset += (mode.extent - 1) * mode.byte_stride;
      mode.byte_stride = -mode.byte_stride;
    }
  }
  part.layout = layout_of_dims(*modes, shape);
  return part;
}

std::optional<std::vector<int64_t>> steps_of(const StridedLayout& layout, const Shape& shape) {
  const auto modes = split_at_dims(layout, shape);
  if (!modes) return std::nullopt;
  const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
  std::vector<int64_t> steps(shape.size(), 0);
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == 1) continue;
    const auto mode = std::find_if(modes->begin(), modes->end(), [&](const Mode& of) {
      return of.logical_stride == places[dim] && of.extent == shape[dim];
    });
    if (mode == modes->end()) return std::nullopt;
    steps[dim] = mode->byte_stride;
  }
  return steps;
}

std::optional<std::vector<JointLoop>> joint_loops(std::span<const StridedLayout> layouts) {
  std::vector<int64_t> places;
  for (const StridedLayout& layout : layouts)
    for (const Mode& mode : layout) places.push_back(mode.logical_stride);
  std::vector<JointLoop> loops;
  for (const StridedLayout& layout : layouts) {
    // All write the same index in the same radix then: pair the digits by place.
    std::optional<StridedLayout> modes = split_at(layout, places);
    if (!modes || (&layout != layouts.data() && modes->size() != loops.size())) return std::nullopt;
    std::sort(modes->begin(), modes->end(),
              [](const Mode& x, const Mode& y) { return x.logical_stride < y.logical_stride; });
    if (&layout == layouts.data()) loops.resize(modes->size());
    for (size_t i = 0; i < loops.size(); ++i) {
      if (loops[i].steps.empty()) loops[i].extent = (*modes)[i].extent;
      if (loops[i].extent != (*modes)[i].extent) return std::nullopt;
      loops[i].steps.push_back((*modes)[i].byte_stride);
    }
  }
  std::sort(loops.begin(), loops.end(),
            [](const JointLoop& x, const JointLoop& y) { return x.steps.back() > y.steps.back(); });
  std::vector<JointLoop> merged;
  for (const JointLoop& loop : loops) {
    bool continues = !merged.empty();
    for (size_t i = 0; continues && i < loop.steps.size(); ++i)
      continues = merged.back().steps[i] == loop.steps[i] * loop.extent;
    if (continues) {
      merged.back().extent *= loop.extent;
      merged.back().steps = loop.steps;
    } else {
      merged.push_back(loop);
    }
  }
  return merged;
}

std::optional<std::vector<CopyLoop>> copy_loops(const StridedLayout& from,
                                                const StridedLayout& to) {
  const StridedLayout layouts[] = {from, to};
  const auto loops = joint_loops(layouts);
  if (!loops) return std::nullopt;
  std::vector<CopyLoop> result;
  for (const JointLoop& loop : *loops)
    result.push_back({loop.extent, loop.steps[0], loop.steps[1]});
  return result;
}

std::optional<StridedLayout> broadcast_layout(const StridedLayout& layout, const Shape& from,
                                              const Shape& shape) {
  const std::optional<StridedLayout> modes = split_at_dims(layout, from);
  if (!modes) return std::nullopt;
  const std::vector<int64_t> from_places = strides(from, Layout::kContiguous);
  const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
  const size_t shift = shape.size() - from.size();
  StridedLayout result;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (dim < shift || from[dim - shift] != shape[dim]) {
      result.push_back({shape[dim], places[dim], 0});
      continue;
    }
    const int64_t first = from_places[dim - shift];
    for (const Mode& mode : *modes)
      if (mode.extent != 1 && mode.logical_stride >= first &&
          mode.logical_stride < first * shape[dim])
        result.push_back(
            {mode.extent, mode.logical_stride / first * places[dim], mode.byte_stride});
  }
  return normalized(std::move(result));
}

std::vector<std::byte> rearranged(std::span<const std::byte> contiguous, const StridedLayout& to) {
  std::vector<std::byte> result(contiguous.size());
  const auto loops = copy_loops(contiguous_layout(static_cast<int64_t>(contiguous.size())), to);
  DTR_CHECK(
      loops.has_value() &&
      to == compacted(to));  // the contiguous order is one digit, which every dense order divides
  std::vector<int64_t> index(loops->size(), 0);
  int64_t source = 0;
  int64_t target = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    result[static_cast<size_t>(target)] = contiguous[static_cast<size_t>(source)];
    for (size_t d = loops->size(); d-- > 0;) {
      const CopyLoop& loop = (*loops)[d];
      source += loop.from_step;
      target += loop.to_step;
      if (++index[d] < loop.extent) break;
      source -= loop.from_step * loop.extent;
      target -= loop.to_step * loop.extent;
      index[d] = 0;
    }
  }
  return result;
}

}  // namespace dtr::neutron
