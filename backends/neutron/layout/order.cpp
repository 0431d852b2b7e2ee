#include "backends/neutron/layout/order.h"

#include <algorithm>

#include "support/diagnostic.h"

namespace dtr::neutron {
namespace {

void sort_by_step(Order& digits) {
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.step > b.step; });
}

}  // namespace

Order normalized(Order digits) {
  std::erase_if(digits, [](const Digit& digit) { return digit.extent == 1; });
  sort_by_step(digits);
  Order merged;
  for (const Digit& digit : digits) {
    if (!merged.empty() && merged.back().step == digit.step * digit.extent && merged.back().place == digit.place * digit.extent) {
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

Order order_of(const Shape& shape, Layout layout) { return dense_order(shape, dim_order(layout, shape.size())); }

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

std::optional<Order> split_at_dims(const Order& order, const Shape& shape) { return split_at(order, strides(shape, Layout::kContiguous)); }

std::optional<Order> permuted(const Order& order, const Shape& shape, std::span<const size_t> dims) {
  std::optional<Order> digits = split_at_dims(order, shape);
  if (!digits) return std::nullopt;
  const std::vector<int64_t> old_places = strides(shape, Layout::kContiguous);
  Shape new_shape;
  for (const size_t dim : dims) new_shape.push_back(shape[dim]);
  const std::vector<int64_t> new_places = strides(new_shape, Layout::kContiguous);
  for (Digit& digit : *digits) {
    if (digit.extent == 1) continue;
    for (size_t i = 0; i < dims.size(); ++i) {
      const int64_t old_place = old_places[dims[i]];
      if (shape[dims[i]] == 1 || digit.place < old_place || digit.place >= old_place * shape[dims[i]]) continue;
      digit.place = digit.place / old_place * new_places[i];
      break;
    }
  }
  return normalized(std::move(*digits));
}

Order compacted(Order order) {
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    order[i].step = step;
    step *= order[i].extent;
  }
  return normalized(std::move(order));
}

std::optional<std::vector<int64_t>> steps_of(const Order& order, const Shape& shape) {
  const auto digits = split_at_dims(order, shape);
  if (!digits) return std::nullopt;
  const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
  std::vector<int64_t> steps(shape.size(), 0);
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == 1) continue;
    const auto digit =
        std::find_if(digits->begin(), digits->end(), [&](const Digit& of) { return of.place == places[dim] && of.extent == shape[dim]; });
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
    std::sort(digits->begin(), digits->end(), [](const Digit& x, const Digit& y) { return x.place < y.place; });
    if (&order == orders.data()) loops.resize(digits->size());
    for (size_t i = 0; i < loops.size(); ++i) {
      if (loops[i].steps.empty()) loops[i].extent = (*digits)[i].extent;
      if (loops[i].extent != (*digits)[i].extent) return std::nullopt;
      loops[i].steps.push_back((*digits)[i].step);
    }
  }
  std::sort(loops.begin(), loops.end(), [](const JointLoop& x, const JointLoop& y) { return x.steps.back() > y.steps.back(); });
  std::vector<JointLoop> merged;
  for (const JointLoop& loop : loops) {
    bool continues = !merged.empty();
    for (size_t i = 0; continues && i < loop.steps.size(); ++i) continues = merged.back().steps[i] == loop.steps[i] * loop.extent;
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
  for (const JointLoop& loop : *loops) result.push_back({loop.extent, loop.steps[0], loop.steps[1]});
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
  DTR_CHECK(loops.has_value());  // the contiguous order is one digit, which every dense order divides
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
