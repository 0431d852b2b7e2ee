#include "compiler/compositions/tiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/ops/broadcast.h"

namespace dtr::compositions {
namespace {

std::string_view name_of(Border mode) {
  return mode == Border::kReflect     ? "reflect"
         : mode == Border::kReplicate ? "replicate"
                                      : "circular";
}

// `count` elements to pad dimension `dim` at its begin or end.
Result<ValueId> border(GraphBuilder& builder, ValueId x, int64_t dim, int64_t count, bool begin,
                       Border mode) {
  if (count == 0) return ValueId{};
  const int64_t extent = builder.type(x).shape[static_cast<size_t>(dim)];
  if (mode == Border::kReflect) {
    DTR_ASSIGN(const ValueId part, begin ? builder.slice(x, dim, 1, count + 1)
                                         : builder.slice(x, dim, extent - 1 - count, extent - 1));
    return builder.flip(part, {dim});
  }
  if (mode == Border::kCircular)
    return begin ? builder.slice(x, dim, extent - count, extent) : builder.slice(x, dim, 0, count);
  DTR_ASSIGN(const ValueId part,
             begin ? builder.slice(x, dim, 0, 1) : builder.slice(x, dim, extent - 1, extent));
  Shape size = builder.type(part).shape;
  size[static_cast<size_t>(dim)] = count;
  return builder.expand(part, size);
}

}  // namespace

Result<ValueId> repeat(GraphBuilder& builder, ValueId x, const Ints& repeats,
                       Repetition repetition) {
  const bool inside = repetition == Repetition::kEach;
  Shape shape = builder.type(x).shape;
  if (repeats.size() < shape.size())
    return builder.unsupported(
        fmt::format("`repeats` has {} entries for the shape {}", repeats.size(), to_string(shape)));
  shape.insert(shape.begin(), repeats.size() - shape.size(), 1);
  Shape split, wide, joined;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t extent = 0;
    if (repeats[i] < 0 || __builtin_mul_overflow(shape[i], repeats[i], &extent))
      return builder.unsupported(
          fmt::format("an extent of {} is repeated {} times", shape[i], repeats[i]));
    joined.push_back(extent);
    if (repeats[i] != 1) {  // a dimension of its own, before or behind the one that is repeated
      split.insert(split.end(), {inside ? shape[i] : 1, inside ? 1 : shape[i]});
      wide.insert(wide.end(), {inside ? shape[i] : repeats[i], inside ? repeats[i] : shape[i]});
    } else {
      split.push_back(shape[i]);
      wide.push_back(shape[i]);
    }
  }
  DTR_ASSIGN(x, builder.view(x, split));
  DTR_ASSIGN(x, builder.expand(x, wide));
  return builder.view(x, joined);
}

Result<std::vector<ValueId>> broadcast_together(GraphBuilder& builder,
                                                std::vector<ValueId> values) {
  Shape shape;
  for (const ValueId value : values) {
    const auto wider = ops::broadcast_shape(shape, builder.type(value).shape);
    if (!wider)
      return builder.unsupported(
          fmt::format("shapes {} and {}", to_string(shape), to_string(builder.type(value).shape)));
    shape = *wider;
  }
  for (ValueId& value : values) {
    DTR_ASSIGN(value, builder.expand(value, shape));
  }
  return values;
}

Result<std::vector<ValueId>> meshgrid(GraphBuilder& builder, std::vector<ValueId> vectors,
                                      bool exchanges_first) {
  std::vector<size_t> place(vectors.size());
  std::iota(place.begin(), place.end(), 0);
  if (exchanges_first && place.size() > 1) std::swap(place[0], place[1]);
  Shape grid(vectors.size(), 1);
  for (size_t i = 0; i < vectors.size(); ++i) grid[place[i]] = builder.type(vectors[i]).elements();
  for (size_t i = 0; i < vectors.size(); ++i) {
    Shape along(grid.size(), 1);
    along[place[i]] = grid[place[i]];
    DTR_ASSIGN(vectors[i], builder.view(vectors[i], along));
    DTR_ASSIGN(vectors[i], builder.expand(vectors[i], grid));
  }
  return vectors;
}

Result<ValueId> rotate_quarters(GraphBuilder& builder, ValueId x, int64_t turns, Ints dims) {
  const auto rank = static_cast<int64_t>(builder.type(x).rank());
  for (int64_t& dim : dims) dim = dim < 0 ? dim + rank : dim;
  if (dims.size() != 2 || dims[0] == dims[1] || std::min(dims[0], dims[1]) < 0 ||
      std::max(dims[0], dims[1]) >= rank)
    return builder.unsupported(fmt::format(
        "it turns {} along [{}]", to_string(builder.type(x).shape), fmt::join(dims, ", ")));
  const int64_t quarters = ((turns % 4) + 4) % 4;
  if (quarters == 0) return x;
  DTR_ASSIGN(x, builder.flip(x, quarters == 2 ? dims : Ints{dims[quarters == 1 ? 1 : 0]}));
  if (quarters == 2) return x;
  Ints order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(dims[0])], order[static_cast<size_t>(dims[1])]);
  DTR_ASSIGN(x, builder.permute(x, order));
  return x;
}

Result<ValueId> roll(GraphBuilder& builder, ValueId x, const Ints& shifts, Ints dims) {
  const Shape shape = builder.type(x).shape;
  const bool flat = dims.empty();  // over all elements in logical order
  if (flat) {
    DTR_ASSIGN(x, builder.view(x, {element_count(shape)}));
    dims = {0};
  }
  if (shifts.size() != dims.size())
    return builder.unsupported(
        fmt::format("there are {} shifts for {} dimensions", shifts.size(), dims.size()));
  const auto rank = static_cast<int64_t>(builder.type(x).rank());
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = dims[i] < 0 ? dims[i] + rank : dims[i];
    if (dim < 0 || dim >= rank)
      return builder.unsupported(fmt::format("`dims` has {}, the rank is {}", dims[i], rank));
    const int64_t extent = builder.type(x).shape[static_cast<size_t>(dim)];
    const int64_t shift = extent == 0 ? 0 : ((shifts[i] % extent) + extent) % extent;
    if (shift == 0) continue;
    DTR_ASSIGN(const ValueId tail, builder.slice(x, dim, extent - shift, extent));
    DTR_ASSIGN(const ValueId head, builder.slice(x, dim, 0, extent - shift));
    DTR_ASSIGN(x, builder.concatenate({tail, head}, dim));
  }
  return builder.view(x, shape);
}

Result<ValueId> shift_frequencies(GraphBuilder& builder, ValueId x, const Ints& dims, bool back) {
  if (dims.empty()) return x;  // `roll` would take all elements as one dimension
  Ints shifts;
  for (const int64_t dim : dims) {
    const int64_t extent = builder.type(x).shape[static_cast<size_t>(dim)];
    shifts.push_back((extent + (back ? 1 : 0)) / 2);
  }
  return roll(builder, x, shifts, dims);
}

Result<ValueId> pad_with_own_elements(GraphBuilder& builder, ValueId x, const Ints& amounts,
                                      Border mode) {
  const auto rank = static_cast<int64_t>(builder.type(x).rank());
  if (amounts.size() % 2 != 0 || static_cast<int64_t>(amounts.size()) > 2 * rank)
    return builder.unsupported(
        fmt::format("the padding has {} entries, expected pairs for at most {} dimensions",
                    amounts.size(), rank));
  for (size_t i = 0; i < amounts.size() / 2; ++i) {
    const int64_t dim = rank - 1 - static_cast<int64_t>(i);
    const int64_t extent = builder.type(x).shape[static_cast<size_t>(dim)];
    const int64_t most = extent == 0 || mode == Border::kCircular ? extent
                         : mode == Border::kReflect               ? extent - 1
                                                                  : int64_t{1} << 30;
    for (const int64_t amount : {amounts[2 * i], amounts[2 * i + 1]}) {
      if (amount < 0)
        return builder.unsupported(
            fmt::format("mode {} cannot cut, the padding has {}", name_of(mode), amount),
            "slice the tensor");
      if (amount > most)
        return builder.unsupported(
            fmt::format("mode {} adds at most {} elements to an extent of {}, here {}",
                        name_of(mode), most, extent, amount));
    }
    DTR_ASSIGN(const ValueId before, border(builder, x, dim, amounts[2 * i], true, mode));
    DTR_ASSIGN(const ValueId behind, border(builder, x, dim, amounts[2 * i + 1], false, mode));
    DTR_ASSIGN(x, builder.concatenate({before, x, behind}, dim));
  }
  return x;
}

}  // namespace dtr::compositions
