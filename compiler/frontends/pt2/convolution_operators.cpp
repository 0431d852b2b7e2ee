// conv1d, conv2d, their transposed forms and string paddings → aten.convolution.
#include <fmt/format.h>

#include "compiler/compositions/windows.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

// Adds a leading batch dimension of 1 to an input without one and takes it off the result again.
Result<Values> emit_convolution(NodeImport& node, ValueId x, Values operands,
                                const Attributes& attributes) {
  const Shape shape = node.type(x).shape;
  const bool batched = shape.size() == node.type(operands.front()).rank();
  Shape with_batch = shape;
  if (!batched) with_batch.insert(with_batch.begin(), 1);
  DTR_ASSIGN(x, node.view(x, with_batch));
  operands.insert(operands.begin(), x);
  DTR_ASSIGN(ValueId result, node.emit("aten.convolution", std::move(operands), attributes));
  if (!batched) {
    Shape without_batch = node.type(result).shape;
    without_batch.erase(without_batch.begin());
    DTR_ASSIGN(result, node.view(result, without_batch));
  }
  return Values{result};
}

// "valid" or "same": PyTorch puts the odd element of "same" at the end.
Result<void> string_padding(NodeImport& node, std::string_view mode, const Shape& weight,
                            const Ints& dilation, Attributes& attributes) {
  Ints begin(dilation.size(), 0);
  Ints end(dilation.size(), 0);
  if (mode == "same") {
    for (size_t i = 0; i < dilation.size(); ++i) {
      int64_t total = 0;
      if (__builtin_mul_overflow(dilation[i], weight[i + 2] - 1, &total) || total < 0)
        return node.unsupported(fmt::format("`dilation` is {} with padding `same`", dilation[i]));
      begin[i] = total / 2;
      end[i] = total - total / 2;
    }
  } else if (mode != "valid") {
    return node.unsupported(fmt::format("padding `{}` is neither `same` nor `valid`", mode));
  }
  if (begin != end) attributes.set("padding_end", std::move(end));
  attributes.set("padding", std::move(begin));
  return {};
}

Result<Values> convolution3d(NodeImport& node, ValueId x, ValueId weight, ValueId bias,
                             bool transposed) {
  compositions::Convolution3d convolution{.weight = weight, .bias = bias};
  DTR_ASSIGN(convolution.stride, node.spread("stride", 3, 1));
  DTR_ASSIGN(convolution.dilation, node.spread("dilation", 3, 1));
  DTR_ASSIGN(const Ints output_padding, node.spread("output_padding", 3, 0));
  DTR_ASSIGN(convolution.groups, node.integer("groups", 1));
  Shape shape = node.type(x).shape;
  const bool batched = shape.size() == 5;
  if (!batched) shape.insert(shape.begin(), 1);
  DTR_ASSIGN(x, node.view(x, shape));
  if (const auto mode = node.string("padding")) {
    Attributes both;
    DTR_TRY(string_padding(node, *mode, node.type(weight).shape, convolution.dilation, both));
    const Ints begin = both.get<Ints>("padding"), end = both.get_or("padding_end", begin);
    DTR_ASSIGN(x, node.pad(x, {begin[2], end[2], begin[1], end[1], begin[0], end[0]}, 0));
    convolution.padding = Ints(3, 0);
  } else {
    DTR_ASSIGN(convolution.padding, node.spread("padding", 3, 0));
  }
  DTR_ASSIGN(ValueId result, transposed ? compositions::transposed_convolution3d(
                                              node, x, convolution, output_padding)
                                        : compositions::convolution3d(node, x, convolution));
  if (!batched) {
    Shape back = node.type(result).shape;
    back.erase(back.begin());
    DTR_ASSIGN(result, node.view(result, back));
  }
  return Values{result};
}

Result<Values> convolution(NodeImport& node, bool transposed) {
  DTR_ASSIGN(const ValueId x, node.tensor("input"));
  DTR_ASSIGN(const ValueId weight, node.tensor("weight"));
  DTR_ASSIGN(const ValueId bias, node.optional_tensor("bias"));
  const Shape weight_shape = node.type(weight).shape;
  const size_t rank = node.type(x).rank();
  if (weight_shape.size() < 3 || (rank != weight_shape.size() && rank + 1 != weight_shape.size()))
    return node.unsupported(
        fmt::format("the input has rank {}, the weight rank {}", rank, weight_shape.size()));
  const size_t spatial = weight_shape.size() - 2;
  if (spatial == 3) return convolution3d(node, x, weight, bias, transposed);
  if (spatial > 3)
    return node.unsupported(fmt::format("a convolution over {} dimensions", spatial),
                            "convolve over three dimensions at most, others as a batch");
  Attributes attributes{{"transposed", transposed}};
  DTR_ASSIGN(Ints stride, node.spread("stride", spatial, 1));
  DTR_ASSIGN(const Ints dilation, node.spread("dilation", spatial, 1));
  DTR_ASSIGN(Ints output_padding, node.spread("output_padding", spatial, 0));
  DTR_ASSIGN(const int64_t groups, node.integer("groups", 1));
  if (const auto mode = node.string("padding")) {
    DTR_TRY(string_padding(node, *mode, weight_shape, dilation, attributes));
  } else {
    DTR_ASSIGN(Ints padding, node.spread("padding", spatial, 0));
    attributes.set("padding", std::move(padding));
  }
  attributes.set("stride", std::move(stride));
  attributes.set("dilation", dilation);
  attributes.set("output_padding", std::move(output_padding));
  attributes.set("groups", groups);
  Values operands{weight};
  if (bias.valid()) operands.push_back(bias);
  return emit_convolution(node, x, std::move(operands), attributes);
}

Result<Values> forward(NodeImport& node) { return convolution(node, false); }
Result<Values> transposed(NodeImport& node) { return convolution(node, true); }
Result<Values> general(NodeImport& node) {
  DTR_ASSIGN(const bool is_transposed, node.boolean("transposed"));
  return convolution(node, is_transposed);
}

}  // namespace

std::vector<Operator> convolution_operators() {
  return {
      {.target = "aten.conv1d.default", .op = "aten.convolution", .build = forward},
      {.target = "aten.conv1d.padding", .op = "aten.convolution", .build = forward},
      {.target = "aten.conv2d.default", .op = "aten.convolution", .build = forward},
      {.target = "aten.conv2d.padding", .op = "aten.convolution", .build = forward},
      {.target = "aten.conv3d.default", .op = "aten.convolution", .build = forward},
      {.target = "aten.conv3d.padding", .op = "aten.convolution", .build = forward},
      {.target = "aten.conv_transpose1d.default", .op = "aten.convolution", .build = transposed},
      {.target = "aten.conv_transpose2d.input", .op = "aten.convolution", .build = transposed},
      {.target = "aten.conv_transpose3d.input", .op = "aten.convolution", .build = transposed},
      {.target = "aten.convolution.default", .op = "aten.convolution", .build = general},
  };
}

}  // namespace dtr::pt2
