// Operators that repeat, reverse or join a tensor's own elements: repetitions → aten.expand, reversals → aten.flip, rotations and borders
// → aten.cat of parts; and padding with a constant.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/frontends/pt2/operators.h"
#include "compiler/ops/broadcast.h"

namespace dtr::pt2 {
namespace {

// ---- repetition

// A size that may say −1 for what is there.
Result<Values> expand(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(Shape size, node.ints("size"));
  const Shape shape = node.type(x).shape;
  for (size_t i = 1; i <= std::min(shape.size(), size.size()); ++i)
    if (size[size.size() - i] == -1) size[size.size() - i] = shape[shape.size() - i];
  DTR_ASSIGN(const ValueId result, node.expand(x, size));
  return Values{result};
}

Result<Values> expand_as(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId other, node.tensor("other"));
  const Shape size = node.type(other).shape;
  DTR_ASSIGN(const ValueId result, node.expand(x, size));
  return Values{result};
}

// Repeats along every dimension: as a whole, `inside` false, or each element, `inside` true.
Result<ValueId> repeated(NodeImport& node, ValueId x, const Ints& repeats, bool inside) {
  Shape shape = node.type(x).shape;
  if (repeats.size() < shape.size())
    return node.unsupported(fmt::format("`repeats` has {} entries for the shape {}", repeats.size(), to_string(shape)));
  shape.insert(shape.begin(), repeats.size() - shape.size(), 1);
  Shape split, wide, joined;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t extent = 0;
    if (repeats[i] < 0 || __builtin_mul_overflow(shape[i], repeats[i], &extent))
      return node.unsupported(fmt::format("an extent of {} is repeated {} times", shape[i], repeats[i]));
    joined.push_back(extent);
    if (repeats[i] != 1) {  // a dimension of its own, before or behind the one that is repeated
      split.insert(split.end(), {inside ? shape[i] : 1, inside ? 1 : shape[i]});
      wide.insert(wide.end(), {inside ? shape[i] : repeats[i], inside ? repeats[i] : shape[i]});
    } else {
      split.push_back(shape[i]);
      wide.push_back(shape[i]);
    }
  }
  DTR_ASSIGN(x, node.view(x, split));
  DTR_ASSIGN(x, node.expand(x, wide));
  return node.view(x, joined);
}

Result<Values> repeat(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints repeats, node.ints("repeats"));
  DTR_ASSIGN(const ValueId result, repeated(node, x, repeats, false));
  return Values{result};
}

Result<Values> tile(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(Ints repeats, node.ints("dims"));
  const size_t rank = node.type(x).rank();
  if (repeats.size() < rank) repeats.insert(repeats.begin(), rank - repeats.size(), 1);
  DTR_ASSIGN(const ValueId result, repeated(node, x, repeats, false));
  return Values{result};
}

Result<Values> repeat_interleave(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t repeats, node.integer("repeats"));
  int64_t dim = 0;
  if (node.has("dim")) {
    DTR_ASSIGN(dim, node.dim("dim", node.type(x).rank()));
  } else {
    DTR_ASSIGN(x, node.view(x, {node.type(x).elements()}));
  }
  Ints all(node.type(x).rank(), 1);
  if (all.empty()) return node.unsupported("the operand is a scalar, it has no dimensions");
  all[static_cast<size_t>(dim)] = repeats;
  DTR_ASSIGN(const ValueId result, repeated(node, x, all, true));
  return Values{result};
}

// All tensors in the shape that they broadcast to.
Result<Values> broadcast_tensors(NodeImport& node) {
  DTR_ASSIGN(Values tensors, node.tensors("tensors"));
  Shape shape;
  for (const ValueId tensor : tensors) {
    const auto wider = ops::broadcast_shape(shape, node.type(tensor).shape);
    if (!wider) return node.unsupported(fmt::format("shapes {} and {}", to_string(shape), to_string(node.type(tensor).shape)));
    shape = *wider;
  }
  for (ValueId& tensor : tensors) {
    DTR_ASSIGN(tensor, node.expand(tensor, shape));
  }
  return tensors;
}

// Vectors as a grid: each varies along its own dimension; "xy" exchanges the first two.
Result<Values> meshgrid(NodeImport& node) {
  DTR_ASSIGN(Values vectors, node.tensors("tensors"));
  DTR_ASSIGN(const std::string_view indexing, node.string("indexing", "ij"));
  std::vector<size_t> place(vectors.size());
  std::iota(place.begin(), place.end(), 0);
  if (indexing == "xy" && place.size() > 1) std::swap(place[0], place[1]);
  Shape grid(vectors.size(), 1);
  for (size_t i = 0; i < vectors.size(); ++i) grid[place[i]] = node.type(vectors[i]).elements();
  for (size_t i = 0; i < vectors.size(); ++i) {
    Shape along(grid.size(), 1);
    along[place[i]] = grid[place[i]];
    DTR_ASSIGN(vectors[i], node.view(vectors[i], along));
    DTR_ASSIGN(vectors[i], node.expand(vectors[i], grid));
  }
  return vectors;
}

// ---- joins of parts

Result<ValueId> flipped(NodeImport& node, ValueId x, const Ints& dims) { return node.emit("aten.flip", {x}, {{"dims", dims}}); }

Result<Values> flip(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints dims, node.ints("dims"));
  if (dims.empty()) return Values{x};
  DTR_ASSIGN(const ValueId result, flipped(node, x, dims));
  return Values{result};
}

// By k quarters of a turn, from the first of two dimensions towards the second.
Result<Values> rot90(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t turns, node.integer("k", 1));
  DTR_ASSIGN(Ints dims, node.ints("dims", Ints{0, 1}));
  const auto rank = static_cast<int64_t>(node.type(x).rank());
  for (int64_t& dim : dims) dim = dim < 0 ? dim + rank : dim;
  if (dims.size() != 2 || dims[0] == dims[1] || std::min(dims[0], dims[1]) < 0 || std::max(dims[0], dims[1]) >= rank)
    return node.unsupported(fmt::format("it turns {} along [{}]", to_string(node.type(x).shape), fmt::join(dims, ", ")));
  const int64_t quarters = ((turns % 4) + 4) % 4;
  if (quarters == 0) return Values{x};
  DTR_ASSIGN(x, flipped(node, x, quarters == 2 ? dims : Ints{dims[quarters == 1 ? 1 : 0]}));
  if (quarters == 2) return Values{x};
  Ints order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(dims[0])], order[static_cast<size_t>(dims[1])]);
  DTR_ASSIGN(x, node.permute(x, order));
  return Values{x};
}

Result<ValueId> joined(NodeImport& node, Values parts, int64_t dim) {
  std::erase_if(parts, [&](ValueId part) { return !part.valid(); });
  if (parts.size() == 1) return parts.front();
  return node.emit("aten.cat", std::move(parts), {{"dim", dim}});
}

Result<Values> roll(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints shifts, node.ints("shifts"));
  DTR_ASSIGN(Ints dims, node.ints("dims", Ints{}));
  const Shape shape = node.type(x).shape;
  const bool flat = dims.empty();  // over all elements in logical order
  if (flat) {
    DTR_ASSIGN(x, node.view(x, {element_count(shape)}));
    dims = {0};
  }
  if (shifts.size() != dims.size())
    return node.unsupported(fmt::format("there are {} shifts for {} dimensions", shifts.size(), dims.size()));
  const auto rank = static_cast<int64_t>(node.type(x).rank());
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = dims[i] < 0 ? dims[i] + rank : dims[i];
    if (dim < 0 || dim >= rank) return node.unsupported(fmt::format("`dims` has {}, the rank is {}", dims[i], rank));
    const int64_t extent = node.type(x).shape[static_cast<size_t>(dim)];
    const int64_t shift = extent == 0 ? 0 : ((shifts[i] % extent) + extent) % extent;
    if (shift == 0) continue;
    DTR_ASSIGN(const ValueId tail, node.slice(x, dim, extent - shift, extent));
    DTR_ASSIGN(const ValueId head, node.slice(x, dim, 0, extent - shift));
    DTR_ASSIGN(x, joined(node, {tail, head}, dim));
  }
  DTR_ASSIGN(x, node.view(x, shape));
  return Values{x};
}

// `count` elements to pad dimension `dim` at its begin or end.
Result<ValueId> border(NodeImport& node, ValueId x, int64_t dim, int64_t count, bool begin, std::string_view mode) {
  if (count == 0) return ValueId{};
  const int64_t extent = node.type(x).shape[static_cast<size_t>(dim)];
  if (mode == "reflect") {
    DTR_ASSIGN(const ValueId part, begin ? node.slice(x, dim, 1, count + 1) : node.slice(x, dim, extent - 1 - count, extent - 1));
    return flipped(node, part, {dim});
  }
  if (mode == "circular") return begin ? node.slice(x, dim, extent - count, extent) : node.slice(x, dim, 0, count);
  DTR_ASSIGN(const ValueId part, begin ? node.slice(x, dim, 0, 1) : node.slice(x, dim, extent - 1, extent));
  Shape size = node.type(part).shape;
  size[static_cast<size_t>(dim)] = count;
  return node.expand(part, size);
}

// Modes reflect, replicate and circular: borders made of the tensor's own elements, one dimension after the other.
Result<ValueId> padded_with_itself(NodeImport& node, ValueId x, const Ints& amounts, std::string_view mode) {
  const auto rank = static_cast<int64_t>(node.type(x).rank());
  if (amounts.size() % 2 != 0 || static_cast<int64_t>(amounts.size()) > 2 * rank)
    return node.unsupported(fmt::format("the padding has {} entries, expected pairs for at most {} dimensions", amounts.size(), rank));
  for (size_t i = 0; i < amounts.size() / 2; ++i) {
    const int64_t dim = rank - 1 - static_cast<int64_t>(i);
    const int64_t extent = node.type(x).shape[static_cast<size_t>(dim)];
    const int64_t most = extent == 0 || mode == "circular" ? extent : mode == "reflect" ? extent - 1 : int64_t{1} << 30;
    for (const int64_t amount : {amounts[2 * i], amounts[2 * i + 1]}) {
      if (amount < 0) return node.unsupported(fmt::format("mode {} cannot cut, the padding has {}", mode, amount), "slice the tensor");
      if (amount > most)
        return node.unsupported(fmt::format("mode {} adds at most {} elements to an extent of {}, here {}", mode, most, extent, amount));
    }
    DTR_ASSIGN(const ValueId before, border(node, x, dim, amounts[2 * i], true, mode));
    DTR_ASSIGN(const ValueId behind, border(node, x, dim, amounts[2 * i + 1], false, mode));
    DTR_ASSIGN(x, joined(node, {before, x, behind}, dim));
  }
  return x;
}

Result<Values> pad(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(Ints amounts, node.ints("pad"));
  DTR_ASSIGN(const std::string_view mode, node.string("mode", "constant"));
  if (mode == "constant") {
    DTR_ASSIGN(const double value, node.number("value", 0));
    DTR_ASSIGN(const ValueId result, node.emit("aten.constant_pad_nd", {x}, {{"pad", std::move(amounts)}, {"value", value}}));
    return Values{result};
  }
  if (mode != "reflect" && mode != "replicate" && mode != "circular")
    return node.unsupported(fmt::format("mode `{}` is none of constant, reflect, replicate and circular", mode));
  DTR_ASSIGN(const ValueId result, padded_with_itself(node, x, amounts, mode));
  return Values{result};
}

template <const char* kMode>
Result<Values> pad_as(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints amounts, node.ints("padding"));
  DTR_ASSIGN(const ValueId result, padded_with_itself(node, x, amounts, kMode));
  return Values{result};
}
constexpr char kReflect[] = "reflect";
constexpr char kReplicate[] = "replicate";

}  // namespace

std::vector<Operator> tiling_operators() {
  return {
      moving("aten.broadcast_tensors.default", "aten.expand", broadcast_tensors),
      moving("aten.broadcast_to.default", "aten.expand", expand),
      moving("aten.expand.default", "aten.expand", expand),
      moving("aten.expand_as.default", "aten.expand", expand_as),
      making("aten.meshgrid.default", "aten.expand", meshgrid),
      making("aten.meshgrid.indexing", "aten.expand", meshgrid),
      making("aten.repeat.default", "aten.expand", repeat),
      making("aten.repeat_interleave.self_int", "aten.expand", repeat_interleave),
      making("aten.tile.default", "aten.expand", tile),
      making("aten.flip.default", "aten.flip", flip),
      making("aten.rot90.default", "aten.flip", rot90),
      making("aten.roll.default", "aten.cat", roll),
      making("aten.pad.default", "aten.constant_pad_nd", pad),
      making("aten.reflection_pad1d.default", "aten.flip", pad_as<kReflect>),
      making("aten.reflection_pad2d.default", "aten.flip", pad_as<kReflect>),
      making("aten.reflection_pad3d.default", "aten.flip", pad_as<kReflect>),
      making("aten.replication_pad1d.default", "aten.expand", pad_as<kReplicate>),
      making("aten.replication_pad2d.default", "aten.expand", pad_as<kReplicate>),
      making("aten.replication_pad3d.default", "aten.expand", pad_as<kReplicate>),
      {.target = "aten.constant_pad_nd.default",
       .op = "aten.constant_pad_nd",
       .params = {{"self"}, {"pad", Take::kInts}, {"value", Take::kNumber, 0}}},
  };
}

}  // namespace dtr::pt2
