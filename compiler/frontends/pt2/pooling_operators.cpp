// Pooling in one, two and three dimensions, with and without batch → aten.max_pool2d,
// aten.avg_pool2d; adaptive pooling → a plain pool, a mean, or where windows differ in size
// aten.adaptive_avg_pool2d, aten.adaptive_max_pool2d.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "compiler/compositions/pools.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

// Views x as [N, C, H, W], applies `pool` and views the result back: pooling in one dimension gets
// a height of 1.
Result<Values> pooled(NodeImport& node, size_t spatial,
                      const std::function<Result<ValueId>(ValueId)>& pool) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  Shape shape = node.type(x).shape;
  if (shape.size() != spatial + 1 && shape.size() != spatial + 2)
    return node.unsupported(fmt::format("the input has shape {}, expected {} or {} dimensions",
                                        to_string(shape), spatial + 1, spatial + 2));
  const bool batched = shape.size() == spatial + 2;
  if (!batched) shape.insert(shape.begin(), 1);
  if (spatial == 1) shape.insert(shape.begin() + 2, 1);
  DTR_ASSIGN(x, node.view(x, shape));
  DTR_ASSIGN(ValueId result, pool(x));
  Shape back = node.type(result).shape;
  if (spatial == 1) back.erase(back.begin() + 2);
  if (!batched) back.erase(back.begin());
  DTR_ASSIGN(result, node.view(result, back));
  return Values{result};
}

// A window argument of a pooling in `spatial` dimensions as two entries.
Result<Ints> window(NodeImport& node, std::string_view name, size_t spatial,
                    std::optional<int64_t> fallback, int64_t unit) {
  DTR_ASSIGN(Ints values, node.spread(name, spatial, fallback));
  if (spatial == 1) values.insert(values.begin(), unit);
  return values;
}

Result<Attributes> window_attributes(NodeImport& node, size_t spatial) {
  DTR_ASSIGN(Ints kernel, window(node, "kernel_size", spatial, {}, 1));
  Ints stride = kernel;
  DTR_ASSIGN(const Ints given, node.ints("stride", Ints{}));
  if (!given.empty()) {
    DTR_ASSIGN(stride, window(node, "stride", spatial, {}, 1));
  }
  DTR_ASSIGN(Ints padding, window(node, "padding", spatial, 0, 0));
  DTR_ASSIGN(const bool ceil_mode, node.boolean("ceil_mode", false));
  // With ceil_mode a window may be larger than its operand, of whose elements it then takes all.
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape& shape = node.type(x).shape;
  for (size_t i = 0; ceil_mode && i < spatial && i < shape.size(); ++i) {
    const size_t at = kernel.size() - 1 - i;
    if (padding[at] == 0)
      kernel[at] = std::min(kernel[at], std::max<int64_t>(shape[shape.size() - 1 - i], 1));
  }
  return Attributes{{"kernel_size", std::move(kernel)},
                    {"stride", std::move(stride)},
                    {"padding", std::move(padding)},
                    {"ceil_mode", ceil_mode}};
}

// The last dimensions of a shape.
Ints last(const Shape& shape, size_t count) {
  return {shape.end() - static_cast<int64_t>(count), shape.end()};
}

// The windows of attributes with an entry for each of `in`.
Result<compositions::Windows> windows_of(const NodeImport& node, const Attributes& attributes,
                                         const Ints& in, const Ints& out) {
  const Ints &kernel = attributes.get<Ints>("kernel_size"),
             &stride = attributes.get<Ints>("stride"), &padding = attributes.get<Ints>("padding"),
             &dilation = attributes.get<Ints>("dilation");
  const size_t skipped = kernel.size() - in.size();  // the height of one dimension
  compositions::Windows windows(in.size());
  for (size_t d = 0; d < in.size(); ++d) {
    const size_t at = d + skipped;
    DTR_ASSIGN(windows[d], compositions::windows_of(node, {.in = in[d],
                                                           .out = out[d],
                                                           .kernel = kernel[at],
                                                           .stride = stride[at],
                                                           .pad = padding[at],
                                                           .dilation = dilation[at]}));
  }
  return windows;
}

// Of integers, by the elements of each window: a pool computes in float.
Result<ValueId> max_pool_of_integers(NodeImport& node, ValueId x, const Attributes& attributes) {
  const Ints in = last(node.type(x).shape, 2);
  Ints out;
  for (size_t d = 0; d < 2; ++d) {
    const auto of = [&](std::string_view name) { return attributes.get<Ints>(name)[d]; };
    const ops::WindowAxis axis{.in = in[d],
                               .kernel = of("kernel_size"),
                               .stride = of("stride"),
                               .pad = of("padding"),
                               .pad_end = of("padding"),
                               .dilation = of("dilation")};
    if (axis.stride < 1 || axis.kernel < 1 || axis.dilation < 1 || axis.pad < 0)
      return node.unsupported("a window without elements");
    out.push_back(ops::window_outputs(axis, attributes.get<bool>("ceil_mode")));
    if (out.back() < 1) return node.unsupported("a window that is larger than its operand");
  }
  DTR_ASSIGN(const compositions::Windows windows, windows_of(node, attributes, in, out));
  return compositions::greatest_of_windows(node, x, windows);
}

template <size_t spatial>
Result<Values> max_pool(NodeImport& node) {
  return pooled(node, spatial, [&](ValueId x) -> Result<ValueId> {
    DTR_ASSIGN(Attributes attributes, window_attributes(node, spatial));
    DTR_ASSIGN(Ints dilation, window(node, "dilation", spatial, 1, 1));
    attributes.set("dilation", std::move(dilation));
    if (!is_float(node.type(x).dtype) && !node.type(x).quantized())
      return max_pool_of_integers(node, x, attributes);
    return node.emit("aten.max_pool2d", {x}, attributes);
  });
}

// The windows that divide dimensions into so many parts, which may overlap by one.
compositions::Windows parts_of(const Ints& in, const Ints& out) {
  compositions::Windows parts(in.size());
  for (size_t d = 0; d < in.size(); ++d)
    for (int64_t i = 0; i < out[d]; ++i) {
      Ints& window = parts[d].emplace_back();
      const int64_t end = ((i + 1) * in[d] + out[d] - 1) / out[d];
      for (int64_t place = i * in[d] / out[d]; place < end; ++place) window.push_back(place);
    }
  return parts;
}

template <size_t spatial>
Result<Values> max_pool_with_indices(NodeImport& node) {
  DTR_ASSIGN(Values made, max_pool<spatial>(node));
  if (!node.is_read(1)) return made;
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape, result = node.type(made[0]).shape;
  DTR_ASSIGN(Attributes attributes, window_attributes(node, spatial));
  DTR_ASSIGN(Ints dilation, window(node, "dilation", spatial, 1, 1));
  attributes.set("dilation", std::move(dilation));
  DTR_ASSIGN(const compositions::Windows windows,
             windows_of(node, attributes, last(shape, spatial), last(result, spatial)));
  DTR_ASSIGN(made.emplace_back(), compositions::places_of_greatest(node, x, windows, result));
  return made;
}

// Zeros, with each element at the place in its plane that its index names.
template <size_t spatial>
Result<Values> max_unpool(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const ValueId indices, node.tensor("indices"));
  DTR_ASSIGN(const Ints size, node.ints("output_size"));
  if (spatial == 3) {  // they follow from the size
    DTR_TRY(node.ints("stride"));
    DTR_TRY(node.ints("padding"));
  }
  if (size.size() != spatial) return node.unsupported(fmt::format("{} extents", size.size()));
  return one(compositions::put_to_places(node, x, indices, size));
}

template <size_t spatial>
Result<Values> avg_pool(NodeImport& node) {
  return pooled(node, spatial, [&](ValueId x) -> Result<ValueId> {
    DTR_ASSIGN(Attributes attributes, window_attributes(node, spatial));
    DTR_ASSIGN(const bool count_include_pad, node.boolean("count_include_pad", true));
    attributes.set("count_include_pad", count_include_pad);
    if (node.has("divisor_override")) {
      DTR_ASSIGN(const int64_t divisor, node.integer("divisor_override"));
      attributes.set("divisor_override", divisor);
    }
    return node.emit("aten.avg_pool2d", {x}, attributes);
  });
}

// To a given size: a plain pool where that divides the input's, a mean of all where one element is
// left.
template <size_t spatial, bool maximum>
Result<Values> adaptive_pool(NodeImport& node) {
  return pooled(node, spatial, [&](ValueId x) -> Result<ValueId> {
    const Shape shape = node.type(x).shape;
    DTR_ASSIGN(Ints output, window(node, "output_size", spatial, {}, 1));
    Ints kernel;
    for (size_t i = 0; i < 2; ++i)
      if (output[i] > 0 && shape[2 + i] % output[i] == 0)
        kernel.push_back(shape[2 + i] / output[i]);
    if (kernel.size() < 2)
      return node.emit(maximum ? "aten.adaptive_max_pool2d" : "aten.adaptive_avg_pool2d", {x},
                       {{"output_size", std::move(output)}});
    if (!maximum && output == Ints{1, 1})
      return node.emit("aten.mean.dim", {x}, {{"dim", Ints{2, 3}}, {"keepdim", true}});
    Attributes attributes{
        {"kernel_size", kernel}, {"stride", kernel}, {"padding", Ints{0, 0}}, {"ceil_mode", false}};
    if (maximum) {
      attributes.set("dilation", Ints{1, 1});
    } else {
      attributes.set("count_include_pad", true);
    }
    return node.emit(maximum ? "aten.max_pool2d" : "aten.avg_pool2d", {x}, attributes);
  });
}

// ---- three dimensions: first over the planes, then over the depth

// Entry `of` of the three of each window attribute, for an image (depth, height · width), or the
// two of the planes.
Attributes for_depth(const Attributes& all, bool depth) {
  Attributes attributes;
  for (const auto& [name, value] : all) {
    const Ints* three = std::get_if<Ints>(&value);
    if (three == nullptr) {
      attributes.set(name, value);
    } else if (depth) {
      attributes.set(name, Ints{(*three)[0], name == "padding" ? 0 : 1});
    } else {
      attributes.set(name, Ints{(*three)[1], (*three)[2]});
    }
  }
  return attributes;
}

Result<Values> pooled_in_space(NodeImport& node, std::string_view op, const Attributes& all) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape;
  if (shape.size() != 4 && shape.size() != 5)
    return node.unsupported(
        fmt::format("the input has shape {}, expected 4 or 5 dimensions", to_string(shape)));
  const int64_t depth = shape[shape.size() - 3];
  const int64_t images = element_count(Shape(shape.begin(), shape.end() - 3));
  DTR_ASSIGN(x, node.view(x, {images, depth, shape[shape.size() - 2], shape.back()}));
  Attributes planes = for_depth(all, false), columns = for_depth(all, true);
  if (op == "aten.avg_pool2d" && all.find("divisor_override") != nullptr)
    planes.set("divisor_override", int64_t{1});
  DTR_ASSIGN(x, node.emit(op, {x}, planes));
  const Shape flat = node.type(x).shape;
  DTR_ASSIGN(x, node.view(x, {images, 1, depth, flat[2] * flat[3]}));
  DTR_ASSIGN(x, node.emit(op, {x}, columns));
  Shape result(shape.begin(), shape.end() - 3);
  result.insert(result.end(), {node.type(x).shape[2], flat[2], flat[3]});
  DTR_ASSIGN(x, node.view(x, result));
  return Values{x};
}

Result<Attributes> space_attributes(NodeImport& node) {
  DTR_ASSIGN(Ints kernel, node.spread("kernel_size", 3));
  DTR_ASSIGN(Ints stride, node.ints("stride", Ints{}));
  if (stride.empty()) {
    stride = kernel;
  } else {
    DTR_ASSIGN(stride, node.spread("stride", 3));
  }
  DTR_ASSIGN(Ints padding, node.spread("padding", 3, 0));
  DTR_ASSIGN(const bool ceil_mode, node.boolean("ceil_mode", false));
  return Attributes{{"kernel_size", std::move(kernel)},
                    {"stride", std::move(stride)},
                    {"padding", std::move(padding)},
                    {"ceil_mode", ceil_mode}};
}

Result<Values> max_pool_in_space(NodeImport& node) {
  DTR_ASSIGN(Attributes attributes, space_attributes(node));
  DTR_ASSIGN(Ints dilation, node.spread("dilation", 3, 1));
  attributes.set("dilation", std::move(dilation));
  DTR_ASSIGN(Values made, pooled_in_space(node, "aten.max_pool2d", attributes));
  if (!node.is_read(1)) return made;
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape, result = node.type(made[0]).shape;
  DTR_ASSIGN(const compositions::Windows windows,
             windows_of(node, attributes, last(shape, 3), last(result, 3)));
  DTR_ASSIGN(made.emplace_back(), compositions::places_of_greatest(node, x, windows, result));
  return made;
}

Result<Values> avg_pool_in_space(NodeImport& node) {
  DTR_ASSIGN(Attributes attributes, space_attributes(node));
  DTR_ASSIGN(const bool count_include_pad, node.boolean("count_include_pad", true));
  attributes.set("count_include_pad", count_include_pad);
  if (node.has("divisor_override")) {
    DTR_ASSIGN(const int64_t divisor, node.integer("divisor_override"));
    attributes.set("divisor_override", divisor);
  }
  return pooled_in_space(node, "aten.avg_pool2d", attributes);
}

// Parts of different sizes: over the planes, then over the depth.
Result<Values> of_uneven_parts(NodeImport& node, ValueId x, const Ints& size, bool maximum) {
  const Shape shape = node.type(x).shape;
  const std::string_view op = maximum ? "aten.adaptive_max_pool2d" : "aten.adaptive_avg_pool2d";
  const int64_t images = element_count(Shape(shape.begin(), shape.end() - 3));
  const int64_t depth = shape[shape.size() - 3], plane = size[1] * size[2];
  DTR_ASSIGN(x, node.view(x, {images, depth, shape[shape.size() - 2], shape.back()}));
  DTR_ASSIGN(x, node.emit(op, {x}, {{"output_size", Ints{size[1], size[2]}}}));
  DTR_ASSIGN(x, node.view(x, {images, 1, depth, plane}));
  DTR_ASSIGN(x, node.emit(op, {x}, {{"output_size", Ints{size[0], plane}}}));
  Shape result(shape.begin(), shape.end() - 3);
  result.insert(result.end(), size.begin(), size.end());
  return one(node.view(x, result));
}

// The mean, or the greatest, of each of a given number of parts: windows that divide the extents.
template <bool kMaximum>
Result<Values> adaptive_pool_in_space(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints size, node.spread("output_size", 3));
  const Shape shape = node.type(x).shape;
  if (shape.size() < 4) return node.unsupported(fmt::format("a shape of {}", to_string(shape)));
  Ints kernel;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t extent = shape[shape.size() - 3 + i];
    if (size[i] < 1) return node.unsupported(fmt::format("{} parts", size[i]));
    if (extent % size[i] != 0) return of_uneven_parts(node, x, size, kMaximum);
    kernel.push_back(extent / size[i]);
  }
  Attributes attributes{{"kernel_size", kernel},
                        {"stride", kernel},
                        {"padding", Ints{0, 0, 0}},
                        {"ceil_mode", false}};
  if (kMaximum) {
    attributes.set("dilation", Ints{1, 1, 1});
  } else {
    attributes.set("count_include_pad", true);
  }
  return pooled_in_space(node, kMaximum ? "aten.max_pool2d" : "aten.avg_pool2d", attributes);
}

// A maximum of parts, with the places of the greatest elements where somebody reads them.
template <size_t spatial, Result<Values> (*pool)(NodeImport&)>
Result<Values> adaptive_max_pool(NodeImport& node) {
  DTR_ASSIGN(Values made, pool(node));
  if (!node.is_read(1)) return made;
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const Shape shape = node.type(x).shape, result = node.type(made[0]).shape;
  DTR_ASSIGN(made.emplace_back(),
             compositions::places_of_greatest(
                 node, x, parts_of(last(shape, spatial), last(result, spatial)), result));
  return made;
}

}  // namespace

std::vector<Operator> pooling_operators() {
  return {
      tensor_row("aten.adaptive_avg_pool3d.default", "aten.avg_pool2d",
                 adaptive_pool_in_space<false>),
      tensor_row("aten._adaptive_avg_pool3d.default", "aten.avg_pool2d",
                 adaptive_pool_in_space<false>),
      tensor_row("aten.adaptive_max_pool3d.default", "aten.max_pool2d",
                 adaptive_max_pool<3, adaptive_pool_in_space<true>>),
      tensor_row("aten.avg_pool3d.default", "aten.avg_pool2d", avg_pool_in_space),
      tensor_row("aten.max_pool3d.default", "aten.max_pool2d", max_pool_in_space),
      tensor_row("aten.max_pool3d_with_indices.default", "aten.max_pool2d", max_pool_in_space),
      {.target = "aten.max_pool1d.default", .op = "aten.max_pool2d", .build = max_pool<1>},
      {.target = "aten.max_pool2d.default", .op = "aten.max_pool2d", .build = max_pool<2>},
      tensor_row("aten.max_pool2d_with_indices.default", "aten.max_pool2d",
                 max_pool_with_indices<2>),
      tensor_row("aten.max_unpool2d.default", "aten.index_put", max_unpool<2>),
      tensor_row("aten.max_unpool3d.default", "aten.index_put", max_unpool<3>),
      {.target = "aten.avg_pool1d.default", .op = "aten.avg_pool2d", .build = avg_pool<1>},
      {.target = "aten.avg_pool2d.default", .op = "aten.avg_pool2d", .build = avg_pool<2>},
      {.target = "aten.adaptive_avg_pool1d.default",
       .op = "aten.adaptive_avg_pool2d",
       .build = adaptive_pool<1, false>},
      {.target = "aten.adaptive_avg_pool2d.default",
       .op = "aten.adaptive_avg_pool2d",
       .build = adaptive_pool<2, false>},
      tensor_row("aten.adaptive_max_pool1d.default", "aten.adaptive_max_pool2d",
                 adaptive_max_pool<1, adaptive_pool<1, true>>),
      tensor_row("aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool2d",
                 adaptive_max_pool<2, adaptive_pool<2, true>>),
      tensor_row("aten.max_pool1d_with_indices.default", "aten.max_pool2d",
                 max_pool_with_indices<1>),
      {.target = "aten._adaptive_avg_pool2d.default",
       .op = "aten.adaptive_avg_pool2d",
       .build = adaptive_pool<2, false>},
  };
}

}  // namespace dtr::pt2
