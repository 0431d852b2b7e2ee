// Operators that reshape, permute, split and join tensors: → aten.view, aten.permute,
// aten.slice.Tensor, aten.cat.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/compositions/indices.h"
#include "compiler/compositions/pixels.h"
#include "compiler/compositions/windows.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

constexpr int64_t kMaxParts = 4096;  // of one split
constexpr const char* kScalar = "the operand is a scalar, it has no dimensions";

tl::unexpected<Diagnostic> too_many_parts(const NodeImport& node, int64_t parts) {
  return node.unsupported(fmt::format("it makes {} parts, at most {} are taken", parts, kMaxParts),
                          "split into fewer, larger parts");
}

Result<Values> viewed(NodeImport& node, ValueId x, const Shape& shape) {
  DTR_ASSIGN(const ValueId result, node.view(x, shape));
  return Values{result};
}

// view, reshape: one entry may be −1.
Result<Values> reshape(NodeImport& node, std::string_view argument) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(Shape size, node.ints(argument));
  const auto unknown = std::find(size.begin(), size.end(), -1);
  if (unknown != size.end()) {
    *unknown = 1;
    const auto known = checked_element_count(size);
    const int64_t elements = node.type(x).elements();
    if (!known || *known == 0 || elements % *known != 0)
      return node.unsupported(fmt::format("the elements of {} do not fill {} times any number",
                                          to_string(node.type(x).shape), to_string(size)));
    *unknown = elements / *known;
  }
  return viewed(node, x, size);
}
Result<Values> view(NodeImport& node) { return reshape(node, "size"); }
Result<Values> reshape_to_shape(NodeImport& node) { return reshape(node, "shape"); }

Result<Values> view_as(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId other, node.tensor("other"));
  return viewed(node, x, Shape(node.type(other).shape));
}

Result<Values> flatten(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  if (shape.empty()) return viewed(node, x, {1});
  DTR_ASSIGN(const int64_t start, node.dim("start_dim", shape.size(), 0));
  DTR_ASSIGN(const int64_t end, node.dim("end_dim", shape.size(), -1));
  if (start > end)
    return node.unsupported(fmt::format("`start_dim` {} lies behind `end_dim` {}", start, end));
  Shape flat(shape.begin(), shape.begin() + start);
  flat.push_back(element_count(Shape(shape.begin() + start, shape.begin() + end + 1)));
  flat.insert(flat.end(), shape.begin() + end + 1, shape.end());
  return viewed(node, x, flat);
}

Result<Values> squeeze(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  if (node.node().target.ends_with(".dims")) {
    DTR_ASSIGN(const Ints named, node.ints("dim"));
    if (named.empty()) return viewed(node, x, shape);  // here an empty list names no dimension
  }
  DTR_ASSIGN(const Ints dims, node.dims("dim", shape.size()));
  Shape squeezed;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 || !std::binary_search(dims.begin(), dims.end(), static_cast<int64_t>(i)))
      squeezed.push_back(shape[i]);
  return viewed(node, x, squeezed);
}

Result<Values> unsqueeze(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  Shape shape = node.type(x).shape;
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size() + 1));
  shape.insert(shape.begin() + dim, 1);
  return viewed(node, x, shape);
}

Result<Values> permuted(NodeImport& node, ValueId x, const Ints& order) {
  DTR_ASSIGN(const ValueId result, node.permute(x, order));
  return Values{result};
}

Result<Values> permute(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(Ints order, node.ints("dims"));
  const auto rank = static_cast<int64_t>(node.type(x).rank());
  for (int64_t& dim : order) {
    if (dim < -rank || dim >= rank)
      return node.unsupported(fmt::format("`dims` has {}, the rank is {}", dim, rank));
    if (dim < 0) dim += rank;
  }
  return permuted(node, x, order);
}

Result<Values> exchanged(NodeImport& node, std::string_view first, std::string_view second) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const size_t rank = node.type(x).rank();
  DTR_ASSIGN(const int64_t a, node.dim(first, rank, 0));
  DTR_ASSIGN(const int64_t b, node.dim(second, rank, -1));
  Ints order;
  for (size_t i = 0; i < rank; ++i) order.push_back(static_cast<int64_t>(i));
  if (rank != 0) std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  return permuted(node, x, order);
}

Result<Values> transpose(NodeImport& node) { return exchanged(node, "dim0", "dim1"); }
Result<Values> swapaxes(NodeImport& node) { return exchanged(node, "axis0", "axis1"); }

// x.mT: the last two exchanged. x.T: all in reverse.
Result<Values> matrices_transposed(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const size_t rank = node.type(x).rank();
  if (rank < 2)
    return node.unsupported(
        fmt::format("the operand has shape {}, which is no matrix", to_string(node.type(x).shape)));
  Ints order;
  for (size_t i = 0; i < rank; ++i) order.push_back(static_cast<int64_t>(i));
  std::swap(order[rank - 1], order[rank - 2]);
  return permuted(node, x, order);
}
Result<Values> reversed(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  Ints order;
  for (size_t i = node.type(x).rank(); i-- > 0;) order.push_back(static_cast<int64_t>(i));
  return permuted(node, x, order);
}

Result<Values> slice_tensor(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  if (node.type(x).rank() == 0) return node.unsupported(kScalar);
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank(), 0));
  DTR_ASSIGN(const int64_t start, node.integer("start", 0));
  DTR_ASSIGN(const int64_t end, node.integer("end", INT64_MAX));
  DTR_ASSIGN(const int64_t step, node.integer("step", 1));
  DTR_ASSIGN(const ValueId result, node.slice(x, dim, start, end, step));
  return Values{result};
}

// x[:, i] with a tensor of one index, which may count from the end.
Result<Values> select_by_tensor(NodeImport& node, ValueId x) {
  Shape shape = node.type(x).shape;
  if (shape.empty()) return node.unsupported("the tensor is a scalar");
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size()));
  DTR_ASSIGN(ValueId index, node.tensor("index"));
  const int64_t extent = shape[static_cast<size_t>(dim)];
  DTR_ASSIGN(index, node.view(index, {1}));
  DTR_ASSIGN(index, node.wrap_negative_indices(index, extent));
  DTR_ASSIGN(index, compositions::from_front(node, index, extent));
  DTR_ASSIGN(const ValueId part, node.emit("aten.index_select", {x, index}, {{"dim", dim}}));
  shape.erase(shape.begin() + dim);
  return viewed(node, part, shape);
}

Result<Values> select(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  if (node.has_tensor("index")) return select_by_tensor(node, x);
  Shape shape = node.type(x).shape;
  DTR_ASSIGN(const NodeImport::Selection at, node.selection(shape));
  DTR_ASSIGN(const ValueId part, node.slice(x, at.dim, at.index, at.index + 1));
  shape.erase(shape.begin() + at.dim);
  return viewed(node, part, shape);
}

Result<Values> narrow(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size()));
  DTR_ASSIGN(int64_t start, node.integer("start"));
  DTR_ASSIGN(const int64_t length, node.integer("length"));
  const int64_t extent = shape.empty() ? 0 : shape[static_cast<size_t>(dim)];
  if (start < 0) start += extent;
  if (start < 0 || length < 0 || start > extent || length > extent - start)
    return node.unsupported(
        fmt::format("{} elements from {} on do not lie within {}", length, start, extent));
  DTR_ASSIGN(const ValueId result, node.slice(x, dim, start, start + length));
  return Values{result};
}

Result<Values> unbind(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  Shape shape = node.type(x).shape;
  if (shape.empty()) return node.unsupported(kScalar);
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size(), 0));
  const int64_t extent = shape[static_cast<size_t>(dim)];
  if (extent > kMaxParts) return too_many_parts(node, extent);
  shape.erase(shape.begin() + dim);
  Values parts;
  for (int64_t i = 0; i < extent; ++i) {
    DTR_ASSIGN(const ValueId part, node.slice(x, dim, i, i + 1));
    DTR_ASSIGN(parts.emplace_back(), node.view(part, shape));
  }
  return parts;
}

// Parts of the given sizes along `dim`, in order.
Result<Values> split_into(NodeImport& node, ValueId x, int64_t dim, const Ints& sizes) {
  Values parts;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    DTR_ASSIGN(const ValueId part, node.slice(x, dim, start, start + size));
    parts.push_back(part);
    start += size;
  }
  return parts;
}

Result<Values> split(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  if (node.type(x).rank() == 0) return node.unsupported(kScalar);
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank(), 0));
  const int64_t extent = node.type(x).shape[static_cast<size_t>(dim)];
  Ints sizes;
  if (node.has("split_sizes")) {
    DTR_ASSIGN(sizes, node.ints("split_sizes"));
    int64_t left = extent;
    for (const int64_t size : sizes) {
      if (size < 0 || size > left)
        return node.unsupported(fmt::format("the sizes [{}] do not lie within {} elements",
                                            fmt::join(sizes, ", "), extent));
      left -= size;
    }
  } else {
    int64_t size = 0;
    if (node.has("chunks")) {
      DTR_ASSIGN(const int64_t chunks, node.integer("chunks"));
      if (chunks <= 0)
        return node.unsupported(fmt::format("`chunks` is {}, expected at least 1", chunks));
      if (chunks > kMaxParts) return too_many_parts(node, chunks);
      size = (extent + chunks - 1) / chunks;
    } else {
      DTR_ASSIGN(size, node.integer("split_size"));
    }
    if (size <= 0)
      return node.unsupported(fmt::format("a part has {} elements, expected at least 1", size));
    if (extent / size > kMaxParts) return too_many_parts(node, extent / size);
    for (int64_t start = 0; start < extent; start += size)
      sizes.push_back(std::min(size, extent - start));
  }
  return split_into(node, x, dim, sizes);
}

// Parts up to each index, or that many of which the first have one element more.
Result<Values> tensor_split(NodeImport& node, ValueId x, int64_t dim) {
  const int64_t extent = node.type(x).shape[static_cast<size_t>(dim)];
  Ints ends;
  if (node.has("indices")) {
    DTR_ASSIGN(ends, node.ints("indices"));
    ends.push_back(extent);
  } else {
    DTR_ASSIGN(const int64_t sections, node.integer("sections"));
    if (sections < 1)
      return node.unsupported(fmt::format("`sections` is {}, expected at least 1", sections));
    if (sections > kMaxParts) return too_many_parts(node, sections);
    for (int64_t i = 1; i <= sections; ++i)
      ends.push_back(i * (extent / sections) + std::min(i, extent % sections));
  }
  Values parts;
  int64_t start = 0;
  for (const int64_t end : ends) {
    DTR_ASSIGN(parts.emplace_back(), node.slice(x, dim, start, end));
    start = end;
  }
  return parts;
}
Result<Values> tensor_split(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  if (node.type(x).rank() == 0) return node.unsupported(kScalar);
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank(), 0));
  return tensor_split(node, x, dim);
}
// hsplit, vsplit, dsplit: along columns, rows or layers; of a vector hsplit takes the only one.
template <int64_t kDim>
Result<Values> split_along(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const auto rank = static_cast<int64_t>(node.type(x).rank());
  const int64_t dim = kDim == 1 && rank == 1 ? 0 : kDim;
  if (rank <= dim) return node.unsupported(fmt::format("the tensor has {} dimensions", rank));
  return tensor_split(node, x, dim);
}

// All in the dtype of the highest category among them.
Result<Values> promoted_parts(NodeImport& node) {
  DTR_ASSIGN(Values parts, node.tensors("tensors"));
  const auto stated = node.stated_dtype();
  for (ValueId& part : parts) {
    if (!stated || node.type(part).quantized()) continue;
    DTR_ASSIGN(part, node.cast(part, *stated));
  }
  return parts;
}

// A vector of no elements joins anything, as in PyTorch.
Result<Values> cat(NodeImport& node) {
  DTR_ASSIGN(Values parts, promoted_parts(node));
  const size_t all = parts.size();
  std::erase_if(parts, [&](ValueId part) { return node.type(part).shape == Shape{0}; });
  if (parts.empty() && all > 0) return node.unsupported("none of the tensors has elements");
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(parts.front()).rank(), 0));
  DTR_ASSIGN(const ValueId result, node.emit("aten.cat", std::move(parts), {{"dim", dim}}));
  return Values{result};
}

Result<Values> stack(NodeImport& node) {
  DTR_ASSIGN(Values parts, promoted_parts(node));
  Shape shape = node.type(parts.front()).shape;
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size() + 1, 0));
  for (ValueId& part : parts) {
    Shape with_dim = node.type(part).shape;
    if (with_dim != shape)
      return node.unsupported(fmt::format("the tensors have different shapes, {} and {}",
                                          to_string(shape), to_string(with_dim)));
    with_dim.insert(with_dim.begin() + dim, 1);
    DTR_ASSIGN(part, node.view(part, with_dim));
  }
  DTR_ASSIGN(const ValueId result, node.emit("aten.cat", std::move(parts), {{"dim", dim}}));
  return Values{result};
}

// ---- between channels and pixels

template <bool kBack>
Result<Values> pixel_shuffle(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t factor, node.integer(kBack ? "downscale_factor" : "upscale_factor"));
  DTR_ASSIGN(const ValueId result, compositions::pixel_shuffle(node, x, factor, kBack));
  return Values{result};
}

Result<Values> channel_shuffle(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t groups, node.integer("groups"));
  DTR_ASSIGN(const ValueId result, compositions::channel_shuffle(node, x, groups));
  return Values{result};
}

// ---- windows

Result<Values> unfold(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t dim, node.dim("dimension", node.type(x).rank()));
  DTR_ASSIGN(const int64_t size, node.integer("size"));
  DTR_ASSIGN(const int64_t step, node.integer("step"));
  DTR_ASSIGN(const ValueId result, compositions::windows_along(node, x, dim, size, step));
  return Values{result};
}

// Between an image and the columns of its windows, with or without batch.
template <bool kBack>
Result<Values> columns(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  compositions::Blocks blocks;
  DTR_ASSIGN(blocks.kernel, node.spread("kernel_size", 2));
  DTR_ASSIGN(blocks.dilation, node.spread("dilation", 2));
  DTR_ASSIGN(blocks.padding, node.spread("padding", 2));
  DTR_ASSIGN(blocks.stride, node.spread("stride", 2));
  Shape shape = node.type(x).shape;
  const size_t batched = kBack ? 3 : 4;
  const bool alone = shape.size() + 1 == batched;
  if (!alone && shape.size() != batched)
    return node.unsupported(fmt::format("an operand of shape {}", to_string(shape)));
  if (alone) {
    shape.insert(shape.begin(), 1);
    DTR_ASSIGN(x, node.view(x, shape));
  }
  ValueId result;
  if (kBack) {
    DTR_ASSIGN(const Ints size, node.spread("output_size", 2));
    DTR_ASSIGN(result, compositions::columns_to_image(node, x, size, blocks));
  } else {
    DTR_ASSIGN(result, compositions::image_to_columns(node, x, blocks));
  }
  if (alone) {
    Shape back = node.type(result).shape;
    back.erase(back.begin());
    DTR_ASSIGN(result, node.view(result, back));
  }
  return Values{result};
}

Result<Values> movedim(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(Ints from, node.ints("source"));
  DTR_ASSIGN(Ints to, node.ints("destination"));
  const auto rank = static_cast<int64_t>(node.type(x).rank());
  Ints order(static_cast<size_t>(rank), -1);
  std::vector<bool> moved(static_cast<size_t>(rank), false);
  if (from.size() != to.size())
    return node.unsupported(fmt::format("{} dimensions go to {} places", from.size(), to.size()));
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] < 0) from[i] += rank;
    if (to[i] < 0) to[i] += rank;
    if (from[i] < 0 || from[i] >= rank || to[i] < 0 || to[i] >= rank ||
        order[static_cast<size_t>(to[i])] != -1)
      return node.unsupported(fmt::format(
          "dimension {} goes to {}, which is taken or beyond the rank {}", from[i], to[i], rank));
    order[static_cast<size_t>(to[i])] = from[i];
    moved[static_cast<size_t>(from[i])] = true;
  }
  int64_t next = 0;
  for (int64_t& dim : order) {
    if (dim != -1) continue;
    while (moved[static_cast<size_t>(next)]) ++next;
    dim = next++;
  }
  return permuted(node, x, order);
}

Result<Values> unflatten(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  Shape shape = node.type(x).shape;
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size()));
  DTR_ASSIGN(Shape sizes, node.ints("sizes"));
  if (shape.empty()) return node.unsupported(kScalar);
  const int64_t extent = shape[static_cast<size_t>(dim)];
  shape.erase(shape.begin() + dim);
  const auto unknown = std::find(sizes.begin(), sizes.end(), -1);
  if (unknown != sizes.end()) {
    *unknown = 1;
    const auto known = checked_element_count(sizes);
    if (!known || *known == 0 || extent % *known != 0)
      return node.unsupported(
          fmt::format("{} elements do not fill {} times any number", extent, to_string(sizes)));
    *unknown = extent / *known;
  }
  shape.insert(shape.begin() + dim, sizes.begin(), sizes.end());
  return viewed(node, x, shape);
}

}  // namespace

std::vector<Operator> shape_operators() {
  return {
      view_row("aten.flatten.using_ints", "aten.view", flatten),
      view_row("aten.reshape.default", "aten.view", reshape_to_shape),
      view_row("aten.squeeze.default", "aten.view", squeeze),
      view_row("aten.squeeze.dim", "aten.view", squeeze),
      view_row("aten.squeeze.dims", "aten.view", squeeze),
      view_row("aten.unsqueeze.default", "aten.view", unsqueeze),
      view_row("aten.reshape_as.default", "aten.view", view_as),
      view_row("aten.view.default", "aten.view", view),
      view_row("aten.view_as.default", "aten.view", view_as),
      view_row("aten._unsafe_view.default", "aten.view", view),

      view_row("aten.unflatten.int", "aten.view", unflatten),

      view_row("aten.movedim.int", "aten.permute", movedim),
      view_row("aten.movedim.intlist", "aten.permute", movedim),
      view_row("aten.moveaxis.int", "aten.permute", movedim),
      view_row("aten.moveaxis.intlist", "aten.permute", movedim),
      view_row("aten.permute.default", "aten.permute", permute),
      view_row("aten.adjoint.default", "aten.permute", matrices_transposed),
      view_row("aten.mH.default", "aten.permute", matrices_transposed),
      view_row("aten.mT.default", "aten.permute", matrices_transposed),
      view_row("aten.numpy_T.default", "aten.permute", reversed),
      view_row("aten.swapaxes.default", "aten.permute", swapaxes),
      view_row("aten.swapdims.default", "aten.permute", transpose),
      view_row("aten.t.default", "aten.permute", transpose),
      view_row("aten.transpose.int", "aten.permute", transpose),

      view_row("aten.chunk.default", "aten.slice.Tensor", split),
      view_row("aten.narrow.default", "aten.slice.Tensor", narrow),
      view_row("aten.select.int", "aten.slice.Tensor", select),
      view_row("aten.slice.Tensor", "aten.slice.Tensor", slice_tensor),
      view_row("aten.split.Tensor", "aten.slice.Tensor", split),
      view_row("aten.split_with_sizes.default", "aten.slice.Tensor", split),
      view_row("aten.tensor_split.indices", "aten.slice.Tensor", tensor_split),
      view_row("aten.tensor_split.sections", "aten.slice.Tensor", tensor_split),
      view_row("aten.dsplit.array", "aten.slice.Tensor", split_along<2>),
      view_row("aten.dsplit.int", "aten.slice.Tensor", split_along<2>),
      view_row("aten.hsplit.array", "aten.slice.Tensor", split_along<1>),
      view_row("aten.hsplit.int", "aten.slice.Tensor", split_along<1>),
      view_row("aten.vsplit.array", "aten.slice.Tensor", split_along<0>),
      view_row("aten.vsplit.int", "aten.slice.Tensor", split_along<0>),
      view_row("aten.unbind.int", "aten.slice.Tensor", unbind),

      view_row("aten.unfold.default", "aten.index_select", unfold),
      tensor_row("aten.col2im.default", "aten.convolution", columns<true>),
      tensor_row("aten.im2col.default", "aten.cat", columns<false>),
      tensor_row("aten.channel_shuffle.default", "aten.permute", channel_shuffle),
      tensor_row("aten.pixel_shuffle.default", "aten.permute", pixel_shuffle<false>),
      tensor_row("aten.pixel_unshuffle.default", "aten.permute", pixel_shuffle<true>),

      tensor_row("aten.cat.default", "aten.cat", cat),
      tensor_row("aten.concat.default", "aten.cat", cat),
      tensor_row("aten.concatenate.default", "aten.cat", cat),
      tensor_row("aten.stack.default", "aten.cat", stack),
  };
}

}  // namespace dtr::pt2
