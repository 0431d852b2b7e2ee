// Functions of whole tensors: slopes, powers, elements by number, and a convolution whose channels
// come last.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/compositions/indices.h"
#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

// ---- slopes

// The slope along `dim` of elements that are `apart`: half the way between an element's
// neighbours, and at the ends that to the only neighbour, or, of order 2, of the parabola through
// the last three.
Result<ValueId> slope(NodeImport& node, ValueId x, int64_t dim, double apart, int64_t edge_order) {
  const int64_t extent = node.type(x).shape[static_cast<size_t>(dim)];
  if (edge_order < 1 || edge_order > 2 || extent <= edge_order || apart == 0)
    return node.unsupported(fmt::format("slopes of order {} of {} elements that are {} apart",
                                        edge_order, extent, apart));
  const auto at = [&](int64_t begin, int64_t end) { return node.slice(x, dim, begin, end); };
  const auto edge = [&](int64_t place, int64_t inwards) -> Result<ValueId> {
    const double unit = static_cast<double>(inwards) / apart;
    const std::vector<double> factors = edge_order == 1
                                            ? std::vector{-unit, unit}
                                            : std::vector{-1.5 * unit, 2 * unit, -0.5 * unit};
    ValueId sum;
    for (const double factor : factors) {
      DTR_ASSIGN(ValueId part, at(place, place + 1));
      DTR_ASSIGN(part, with_number(node, "aten.mul.Tensor", part, factor));
      if (sum.valid()) {
        DTR_ASSIGN(part, node.emit("aten.add.Tensor", {sum, part}));
      }
      sum = part;
      place += inwards;
    }
    return sum;
  };
  DTR_ASSIGN(const ValueId first, edge(0, 1));
  DTR_ASSIGN(const ValueId last, edge(extent - 1, -1));
  if (extent == 2) return node.concatenate({first, last}, dim);
  DTR_ASSIGN(const ValueId right, at(2, extent));
  DTR_ASSIGN(const ValueId left, at(0, extent - 2));
  DTR_ASSIGN(ValueId middle, node.emit("aten.sub.Tensor", {right, left}));
  DTR_ASSIGN(middle, with_number(node, "aten.mul.Tensor", middle, 0.5 / apart));
  return node.concatenate({first, middle, last}, dim);
}

Result<Values> gradient(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  const size_t rank = node.type(x).rank();
  DTR_ASSIGN(const int64_t edge_order, node.integer("edge_order", 1));
  if (rank == 0 || !is_float(node.type(x).dtype))
    return node.unsupported(fmt::format("slopes of {}", to_string(node.type(x).shape)),
                            "take the gradient of a float tensor with a dimension or more");
  // A list in the order in which it is given, which is that of the results.
  Ints dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  if (node.has("dim")) {
    if (const auto list = node.ints("dim")) {
      dims = *list;
    } else {
      DTR_ASSIGN(const int64_t dim, node.integer("dim"));
      dims = {dim};
    }
  }
  std::vector<double> apart(dims.size(), 1);
  if (node.has("spacing")) {
    if (const auto number = node.number("spacing")) {
      apart.assign(dims.size(), *number);
    } else if (const auto numbers = node.floats("spacing")) {
      apart.assign(numbers->begin(), numbers->end());
    } else if (const auto whole = node.ints("spacing")) {
      apart.assign(whole->begin(), whole->end());
    } else {
      return node.unsupported("its spacing is a tensor",
                              "give the distance of the elements as a number: spacing=0.5");
    }
  }
  if (apart.size() != dims.size())
    return node.unsupported(
        fmt::format("{} spacings for {} dimensions", apart.size(), dims.size()));
  Values results;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t dim = dims[i];
    if (dim < 0) dim += static_cast<int64_t>(rank);
    if (dim < 0 || dim >= static_cast<int64_t>(rank))
      return node.unsupported(fmt::format("the dimension {} of {}", dims[i], rank));
    DTR_ASSIGN(results.emplace_back(), slope(node, x, dim, apart[i], edge_order));
  }
  return results;
}

// ---- powers and places

// The powers 0, 1, … of each element along a new last dimension, the highest first unless
// `increasing`.
Result<Values> powers(NodeImport& node, ValueId x, bool increasing) {
  constexpr int64_t kMost = 256;
  Shape shape = node.type(x).shape;
  if (shape.empty()) return node.unsupported("the tensor is a scalar");
  DTR_ASSIGN(const int64_t count, node.integer("N", shape.back()));
  if (count < 1 || count > kMost)
    return node.unsupported(fmt::format("{} powers, 1 to {} are taken", count, kMost));
  shape.push_back(1);
  DTR_ASSIGN(const ValueId column, node.view(x, shape));
  DTR_ASSIGN(ValueId power, node.constant(node.type(x).dtype, shape, 1, "one"));
  Values columns{power};
  while (static_cast<int64_t>(columns.size()) < count) {
    if (columns.size() == 1) {
      power = column;
    } else {
      DTR_ASSIGN(power, node.emit("aten.mul.Tensor", {power, column}));
    }
    columns.push_back(power);
  }
  if (!increasing) std::ranges::reverse(columns);
  return one(node.concatenate(std::move(columns), static_cast<int64_t>(shape.size()) - 1));
}
Result<Values> vander(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("x"));
  DTR_ASSIGN(const bool increasing, node.boolean("increasing", false));
  return powers(node, x, increasing);
}
Result<Values> linalg_vander(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("x"));
  return powers(node, x, true);
}

// Powers in float of any numbers.
Result<Values> float_power(NodeImport& node) {
  if (!node.has_tensor("exponent")) {
    DTR_ASSIGN(ValueId x, node.tensor("self"));
    DTR_ASSIGN(const double exponent, node.number("exponent"));
    DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
    return one(node.emit("aten.pow.Tensor_Scalar", {x}, {{"exponent", exponent}}));
  }
  DTR_ASSIGN(auto both, node.pair("self", "exponent"));
  DTR_ASSIGN(both.first, node.cast(both.first, DType::kFloat32));
  DTR_ASSIGN(both.second, node.cast(both.second, DType::kFloat32));
  return one(node.emit("aten.pow.Tensor_Tensor", {both.first, both.second}));
}

// Elements with these numbers, in row-major order, replaced, or with the sources added.
Result<Values> put(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(ValueId index, node.tensor("index"));
  DTR_ASSIGN(ValueId source, node.tensor("source"));
  DTR_ASSIGN(const bool accumulate, node.boolean("accumulate", false));
  const Shape shape = node.type(x).shape;
  const int64_t count = node.type(x).elements(), named = node.type(index).elements();
  if (node.type(source).elements() != named)
    return node.unsupported(
        fmt::format("{} sources for {} indices", node.type(source).elements(), named));
  if (named == 0) return Values{x};
  DTR_ASSIGN(const ValueId flat, node.view(x, {count}));
  DTR_ASSIGN(index, node.view(index, {named}));
  DTR_ASSIGN(source, node.view(source, {named}));
  DTR_ASSIGN(index, node.wrap_negative_indices(index, count));
  DTR_ASSIGN(const ValueId result,
             compositions::put_by_tensors(node, flat, {index}, source, accumulate));
  return one(node.view(result, shape));
}

// ---- convolution

// Of (time, batch, channels) with weights (taps, channels, results).
Result<Values> time_batch_channels(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(ValueId weight, node.tensor("weight"));
  DTR_ASSIGN(const ValueId bias, node.tensor("bias"));
  DTR_ASSIGN(const int64_t padding, node.integer("pad", 0));
  if (node.type(x).rank() != 3 || node.type(weight).rank() != 3)
    return node.unsupported(fmt::format("the input has rank {}, the weight rank {}",
                                        node.type(x).rank(), node.type(weight).rank()));
  DTR_ASSIGN(x, node.permute(x, {1, 2, 0}));
  DTR_ASSIGN(weight, node.permute(weight, {2, 1, 0}));
  DTR_ASSIGN(const ValueId result, node.emit("aten.convolution", {x, weight, bias},
                                             {{"stride", Ints{1}},
                                              {"padding", Ints{padding}},
                                              {"dilation", Ints{1}},
                                              {"transposed", false},
                                              {"output_padding", Ints{0}},
                                              {"groups", int64_t{1}}}));
  return one(node.permute(result, {2, 0, 1}));
}

}  // namespace

std::vector<Operator> function_operators() {
  return {
      tensor_row("aten.conv_tbc.default", "aten.convolution", time_batch_channels),
      tensor_row("aten.float_power.Scalar", "aten.pow.Tensor_Tensor", float_power),
      tensor_row("aten.float_power.Tensor_Scalar", "aten.pow.Tensor_Scalar", float_power),
      tensor_row("aten.float_power.Tensor_Tensor", "aten.pow.Tensor_Tensor", float_power),
      tensor_row("aten.gradient.array", "aten.sub.Tensor", gradient),
      tensor_row("aten.gradient.scalararray", "aten.sub.Tensor", gradient),
      tensor_row("aten.gradient.scalarint", "aten.sub.Tensor", gradient),
      tensor_row("aten.gradient.scalarrayarray", "aten.sub.Tensor", gradient),
      tensor_row("aten.gradient.scalarrayint", "aten.sub.Tensor", gradient),
      tensor_row("aten.gradient.tensorarray", "aten.sub.Tensor", gradient),
      tensor_row("aten.gradient.tensorarrayint", "aten.sub.Tensor", gradient),
      tensor_row("aten.linalg_vander.default", "aten.mul.Tensor", linalg_vander),
      tensor_row("aten.put.default", "aten.index_put", put),
      tensor_row("aten.vander.default", "aten.mul.Tensor", vander),
  };
}

}  // namespace dtr::pt2
