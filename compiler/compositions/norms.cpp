#include "compiler/compositions/norms.h"

#include <fmt/format.h>

#include <cmath>

namespace dtr::compositions {

Result<ValueId> vector_norm(GraphBuilder& builder, ValueId x, double p, const Ints& dims,
                            bool keepdim) {
  const Attributes along{{"dim", dims}, {"keepdim", keepdim}};
  if (p == 2) {
    DTR_ASSIGN(const ValueId squares,
               builder.emit("aten.pow.Tensor_Scalar", {x}, {{"exponent", 2.0}}));
    DTR_ASSIGN(const ValueId sum, builder.emit("aten.sum.dim_IntList", {squares}, along));
    return builder.emit("aten.sqrt", {sum});
  }
  if (p == 0) {  // how many are not zero
    DTR_ASSIGN(const ValueId zero, builder.constant(builder.type(x).dtype, {}, 0, "zero"));
    DTR_ASSIGN(const ValueId counted, builder.emit("aten.ne.Tensor", {x, zero}));
    DTR_ASSIGN(const ValueId count, builder.emit("aten.sum.dim_IntList", {counted}, along));
    return builder.emit("convert", {count}, {{"dtype", std::string(name(builder.type(x).dtype))}});
  }
  DTR_ASSIGN(ValueId result, builder.emit("aten.abs", {x}));
  if (std::isinf(p)) return builder.emit(p > 0 ? "aten.amax" : "aten.amin", {result}, along);
  if (!(p > 0))
    return builder.unsupported(fmt::format("the norm of order {}", p),
                               "take a norm of positive or infinite order");
  if (p != 1) {
    DTR_ASSIGN(result, builder.emit("aten.pow.Tensor_Scalar", {result}, {{"exponent", p}}));
  }
  DTR_ASSIGN(result, builder.emit("aten.sum.dim_IntList", {result}, along));
  return p == 1 ? result : builder.emit("aten.pow.Tensor_Scalar", {result}, {{"exponent", 1 / p}});
}

Result<ValueId> cosine_similarity(GraphBuilder& builder, ValueId x, ValueId y, int64_t dim,
                                  double eps) {
  DTR_ASSIGN(ValueId result, builder.emit("aten.mul.Tensor", {x, y}));
  const size_t rank = builder.type(result).rank();
  const Attributes along{{"dim", Ints{dim}}, {"keepdim", false}};
  DTR_ASSIGN(result, builder.emit("aten.sum.dim_IntList", {result}, along));
  for (const ValueId each : {x, y}) {
    if (builder.type(each).rank() != rank)
      return builder.unsupported(
          fmt::format("operands of shapes {} and {}", to_string(builder.type(x).shape),
                      to_string(builder.type(y).shape)),
          "give both as many dimensions");
    DTR_ASSIGN(const ValueId squares,
               builder.emit("aten.pow.Tensor_Scalar", {each}, {{"exponent", 2.0}}));
    DTR_ASSIGN(const ValueId sum, builder.emit("aten.sum.dim_IntList", {squares}, along));
    DTR_ASSIGN(const ValueId bounded, builder.emit("aten.clamp", {sum}, {{"min", eps * eps}}));
    DTR_ASSIGN(const ValueId reciprocal, builder.emit("aten.rsqrt", {bounded}));
    DTR_ASSIGN(result, builder.emit("aten.mul.Tensor", {result, reciprocal}));
  }
  return result;
}

Result<WeightNorm> weight_norm(GraphBuilder& builder, ValueId v, ValueId g, int64_t kept_dim) {
  Ints dims;
  for (int64_t i = 0; i < static_cast<int64_t>(builder.type(v).rank()); ++i)
    if (i != kept_dim) dims.push_back(i);
  WeightNorm made;
  DTR_ASSIGN(made.norm, vector_norm(builder, v, 2, dims, true));
  DTR_ASSIGN(const ValueId factor, builder.emit("aten.div.Tensor", {g, made.norm}));
  DTR_ASSIGN(made.weight, builder.emit("aten.mul.Tensor", {v, factor}));
  return made;
}

Result<ValueId> log_sum_exp(GraphBuilder& builder, ValueId x, const Ints& dims, bool keepdim) {
  DTR_ASSIGN(ValueId highest, builder.emit("aten.amax", {x}, {{"dim", dims}, {"keepdim", true}}));
  DTR_ASSIGN(const ValueId distance, builder.emit("aten.sub.Tensor", {x, highest}));
  DTR_ASSIGN(const ValueId power, builder.emit("aten.exp", {distance}));
  DTR_ASSIGN(const ValueId sum,
             builder.emit("aten.sum.dim_IntList", {power}, {{"dim", dims}, {"keepdim", keepdim}}));
  DTR_ASSIGN(const ValueId logarithm, builder.emit("aten.log", {sum}));
  DTR_ASSIGN(highest, builder.view(highest, Shape(builder.type(sum).shape)));
  return builder.emit("aten.add.Tensor", {logarithm, highest});
}

Result<ValueId> integer_power(GraphBuilder& builder, ValueId x, int64_t exponent) {
  if (exponent < 0)
    return builder.unsupported(fmt::format("integers to the power of {}", exponent),
                               "convert the integers to float first");
  ValueId result, square = x;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1 && !result.valid()) {
      result = square;
    } else if (exponent % 2 == 1) {
      DTR_ASSIGN(result, builder.emit("aten.mul.Tensor", {result, square}));
    }
    if (exponent == 1) return result;
    DTR_ASSIGN(square, builder.emit("aten.mul.Tensor", {square, square}));
  }
  const Type type = builder.type(x);
  return builder.constant(type.dtype, type.shape, 1, "ones");
}

Result<ValueId> product(GraphBuilder& builder, ValueId x, int64_t dim, bool keepdim) {
  const auto axis = static_cast<size_t>(dim);
  if (builder.type(x).rank() <= axis || builder.type(x).shape[axis] == 0)
    return builder.unsupported(
        fmt::format("a product of elements of {}", to_string(builder.type(x).shape)));
  for (int64_t count = builder.type(x).shape[axis]; count > 1; count = (count + 1) / 2) {
    const int64_t half = count / 2;
    DTR_ASSIGN(const ValueId first, builder.slice(x, dim, 0, half));
    DTR_ASSIGN(const ValueId second, builder.slice(x, dim, half, 2 * half));
    DTR_ASSIGN(const ValueId pairs, builder.emit("aten.mul.Tensor", {first, second}));
    ValueId odd;
    if (count % 2 != 0) {
      DTR_ASSIGN(odd, builder.slice(x, dim, count - 1, count));
    }
    DTR_ASSIGN(x, builder.concatenate({pairs, odd}, dim));
  }
  Shape shape = builder.type(x).shape;
  if (!keepdim) shape.erase(shape.begin() + dim);
  return builder.view(x, shape);
}

Result<ValueId> cumulative_sum(GraphBuilder& builder, ValueId x, int64_t dim) {
  constexpr int64_t kMost = 1024;  // a megabyte of weights in int8
  const Type type = builder.type(x);
  const auto rank = static_cast<int64_t>(type.rank());
  const int64_t count = type.shape[static_cast<size_t>(dim)];
  if (count > kMost)
    return builder.unsupported(
        fmt::format("cumulative sums are a product with a matrix, of at most {0}x{0} elements; "
                    "this one is {1}x{1}",
                    kMost, count),
        "sum parts of the dimension, and add to each the sum of those before");
  std::vector<double> triangle(static_cast<size_t>(count * count));
  for (int64_t to = 0; to < count; ++to)
    for (int64_t from = 0; from <= to; ++from) triangle[static_cast<size_t>(to * count + from)] = 1;
  DTR_ASSIGN(const ValueId weight, builder.constant(type.dtype, triangle, Shape{count, count}));
  Ints order;
  for (int64_t d = 0; d < rank; ++d) order.push_back(d);
  std::swap(order[static_cast<size_t>(dim)], order.back());  // its own inverse
  DTR_ASSIGN(x, builder.permute(x, order));
  DTR_ASSIGN(const ValueId sums, builder.emit("aten.linear", {x, weight}));
  return builder.permute(sums, order);
}

Result<ValueId> variance(GraphBuilder& builder, ValueId x, const Variance& of) {
  const auto& [mean, dims, keepdim, correction, root] = of;
  double count = 1;
  for (const int64_t dim : dims)
    count *= static_cast<double>(builder.type(x).shape[static_cast<size_t>(dim)]);
  if (count <= correction)
    return builder.unsupported(
        fmt::format("the variance of {} elements with a correction of {}", count, correction));
  DTR_ASSIGN(const ValueId distance, builder.emit("aten.sub.Tensor", {x, mean}));
  DTR_ASSIGN(const ValueId squared,
             builder.emit("aten.pow.Tensor_Scalar", {distance}, {{"exponent", 2.0}}));
  DTR_ASSIGN(ValueId result,
             builder.emit("aten.mean.dim", {squared}, {{"dim", dims}, {"keepdim", keepdim}}));
  if (correction != 0) {
    DTR_ASSIGN(const ValueId factor, builder.constant(builder.type(x).dtype, {},
                                                      count / (count - correction), "correction"));
    DTR_ASSIGN(result, builder.emit("aten.mul.Tensor", {result, factor}));
  }
  return root ? builder.emit("aten.sqrt", {result}) : result;
}

}  // namespace dtr::compositions
