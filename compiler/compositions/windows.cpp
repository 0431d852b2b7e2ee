#include "compiler/compositions/windows.h"

#include <fmt/format.h>

namespace dtr::compositions {

Result<ValueId> windows_along(GraphBuilder& builder, ValueId x, int64_t dim, int64_t size,
                              int64_t step) {
  const Shape shape = builder.type(x).shape;
  const int64_t extent = shape.empty() ? 1 : shape[static_cast<size_t>(dim)];
  if (size < 1 || step < 1 || size > extent || shape.empty())
    return builder.unsupported(
        fmt::format("windows of {} elements, {} apart, of {}", size, step, extent));
  const int64_t count = (extent - size) / step + 1;
  std::vector<double> places;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < size; ++j) places.push_back(static_cast<double>(i * step + j));
  DTR_ASSIGN(const ValueId index, builder.constant(DType::kInt64, places, Shape{count, size}));
  DTR_ASSIGN(const ValueId parts, builder.emit("aten.index_select", {x, index}, {{"dim", dim}}));
  Ints order;
  for (int64_t d = 0; d <= static_cast<int64_t>(shape.size()); ++d)
    if (d != dim + 1) order.push_back(d);
  order.push_back(dim + 1);
  return builder.permute(parts, order);
}

Result<ValueId> spread(GraphBuilder& builder, ValueId x, int64_t dim, int64_t step,
                       ValueId between) {
  const Shape shape = builder.type(x).shape;
  const auto at = static_cast<size_t>(dim);
  const int64_t extent = shape[at];
  if (step == 1 || extent < 2) return x;
  // Each element and what is between it and the next, without that of the last.
  Shape outer(shape.begin(), shape.begin() + dim), inner(shape.begin() + dim + 1, shape.end());
  const int64_t before = element_count(outer), behind = element_count(inner);
  DTR_ASSIGN(x, builder.view(x, {before, extent, 1, behind}));
  DTR_ASSIGN(between, builder.view(between, {1, 1, 1, 1}));
  DTR_ASSIGN(between, builder.expand(between, {before, extent, step - 1, behind}));
  DTR_ASSIGN(x, builder.concatenate({x, between}, 2));
  DTR_ASSIGN(x, builder.view(x, {before, extent * step, behind}));
  Shape wide = shape;
  wide[at] = (extent - 1) * step + 1;
  DTR_ASSIGN(x, builder.slice(x, 1, 0, wide[at]));
  return builder.view(x, wide);
}

namespace {

// Windows of each of the two dimensions of an image of `size`; 0 if it holds none.
Ints counts(const Ints& size, const Blocks& blocks) {
  Ints result;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t span = blocks.dilation[i] * (blocks.kernel[i] - 1) + 1;
    const int64_t room = size[i] + 2 * blocks.padding[i] - span;
    result.push_back(room < 0 ? 0 : room / blocks.stride[i] + 1);
  }
  return result;
}

Result<void> check(const GraphBuilder& builder, const Blocks& blocks) {
  constexpr int64_t kMost = 4096;
  for (size_t i = 0; i < 2; ++i)
    if (blocks.kernel[i] < 1 || blocks.dilation[i] < 1 || blocks.stride[i] < 1 ||
        blocks.padding[i] < 0 || blocks.kernel[i] > kMost || blocks.dilation[i] > kMost)
      return builder.unsupported(fmt::format("windows of {}x{}, {}x{} apart", blocks.kernel[0],
                                             blocks.kernel[1], blocks.stride[0], blocks.stride[1]));
  return {};
}

}  // namespace

Result<ValueId> image_to_columns(GraphBuilder& builder, ValueId x, const Blocks& blocks) {
  DTR_TRY(check(builder, blocks));
  const Shape shape = builder.type(x).shape;
  const Ints count = counts({shape[2], shape[3]}, blocks);
  if (count[0] * count[1] == 0)
    return builder.unsupported(fmt::format("windows of {}x{} do not fit {}", blocks.kernel[0],
                                           blocks.kernel[1], to_string(shape)));
  DTR_ASSIGN(
      const ValueId padded,
      builder.pad(x, {blocks.padding[1], blocks.padding[1], blocks.padding[0], blocks.padding[0]},
                  0));
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < blocks.kernel[0]; ++i)
    for (int64_t j = 0; j < blocks.kernel[1]; ++j) {
      ValueId part = padded;
      const int64_t start[] = {i * blocks.dilation[0], j * blocks.dilation[1]};
      for (size_t d = 0; d < 2; ++d) {
        const int64_t end = start[d] + (count[d] - 1) * blocks.stride[d] + 1;
        DTR_ASSIGN(part, builder.slice(part, static_cast<int64_t>(2 + d), start[d], end,
                                       blocks.stride[d]));
      }
      DTR_ASSIGN(parts.emplace_back(),
                 builder.view(part, {shape[0], shape[1], 1, count[0] * count[1]}));
    }
  DTR_ASSIGN(const ValueId all, builder.concatenate(std::move(parts), 2));
  return builder.view(
      all, {shape[0], shape[1] * blocks.kernel[0] * blocks.kernel[1], count[0] * count[1]});
}

// A transposed convolution, whose weight puts each row of the columns at its place in the window.
Result<ValueId> columns_to_image(GraphBuilder& builder, ValueId x, const Ints& size,
                                 const Blocks& blocks) {
  DTR_TRY(check(builder, blocks));
  const Shape shape = builder.type(x).shape;
  const int64_t places = blocks.kernel[0] * blocks.kernel[1];
  const Ints count = counts(size, blocks);
  if (shape.size() != 3 || shape[1] % places != 0 || shape[2] != count[0] * count[1])
    return builder.unsupported(fmt::format("columns of shape {} are no image of {}x{}",
                                           to_string(shape), size[0], size[1]));
  const int64_t channels = shape[1] / places;
  DTR_ASSIGN(const ValueId image,
             builder.view(x, {shape[0] * channels, places, count[0], count[1]}));
  std::vector<double> one(static_cast<size_t>(places * places));
  for (int64_t i = 0; i < places; ++i) one[static_cast<size_t>(i * places + i)] = 1;
  DTR_ASSIGN(const ValueId weight,
             builder.constant(builder.type(x).dtype, one,
                              Shape{places, 1, blocks.kernel[0], blocks.kernel[1]}));
  // The convolution reaches as far as the last window; the image may go on.
  DTR_ASSIGN(ValueId sums, builder.emit("aten.convolution", {image, weight},
                                        {{"stride", blocks.stride},
                                         {"padding", Ints{0, 0}},
                                         {"dilation", blocks.dilation},
                                         {"transposed", true},
                                         {"output_padding", Ints{0, 0}},
                                         {"groups", int64_t{1}}}));
  const Shape made = builder.type(sums).shape;
  Ints pad;
  for (size_t d = 2; d-- > 0;)
    pad.insert(pad.end(), {-blocks.padding[d], size[d] + blocks.padding[d] - made[2 + d]});
  DTR_ASSIGN(sums, builder.pad(sums, pad, 0));
  return builder.view(sums, {shape[0], channels, size[0], size[1]});
}

Result<ValueId> convolution3d(GraphBuilder& builder, ValueId x, const Convolution3d& of) {
  const Shape weight = builder.type(of.weight).shape;
  DTR_ASSIGN(x, builder.pad(x, {0, 0, 0, 0, of.padding[0], of.padding[0]}, 0));
  const Shape shape = builder.type(x).shape;
  const int64_t depth = weight[2], per_group = weight[1], groups = of.groups;
  const int64_t span = of.dilation[0] * (depth - 1) + 1;
  if (shape[2] < span || groups < 1 || shape[1] != groups * per_group)
    return builder.unsupported(fmt::format("a weight of {} for {}, in {} groups", to_string(weight),
                                           to_string(shape), groups));
  const int64_t out = (shape[2] - span) / of.stride[0] + 1;
  // (N, groups, channels, D, H · W): the planes of the kernel's depth come after the groups.
  DTR_ASSIGN(x, builder.view(x, {shape[0], groups, per_group, shape[2], shape[3] * shape[4]}));
  std::vector<ValueId> planes;
  for (int64_t k = 0; k < depth; ++k) {
    const int64_t start = k * of.dilation[0];
    DTR_ASSIGN(planes.emplace_back(),
               builder.slice(x, 3, start, start + (out - 1) * of.stride[0] + 1, of.stride[0]));
  }
  DTR_ASSIGN(x, builder.concatenate(std::move(planes), 2));
  DTR_ASSIGN(x, builder.permute(x, {0, 3, 1, 2, 4}));
  DTR_ASSIGN(x, builder.view(x, {shape[0] * out, groups * depth * per_group, shape[3], shape[4]}));
  DTR_ASSIGN(ValueId kernel, builder.permute(of.weight, {0, 2, 1, 3, 4}));
  DTR_ASSIGN(kernel, builder.view(kernel, {weight[0], depth * per_group, weight[3], weight[4]}));
  std::vector<ValueId> operands{x, kernel};
  if (of.bias.valid()) operands.push_back(of.bias);
  DTR_ASSIGN(x, builder.emit("aten.convolution", operands,
                             {{"stride", Ints{of.stride[1], of.stride[2]}},
                              {"padding", Ints{of.padding[1], of.padding[2]}},
                              {"dilation", Ints{of.dilation[1], of.dilation[2]}},
                              {"transposed", false},
                              {"output_padding", Ints{0, 0}},
                              {"groups", groups}}));
  const Shape made = builder.type(x).shape;
  DTR_ASSIGN(x, builder.view(x, {shape[0], out, made[1], made[2], made[3]}));
  return builder.permute(x, {0, 2, 1, 3, 4});
}

Result<ValueId> transposed_convolution3d(GraphBuilder& builder, ValueId x, const Convolution3d& of,
                                         const Ints& output_padding) {
  const Shape shape = builder.type(x).shape, weight = builder.type(of.weight).shape;
  const int64_t depth = weight[2], stride = of.stride[0];
  if (shape[1] != weight[0] || shape[2] < 1 || stride < 1)
    return builder.unsupported(
        fmt::format("a weight of {} for {}", to_string(weight), to_string(shape)));
  // Planes as samples of a batch.
  DTR_ASSIGN(x, builder.permute(x, {0, 2, 1, 3, 4}));
  DTR_ASSIGN(x, builder.view(x, {shape[0] * shape[2], shape[1], shape[3], shape[4]}));
  const int64_t spread = (shape[2] - 1) * stride + 1;
  const int64_t last = of.dilation[0] * (depth - 1);
  const int64_t whole = spread + last + output_padding[0];
  ValueId sum;
  for (int64_t k = 0; k < depth; ++k) {
    DTR_ASSIGN(ValueId plane, builder.slice(of.weight, 2, k, k + 1));
    DTR_ASSIGN(plane, builder.view(plane, {weight[0], weight[1], weight[3], weight[4]}));
    DTR_ASSIGN(ValueId part,
               builder.emit("aten.convolution", {x, plane},
                            {{"stride", Ints{of.stride[1], of.stride[2]}},
                             {"padding", Ints{of.padding[1], of.padding[2]}},
                             {"dilation", Ints{of.dilation[1], of.dilation[2]}},
                             {"transposed", true},
                             {"output_padding", Ints{output_padding[1], output_padding[2]}},
                             {"groups", of.groups}}));
    const Shape made = builder.type(part).shape;
    // `stride` − 1 planes of zeros between those of the input, and `k` steps in front.
    DTR_ASSIGN(part, builder.view(part, {shape[0], shape[2], 1, made[1], made[2], made[3]}));
    DTR_ASSIGN(part, builder.pad(part, {0, 0, 0, 0, 0, 0, 0, stride - 1}, 0));
    DTR_ASSIGN(part, builder.view(part, {shape[0], shape[2] * stride, made[1], made[2], made[3]}));
    DTR_ASSIGN(part, builder.slice(part, 1, 0, spread));
    const int64_t before = k * of.dilation[0];
    DTR_ASSIGN(part, builder.pad(part, {0, 0, 0, 0, 0, 0, before, whole - spread - before}, 0));
    if (sum.valid()) {
      DTR_ASSIGN(sum, builder.emit("aten.add.Tensor", {sum, part}));
    } else {
      sum = part;
    }
  }
  DTR_ASSIGN(sum, builder.slice(sum, 1, of.padding[0], whole - of.padding[0]));
  if (of.bias.valid()) {
    DTR_ASSIGN(const ValueId bias, builder.view(of.bias, {builder.type(of.bias).elements(), 1, 1}));
    DTR_ASSIGN(sum, builder.emit("aten.add.Tensor", {sum, bias}));
  }
  return builder.permute(sum, {0, 2, 1, 3, 4});
}

}  // namespace dtr::compositions
