// Operators that move data: reshapes → aten.view, exchanges of axes → aten.permute, parts → aten.slice.Tensor, joins → aten.cat, padding,
// resizing.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

constexpr int64_t kMaxParts = 4096;  // of one split

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
      return node.unsupported(fmt::format("shape {} does not divide {}", to_string(size), to_string(node.type(x).shape)));
    *unknown = elements / *known;
  }
  return viewed(node, x, size);
}
Result<Values> view(NodeImport& node) { return reshape(node, "size"); }
Result<Values> reshape_to_shape(NodeImport& node) { return reshape(node, "shape"); }

Result<Values> flatten(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  if (shape.empty()) return viewed(node, x, {1});
  DTR_ASSIGN(const int64_t start, node.dim("start_dim", shape.size(), 0));
  DTR_ASSIGN(const int64_t end, node.dim("end_dim", shape.size(), -1));
  if (start > end) return node.unsupported(fmt::format("dimensions {} to {}", start, end));
  Shape flat(shape.begin(), shape.begin() + start);
  flat.push_back(element_count(Shape(shape.begin() + start, shape.begin() + end + 1)));
  flat.insert(flat.end(), shape.begin() + end + 1, shape.end());
  return viewed(node, x, flat);
}

Result<Values> squeeze(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  DTR_ASSIGN(const Ints dims, node.dims("dim", shape.size()));
  Shape squeezed;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 || !std::binary_search(dims.begin(), dims.end(), static_cast<int64_t>(i))) squeezed.push_back(shape[i]);
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
    if (dim < -rank || dim >= rank) return node.unsupported(fmt::format("`dims` has {}, the rank is {}", dim, rank));
    if (dim < 0) dim += rank;
  }
  return permuted(node, x, order);
}

Result<Values> transpose(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const size_t rank = node.type(x).rank();
  DTR_ASSIGN(const int64_t a, node.dim("dim0", rank, 0));
  DTR_ASSIGN(const int64_t b, node.dim("dim1", rank, -1));
  Ints order;
  for (size_t i = 0; i < rank; ++i) order.push_back(static_cast<int64_t>(i));
  if (rank != 0) std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  return permuted(node, x, order);
}

// x[start:end:step] along dim; bounds are clipped as Python does. Nothing if that is all of x.
Result<ValueId> slice(NodeImport& node, ValueId x, int64_t dim, int64_t start, int64_t end, int64_t step = 1) {
  const int64_t extent = node.type(x).shape[static_cast<size_t>(dim)];
  const auto clip = [&](int64_t bound) { return std::clamp<int64_t>(bound < 0 ? bound + extent : bound, 0, extent); };
  start = clip(start);
  end = std::max(start, clip(end));
  if (start == 0 && end == extent && step == 1) return x;
  return node.emit("aten.slice.Tensor", {x}, {{"dim", dim}, {"start", start}, {"end", end}, {"step", step}});
}

Result<Values> slice_tensor(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  if (node.type(x).rank() == 0) return node.unsupported("the tensor is a scalar");
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank(), 0));
  DTR_ASSIGN(const int64_t start, node.integer("start", 0));
  DTR_ASSIGN(const int64_t end, node.integer("end", INT64_MAX));
  DTR_ASSIGN(const int64_t step, node.integer("step", 1));
  DTR_ASSIGN(const ValueId result, slice(node, x, dim, start, end, step));
  return Values{result};
}

Result<Values> select(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  Shape shape = node.type(x).shape;
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size()));
  DTR_ASSIGN(int64_t index, node.integer("index"));
  const int64_t extent = shape.empty() ? 0 : shape[static_cast<size_t>(dim)];
  if (index < -extent || index >= extent) return node.unsupported(fmt::format("index {} of {} elements", index, extent));
  if (index < 0) index += extent;
  DTR_ASSIGN(const ValueId part, slice(node, x, dim, index, index + 1));
  shape.erase(shape.begin() + dim);
  return viewed(node, part, shape);
}

// Parts of the given sizes along `dim`, in order.
Result<Values> split_into(NodeImport& node, ValueId x, int64_t dim, const Ints& sizes) {
  Values parts;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    DTR_ASSIGN(const ValueId part, slice(node, x, dim, start, start + size));
    parts.push_back(part);
    start += size;
  }
  return parts;
}

Result<Values> split(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  if (node.type(x).rank() == 0) return node.unsupported("the tensor is a scalar");
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank(), 0));
  const int64_t extent = node.type(x).shape[static_cast<size_t>(dim)];
  Ints sizes;
  if (node.has("split_sizes")) {
    DTR_ASSIGN(sizes, node.ints("split_sizes"));
    int64_t left = extent;
    for (const int64_t size : sizes) {
      if (size < 0 || size > left) return node.unsupported(fmt::format("sizes [{}] of {} elements", fmt::join(sizes, ", "), extent));
      left -= size;
    }
  } else {
    int64_t size = 0;
    if (node.has("chunks")) {
      DTR_ASSIGN(const int64_t chunks, node.integer("chunks"));
      if (chunks <= 0 || chunks > kMaxParts) return node.unsupported(fmt::format("{} chunks", chunks));
      size = (extent + chunks - 1) / chunks;
    } else {
      DTR_ASSIGN(size, node.integer("split_size"));
    }
    if (size <= 0 || extent / size > kMaxParts) return node.unsupported(fmt::format("{} elements in parts of {}", extent, size));
    for (int64_t start = 0; start < extent; start += size) sizes.push_back(std::min(size, extent - start));
  }
  return split_into(node, x, dim, sizes);
}

Result<Values> stack(NodeImport& node) {
  DTR_ASSIGN(Values parts, node.tensors("tensors"));
  Shape shape = node.type(parts.front()).shape;
  DTR_ASSIGN(const int64_t dim, node.dim("dim", shape.size() + 1, 0));
  for (ValueId& part : parts) {
    Shape with_dim = node.type(part).shape;
    if (with_dim != shape) return node.unsupported("tensors of different shapes");
    with_dim.insert(with_dim.begin() + dim, 1);
    DTR_ASSIGN(part, node.view(part, with_dim));
  }
  DTR_ASSIGN(const ValueId result, node.emit("aten.cat", std::move(parts), {{"dim", dim}}));
  return Values{result};
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
  DTR_ASSIGN(const ValueId result, node.emit("aten.pad", {x}, {{"pad", std::move(amounts)}, {"mode", std::string(mode)}}));
  return Values{result};
}

// Size [height, width] of a resized image: given, or from the factors.
Result<Ints> resized(NodeImport& node, ValueId x) {
  if (node.has("output_size")) return node.spread("output_size", 2);
  DTR_ASSIGN(const Floats factors, node.floats("scale_factors"));
  const Shape shape = node.type(x).shape;
  if (factors.size() != 2 || shape.size() != 4) return node.unsupported(fmt::format("input of shape {}", to_string(shape)));
  Ints size;
  for (size_t i = 0; i < 2; ++i) {
    const double extent = std::floor(static_cast<double>(shape[2 + i]) * factors[i]);
    if (!(extent >= 1 && extent <= 1e9)) return node.unsupported(fmt::format("the factor {}", factors[i]));
    size.push_back(static_cast<int64_t>(extent));
  }
  return size;
}

Result<Values> upsample_nearest(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(Ints size, resized(node, x));
  DTR_ASSIGN(const ValueId result, node.emit("aten.upsample_nearest2d", {x}, {{"output_size", std::move(size)}}));
  return Values{result};
}

Result<Values> upsample_bilinear(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(Ints size, resized(node, x));
  DTR_ASSIGN(const bool align_corners, node.boolean("align_corners"));
  DTR_ASSIGN(const ValueId result,
             node.emit("aten.upsample_bilinear2d", {x}, {{"output_size", std::move(size)}, {"align_corners", align_corners}}));
  return Values{result};
}

}  // namespace

std::vector<Operator> shape_operators() {
  const auto moving = [](std::string_view target, std::string_view op, Result<Values> (*build)(NodeImport&)) -> Operator {
    return {.target = target, .op = op, .build = build, .aliases = true};
  };
  const auto cat = [](std::string_view target) -> Operator {
    return {.target = target, .op = "aten.cat", .params = {{"tensors", Take::kTensors}, {"dim", Take::kDim, 0}}};
  };
  return {
      moving("aten.flatten.using_ints", "aten.view", flatten),
      moving("aten.reshape.default", "aten.view", reshape_to_shape),
      moving("aten.squeeze.default", "aten.view", squeeze),
      moving("aten.squeeze.dim", "aten.view", squeeze),
      moving("aten.squeeze.dims", "aten.view", squeeze),
      moving("aten.unsqueeze.default", "aten.view", unsqueeze),
      moving("aten.view.default", "aten.view", view),
      moving("aten._unsafe_view.default", "aten.view", view),

      moving("aten.permute.default", "aten.permute", permute),
      moving("aten.t.default", "aten.permute", transpose),
      moving("aten.transpose.int", "aten.permute", transpose),

      moving("aten.chunk.default", "aten.slice.Tensor", split),
      moving("aten.select.int", "aten.slice.Tensor", select),
      moving("aten.slice.Tensor", "aten.slice.Tensor", slice_tensor),
      moving("aten.split.Tensor", "aten.slice.Tensor", split),
      moving("aten.split_with_sizes.default", "aten.slice.Tensor", split),

      cat("aten.cat.default"),
      cat("aten.concat.default"),
      {.target = "aten.stack.default", .op = "aten.cat", .build = stack},

      {.target = "aten.constant_pad_nd.default",
       .op = "aten.constant_pad_nd",
       .params = {{"self"}, {"pad", Take::kInts}, {"value", Take::kNumber, 0}}},
      {.target = "aten.pad.default", .op = "aten.constant_pad_nd", .build = pad},

      {.target = "aten.upsample_bilinear2d.vec", .op = "aten.upsample_bilinear2d", .build = upsample_bilinear},
      {.target = "aten.upsample_nearest2d.vec", .op = "aten.upsample_nearest2d", .build = upsample_nearest},
  };
}

}  // namespace dtr::pt2
