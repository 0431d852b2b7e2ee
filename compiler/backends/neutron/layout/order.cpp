#include "compiler/backends/neutron/layout/order.h"

#include <algorithm>
#include <cstdlib>

#include "compiler/support/diagnostic.h"

namespace dtr::neutron {
namespace {

void sort_by_step(Order& digits) {
  std::sort(digits.begin(), digits.end(),
            [](const Digit& a, const Digit& b) { return std::abs(a.step) > std::abs(b.step); });
}

// The digits of each dimension, highest place first; places count within the dimension.
using DigitsOfDims = std::vector<std::vector<Digit>>;

std::optional<DigitsOfDims> digits_of_dims(const Order& order, const Shape& shape) {
  const std::optional<Order> digits = split_at_dims(order, shape);
  if (!digits) return std::nullopt;
  const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
  DigitsOfDims result(shape.size());
  for (const Digit& digit : *digits) {
    if (digit.extent == 1) continue;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (shape[dim] == 1 || digit.place < places[dim] || digit.place >= places[dim] * shape[dim])
        continue;
      result[dim].push_back({digit.extent, digit.place / places[dim], digit.step});
      break;
    }
  }
  for (std::vector<Digit>& of_dim : result)
    std::sort(of_dim.begin(), of_dim.end(),
              [](const Digit& a, const Digit& b) { return a.place > b.place; });
  return result;
}

Order order_of_dims(const DigitsOfDims& dims, const Shape& shape) {
  const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
  Order digits;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    for (const Digit& digit : dims[dim])
      digits.push_back({digit.extent, digit.place * places[dim], digit.step});
  return normalized(std::move(digits));
}

}  // namespace

Order compacted(const Order& order) {
  Order digits = order;
  if (std::any_of(digits.begin(), digits.end(), [](const Digit& digit) { return digit.step == 0; }))
    std::sort(digits.begin(), digits.end(),
              [](const Digit& a, const Digit& b) { return a.place > b.place; });
  int64_t step = 1;
  for (size_t i = digits.size(); i-- > 0;) {
    digits[i].step = step;
    step *= digits[i].extent;
  }
  return normalized(std::move(digits));
}

Order normalized(Order digits) {
  std::erase_if(digits, [](const Digit& digit) { return digit.extent == 1; });
  sort_by_step(digits);
  Order merged;
  for (const Digit& digit : digits) {
    if (!merged.empty() && merged.back().step == digit.step * digit.extent &&
        merged.back().place == digit.place * digit.extent) {
      merged.back() = {merged.back().extent * digit.extent, digit.place, digit.step};
    } else {
      merged.push_back(digit);
    }
  }
  return merged;
}

Order contiguous_order(int64_t elements) { return normalized({{elements, 1, 1}}); }

Order strided_order(const Shape& shape, std::span<const int64_t> steps) {
  const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
  Order digits;
  for (size_t i = 0; i < shape.size(); ++i) digits.push_back({shape[i], places[i], steps[i]});
  return normalized(std::move(digits));
}

Order dense_order(const Shape& shape, std::span<const int> dims) {
  std::vector<int64_t> steps(shape.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    steps[static_cast<size_t>(dims[i])] = step;
    step *= shape[static_cast<size_t>(dims[i])];
  }
  return strided_order(shape, steps);
}

Order order_of(const Shape& shape, Layout layout) {
  return dense_order(shape, dim_order(layout, shape.size()));
}

std::optional<Order> split_at(const Order& order, std::span<const int64_t> places) {
  std::vector<int64_t> sorted(places.begin(), places.end());
  std::sort(sorted.begin(), sorted.end());
  Order result;
  for (Digit rest : order) {
    for (const int64_t place : sorted) {
      if (place <= rest.place || place >= rest.place * rest.extent) continue;
      if (place % rest.place != 0 || rest.place * rest.extent % place != 0) return std::nullopt;
      const int64_t inner = place / rest.place;
      result.push_back({inner, rest.place, rest.step});
      rest = {rest.extent / inner, place, rest.step * inner};
    }
    result.push_back(rest);
  }
  sort_by_step(result);
  return result;
}

std::optional<Order> split_at_dims(const Order& order, const Shape& shape) {
  return split_at(order, strides(shape, Layout::kContiguous));
}

std::optional<Order> permuted(const Order& order, const Shape& shape,
                              std::span<const size_t> dims) {
  const std::optional<DigitsOfDims> digits = digits_of_dims(order, shape);
  if (!digits) return std::nullopt;
  DigitsOfDims moved;
  Shape new_shape;
  for (const size_t dim : dims) {
    moved.push_back((*digits)[dim]);
    new_shape.push_back(shape[dim]);
  }
  return order_of_dims(moved, new_shape);
}

std::optional<Section> sliced(const Order& order, const Shape& shape, size_t dim, int64_t start,
                              int64_t count, int64_t step) {
  std::optional<DigitsOfDims> digits = digits_of_dims(order, shape);
  if (!digits) return std::nullopt;
  Section part;
  std::vector<Digit> kept;
  for (const Digit& digit : (*digits)[dim]) {
    const int64_t last = start + (count - 1) * step;
    if (start / digit.place == last / digit.place) {  // one value of this digit
      part.offset += start / digit.place * digit.step;
      start %= digit.place;
      continue;
    }
    if (digit.place == 1) {
      kept.push_back({count, 1, digit.step * step});
    } else if (step == 1 && start % digit.place == 0 &&
               count % digit.place == 0) {  // whole values of it, and all of those below
      kept.push_back({count / digit.place, digit.place, digit.step});
      count = digit.place;
    } else {
      return std::nullopt;
    }
    part.offset += start / digit.place * digit.step;
    start = 0;
  }
  Shape new_shape = shape;
  new_shape[dim] = 1;
  for (const Digit& digit : kept) new_shape[dim] *= digit.extent;
  (*digits)[dim] = std::move(kept);
  part.order = order_of_dims(*digits, new_shape);
  return part;
}

std::optional<Section> reversed(const Order& order, const Shape& shape,
                                const std::vector<bool>& dims) {
  std::optional<DigitsOfDims> digits = digits_of_dims(order, shape);
  if (!digits) return std::nullopt;
  Section part;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (!dims[dim]) continue;
    for (Digit& digit : (*digits)[dim]) {
      part.offset += (digit.extent - 1) * digit.step;
      digit.step = -digit.step;
    }
  }
  part.order = order_of_dims(*digits, shape);
  return part;
}

std::optional<std::vector<int64_t>> steps_of(const Order& order, const Shape& shape) {
  const auto digits = split_at_dims(order, shape);
  if (!digits) return std::nullopt;
  const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
  std::vector<int64_t> steps(shape.size(), 0);
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == 1) continue;
    const auto digit = std::find_if(digits->begin(), digits->end(), [&](const Digit& of) {
      return of.place == places[dim] && of.extent == shape[dim];
    });
    if (digit == digits->end()) return std::nullopt;
    steps[dim] = digit->step;
  }
  return steps;
}

std::optional<std::vector<JointLoop>> joint_loops(std::span<const Order> orders) {
  std::vector<int64_t> places;
  for (const Order& order : orders)
    for (const Digit& digit : order) places.push_back(digit.place);
  std::vector<JointLoop> loops;
  for (const Order& order : orders) {
    // All write the same index in the same radix then: pair the digits by place.
    std::optional<Order> digits = split_at(order, places);
    if (!digits || (&order != orders.data() && digits->size() != loops.size())) return std::nullopt;
    std::sort(digits->begin(), digits->end(),
              [](const Digit& x, const Digit& y) { return x.place < y.place; });
    if (&order == orders.data()) loops.resize(digits->size());
    for (size_t i = 0; i < loops.size(); ++i) {
      if (loops[i].steps.empty()) loops[i].extent = (*digits)[i].extent;
      if (loops[i].extent != (*digits)[i].extent) return std::nullopt;
      loops[i].steps.push_back((*digits)[i].step);
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

std::optional<std::vector<CopyLoop>> copy_loops(const Order& from, const Order& to) {
  const Order orders[] = {from, to};
  const auto loops = joint_loops(orders);
  if (!loops) return std::nullopt;
  std::vector<CopyLoop> result;
  for (const JointLoop& loop : *loops)
    result.push_back({loop.extent, loop.steps[0], loop.steps[1]});
  return result;
}

std::optional<Order> broadcast_order(const Order& order, const Shape& from, const Shape& shape) {
  const std::optional<Order> digits = split_at_dims(order, from);
  if (!digits) return std::nullopt;
  const std::vector<int64_t> from_places = strides(from, Layout::kContiguous);
  const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
  const size_t shift = shape.size() - from.size();
  Order result;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (dim < shift || from[dim - shift] != shape[dim]) {
      result.push_back({shape[dim], places[dim], 0});
      continue;
    }
    const int64_t first = from_places[dim - shift];
    for (const Digit& digit : *digits)
      if (digit.extent != 1 && digit.place >= first && digit.place < first * shape[dim])
        result.push_back({digit.extent, digit.place / first * places[dim], digit.step});
  }
  return normalized(std::move(result));
}

std::vector<std::byte> rearranged(std::span<const std::byte> contiguous, const Order& to) {
  std::vector<std::byte> result(contiguous.size());
  const auto loops = copy_loops(contiguous_order(static_cast<int64_t>(contiguous.size())), to);
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
