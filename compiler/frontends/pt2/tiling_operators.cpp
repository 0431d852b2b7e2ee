// Operators that repeat, reverse or join a tensor's own elements: repetitions → aten.expand,
// reversals → aten.flip, rotations and borders → aten.cat of parts; and padding with a constant.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/compositions/tiling.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

using compositions::Border;
using compositions::Repetition;

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

Result<Values> repeat(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints repeats, node.ints("repeats"));
  DTR_ASSIGN(const ValueId result, compositions::repeat(node, x, repeats, Repetition::kWhole));
  return Values{result};
}

Result<Values> tile(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(Ints repeats, node.ints("dims"));
  const size_t rank = node.type(x).rank();
  if (repeats.size() < rank) repeats.insert(repeats.begin(), rank - repeats.size(), 1);
  DTR_ASSIGN(const ValueId result, compositions::repeat(node, x, repeats, Repetition::kWhole));
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
  if (node.has("output_size")) DTR_TRY(node.integer("output_size"));  // it follows
  Ints all(node.type(x).rank(), 1);
  if (all.empty()) return node.unsupported("the operand is a scalar, it has no dimensions");
  all[static_cast<size_t>(dim)] = repeats;
  DTR_ASSIGN(const ValueId result, compositions::repeat(node, x, all, Repetition::kEach));
  return Values{result};
}

Result<Values> broadcast_tensors(NodeImport& node) {
  DTR_ASSIGN(Values tensors, node.tensors("tensors"));
  return compositions::broadcast_together(node, std::move(tensors));
}

Result<Values> meshgrid(NodeImport& node) {
  DTR_ASSIGN(Values vectors, node.tensors("tensors"));
  DTR_ASSIGN(const std::string_view indexing, node.string("indexing", "ij"));
  return compositions::meshgrid(node, std::move(vectors), indexing == "xy");
}

// ---- joins of parts

Result<Values> flip(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints dims, node.ints("dims"));
  DTR_ASSIGN(const ValueId result, node.flip(x, dims));
  return Values{result};
}

Result<Values> rot90(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t turns, node.integer("k", 1));
  DTR_ASSIGN(const Ints dims, node.ints("dims", Ints{0, 1}));
  DTR_ASSIGN(const ValueId result, compositions::rotate_quarters(node, x, turns, dims));
  return Values{result};
}

Result<Values> roll(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints shifts, node.ints("shifts"));
  DTR_ASSIGN(const Ints dims, node.ints("dims", Ints{}));
  DTR_ASSIGN(const ValueId result, compositions::roll(node, x, shifts, dims));
  return Values{result};
}

template <bool kBack>
Result<Values> shift_frequencies(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints dims, node.dims("dim", node.type(x).rank()));
  return one(compositions::shift_frequencies(node, x, dims, kBack));
}

Result<Values> pad(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints amounts, node.ints("pad"));
  DTR_ASSIGN(const std::string_view mode, node.string("mode", "constant"));
  if (mode == "constant") {
    DTR_ASSIGN(const double value, node.number("value", 0));
    return one(node.pad(x, amounts, value));
  }
  const auto border = mode == "reflect"     ? std::optional(Border::kReflect)
                      : mode == "replicate" ? std::optional(Border::kReplicate)
                      : mode == "circular"  ? std::optional(Border::kCircular)
                                            : std::nullopt;
  if (!border)
    return node.unsupported(
        fmt::format("mode `{}` is none of constant, reflect, replicate and circular", mode));
  DTR_TRY(node.number("value", 0));  // PyTorch takes only 0 in these modes
  DTR_ASSIGN(const ValueId result, compositions::pad_with_own_elements(node, x, amounts, *border));
  return Values{result};
}

template <Border kMode>
Result<Values> pad_as(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints amounts, node.ints("padding"));
  DTR_ASSIGN(const ValueId result, compositions::pad_with_own_elements(node, x, amounts, kMode));
  return Values{result};
}
}  // namespace

std::vector<Operator> tiling_operators() {
  return {
      view_row("aten.broadcast_tensors.default", "aten.expand", broadcast_tensors),
      view_row("aten.broadcast_to.default", "aten.expand", expand),
      view_row("aten.expand.default", "aten.expand", expand),
      view_row("aten.expand_as.default", "aten.expand", expand_as),
      tensor_row("aten.meshgrid.default", "aten.expand", meshgrid),
      tensor_row("aten.meshgrid.indexing", "aten.expand", meshgrid),
      tensor_row("aten.repeat.default", "aten.expand", repeat),
      tensor_row("aten.repeat_interleave.self_int", "aten.expand", repeat_interleave),
      tensor_row("aten.tile.default", "aten.expand", tile),
      tensor_row("aten.flip.default", "aten.flip", flip),
      tensor_row("aten.rot90.default", "aten.flip", rot90),
      tensor_row("aten.roll.default", "aten.cat", roll),
      tensor_row("aten.fft_fftshift.default", "aten.cat", shift_frequencies<false>),
      tensor_row("aten.fft_ifftshift.default", "aten.cat", shift_frequencies<true>),
      tensor_row("aten.pad.default", "aten.constant_pad_nd", pad),
      tensor_row("aten.reflection_pad1d.default", "aten.flip", pad_as<Border::kReflect>),
      tensor_row("aten.reflection_pad2d.default", "aten.flip", pad_as<Border::kReflect>),
      tensor_row("aten.reflection_pad3d.default", "aten.flip", pad_as<Border::kReflect>),
      tensor_row("aten.replication_pad1d.default", "aten.expand", pad_as<Border::kReplicate>),
      tensor_row("aten.replication_pad2d.default", "aten.expand", pad_as<Border::kReplicate>),
      tensor_row("aten.replication_pad3d.default", "aten.expand", pad_as<Border::kReplicate>),
      tensor_row("aten.constant_pad_nd.default", "aten.constant_pad_nd", pad),
  };
}

}  // namespace dtr::pt2
