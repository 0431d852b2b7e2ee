#include "compiler/compositions/pools.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/compositions/indices.h"

namespace dtr::compositions {
namespace {

constexpr int64_t kMostInWindows = int64_t{1} << 24;  // of all windows

// The elements of all windows, (planes, windows, elements), and the places of x that they have;
// where each window begins in that list. Windows of fewer places than others have one of them
// several times.
struct Unfolded {
  ValueId elements, places, starts;
};
Result<Unfolded> unfolded(GraphBuilder& builder, ValueId x, const Windows& windows) {
  const Shape shape = builder.type(x).shape;
  const Shape in(shape.end() - static_cast<int64_t>(windows.size()), shape.end());
  Shape out, sizes;
  for (const std::vector<Ints>& row : windows) {
    size_t size = 0;
    for (const Ints& window : row) {
      if (window.empty()) return builder.unsupported("a window without elements");
      size = std::max(size, window.size());
    }
    out.push_back(static_cast<int64_t>(row.size()));
    sizes.push_back(static_cast<int64_t>(size));
  }
  const int64_t places = element_count(out), size = element_count(sizes);
  if (places == 0 || size > kMostInWindows / places)
    return builder.unsupported(fmt::format("{} windows of {} elements", places, size));
  std::vector<double> source, first;
  for (int64_t place = 0; place < places; ++place) {
    first.push_back(static_cast<double>(place * size));
    for (int64_t k = 0; k < size; ++k) {
      int64_t index = 0, step = 1, of_place = place, of_window = k;
      for (size_t d = windows.size(); d-- > 0;) {
        const Ints& window = windows[d][static_cast<size_t>(of_place % out[d])];
        index +=
            step * window[std::min(static_cast<size_t>(of_window % sizes[d]), window.size() - 1)];
        step *= in[d];
        of_place /= out[d];
        of_window /= sizes[d];
      }
      source.push_back(static_cast<double>(index));
    }
  }
  const int64_t elements = element_count(in), planes = builder.type(x).elements() / elements;
  Unfolded result;
  DTR_ASSIGN(result.places, builder.constant(DType::kInt64, source));
  DTR_ASSIGN(result.starts, builder.constant(DType::kInt64, first));
  DTR_ASSIGN(ValueId all, builder.view(x, {planes, elements}));
  DTR_ASSIGN(all, builder.emit("aten.index_select", {all, result.places}, {{"dim", int64_t{1}}}));
  DTR_ASSIGN(result.elements, builder.view(all, {planes, places, size}));
  return result;
}

}  // namespace

Result<std::vector<Ints>> windows_of(const GraphBuilder& builder, const ops::WindowAxis& axis) {
  if (axis.kernel > kMostInWindows / std::max<int64_t>(axis.out, 1))
    return builder.unsupported(fmt::format("{} windows of {} elements", axis.out, axis.kernel));
  std::vector<Ints> windows;
  for (int64_t o = 0; o < axis.out; ++o) {
    Ints& window = windows.emplace_back();
    const ops::WindowAxis::Taps taps = axis.taps(o);
    for (int64_t k = taps.begin; k < taps.end; ++k)
      window.push_back(axis.first(o) + k * axis.dilation);
  }
  return windows;
}

Result<ValueId> places_of_greatest(GraphBuilder& builder, ValueId x, const Windows& windows,
                                   const Shape& of_result) {
  DTR_ASSIGN(const Unfolded all, unfolded(builder, x, windows));
  DTR_ASSIGN(ValueId best, builder.emit("aten.argmax", {all.elements},
                                        {{"dim", int64_t{2}}, {"keepdim", false}}));
  DTR_ASSIGN(best, builder.emit("aten.add.Tensor", {best, all.starts}));
  DTR_ASSIGN(best, builder.emit("aten.index_select", {all.places, best}, {{"dim", int64_t{0}}}));
  return builder.view(best, of_result);
}

Result<ValueId> greatest_of_windows(GraphBuilder& builder, ValueId x, const Windows& windows) {
  DTR_ASSIGN(const Unfolded all, unfolded(builder, x, windows));
  DTR_ASSIGN(const ValueId best,
             builder.emit("aten.amax", {all.elements}, {{"dim", Ints{2}}, {"keepdim", false}}));
  Shape shape = builder.type(x).shape;
  shape.resize(shape.size() - windows.size());
  for (const std::vector<Ints>& row : windows) shape.push_back(static_cast<int64_t>(row.size()));
  return builder.view(best, shape);
}

Result<ValueId> put_to_places(GraphBuilder& builder, ValueId x, ValueId places, const Ints& size) {
  const Shape shape = builder.type(x).shape;
  const auto spatial = static_cast<int64_t>(size.size());
  if (shape.size() < size.size() || builder.type(places).shape != shape)
    return builder.unsupported(fmt::format(
        "indices of {} for {}", to_string(builder.type(places).shape), to_string(shape)));
  const Shape planes(shape.begin(), shape.end() - spatial);
  Shape from = planes, to = planes, result = planes;
  from.push_back(element_count(Shape(shape.end() - spatial, shape.end())));
  to.push_back(element_count(size));
  result.insert(result.end(), size.begin(), size.end());
  const auto dim = static_cast<int64_t>(planes.size());
  DTR_ASSIGN(const ValueId values, builder.view(x, from));
  DTR_ASSIGN(const ValueId indices, builder.view(places, from));
  DTR_ASSIGN(const ValueId zeros, builder.constant(builder.type(x).dtype, to, 0, "zeros"));
  DTR_ASSIGN(const ValueId all, scatter(builder, zeros, dim, indices, values, false));
  return builder.view(all, result);
}

}  // namespace dtr::compositions
