// Reductions over dimensions; without dimensions they reduce all.
#include <fmt/format.h>

#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {

namespace {

// Sums and means take a dtype to compute in.
template <const char* kOp>
Result<Values> in_own_dtype(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const std::optional<DType> dtype, node.dtype("dtype"));
  if (dtype && *dtype != node.type(x).dtype)
    return node.unsupported(fmt::format("it computes in {}, its operand is {}", name(*dtype), name(node.type(x).dtype)));
  DTR_ASSIGN(Ints dims, node.dims("dim", node.type(x).rank()));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  DTR_ASSIGN(const ValueId result, node.emit(kOp, {x}, {{"dim", std::move(dims)}, {"keepdim", keepdim}}));
  return Values{result};
}
constexpr char kMean[] = "aten.mean.dim";
constexpr char kSum[] = "aten.sum.dim_IntList";

// log Σ exp(x), of x less its greatest element, so that no sum overflows. Where that is infinite the result is NaN.
Result<Values> log_sum_exp(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints dims, node.dims("dim", node.type(x).rank()));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  DTR_ASSIGN(ValueId highest, node.emit("aten.amax", {x}, {{"dim", dims}, {"keepdim", true}}));
  DTR_ASSIGN(const ValueId distance, node.emit("aten.sub.Tensor", {x, highest}));
  DTR_ASSIGN(const ValueId power, node.emit("aten.exp", {distance}));
  DTR_ASSIGN(const ValueId sum, node.emit(kSum, {power}, {{"dim", dims}, {"keepdim", keepdim}}));
  DTR_ASSIGN(const ValueId logarithm, node.emit("aten.log", {sum}));
  DTR_ASSIGN(highest, node.view(highest, Shape(node.type(sum).shape)));
  DTR_ASSIGN(const ValueId result, node.emit("aten.add.Tensor", {logarithm, highest}));
  return Values{result};
}

// The product with a triangle of ones.
Result<Values> cumulative_sum(NodeImport& node) {
  constexpr int64_t kMost = 1024;  // a megabyte of weights in int8
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  const Type type = node.type(x);
  const auto rank = static_cast<int64_t>(type.rank());
  DTR_ASSIGN(const int64_t dim, node.dim("dim", type.rank()));
  DTR_ASSIGN(const std::optional<DType> dtype, node.dtype("dtype"));
  if (!is_float(type.dtype) || (dtype && *dtype != type.dtype))
    return node.unsupported(fmt::format("it adds up {} in {}", name(type.dtype), name(dtype.value_or(type.dtype))),
                            "add up floats in their own dtype");
  if (rank == 0) return Values{x};
  const int64_t count = type.shape[static_cast<size_t>(dim)];
  if (count > kMost)
    return node.unsupported(
        fmt::format("cumulative sums are a product with a matrix, of at most {0}x{0} elements; this one is {1}x{1}", kMost, count),
        "sum parts of the dimension, and add to each the sum of those before");
  std::vector<double> triangle(static_cast<size_t>(count * count));
  for (int64_t to = 0; to < count; ++to)
    for (int64_t from = 0; from <= to; ++from) triangle[static_cast<size_t>(to * count + from)] = 1;
  DTR_ASSIGN(const ValueId weight, node.constant(type.dtype, triangle, Shape{count, count}));
  Ints order;
  for (int64_t d = 0; d < rank; ++d) order.push_back(d);
  std::swap(order[static_cast<size_t>(dim)], order.back());  // its own inverse
  DTR_ASSIGN(x, node.permute(x, order));
  DTR_ASSIGN(const ValueId sums, node.emit("aten.linear", {x, weight}));
  DTR_ASSIGN(const ValueId result, node.permute(sums, order));
  return Values{result};
}

// Variance, the mean of squared distances from the mean, with n − correction for n; or its root.
Result<ValueId> variance(NodeImport& node, ValueId x, ValueId mean, const Ints& dims, bool keepdim, bool root) {
  double correction = 1;
  if (node.has("correction")) {
    DTR_ASSIGN(correction, node.number("correction"));
  } else if (node.has("unbiased")) {
    DTR_ASSIGN(const bool unbiased, node.boolean("unbiased"));
    correction = unbiased ? 1 : 0;
  }
  double count = 1;
  for (const int64_t dim : dims) count *= static_cast<double>(node.type(x).shape[static_cast<size_t>(dim)]);
  if (count <= correction) return node.unsupported(fmt::format("the variance of {} elements with a correction of {}", count, correction));
  DTR_ASSIGN(const ValueId distance, node.emit("aten.sub.Tensor", {x, mean}));
  DTR_ASSIGN(const ValueId squared, node.emit("aten.pow.Tensor_Scalar", {distance}, {{"exponent", 2.0}}));
  DTR_ASSIGN(ValueId result, node.emit(kMean, {squared}, {{"dim", dims}, {"keepdim", keepdim}}));
  if (correction != 0) {
    DTR_ASSIGN(const ValueId factor, node.constant(node.type(x).dtype, {}, count / (count - correction), "correction"));
    DTR_ASSIGN(result, node.emit("aten.mul.Tensor", {result, factor}));
  }
  return root ? node.emit("aten.sqrt", {result}) : result;
}

// var, std, and with the mean as a second result: var_mean, std_mean.
template <bool kRoot, bool kWithMean>
Result<Values> spread(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints dims, node.dims("dim", node.type(x).rank()));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  DTR_ASSIGN(const ValueId mean, node.emit(kMean, {x}, {{"dim", dims}, {"keepdim", true}}));
  DTR_ASSIGN(const ValueId result, variance(node, x, mean, dims, keepdim, kRoot));
  if (!kWithMean) return Values{result};
  DTR_ASSIGN(const ValueId shaped, node.view(mean, Shape(node.type(result).shape)));
  return Values{result, shaped};
}

}  // namespace

std::vector<Operator> reduction_operators() {
  const auto reduction = [](std::string_view target, std::string_view op) -> Operator {
    return {.target = target, .op = op, .params = {{"self"}, {"dim", Take::kDims}, {"keepdim", Take::kBool, 0}}};
  };
  return {
      Operator{.target = "aten.mean.dim", .op = kMean, .build = in_own_dtype<kMean>},
      Operator{.target = "aten.mean.default", .op = kMean, .build = in_own_dtype<kMean>},
      Operator{.target = "aten.sum.dim_IntList", .op = kSum, .build = in_own_dtype<kSum>},
      Operator{.target = "aten.sum.default", .op = kSum, .build = in_own_dtype<kSum>},
      reduction("aten.amax.default", "aten.amax"),
      reduction("aten.amin.default", "aten.amin"),
      reduction("aten.max.default", "aten.amax"),
      reduction("aten.min.default", "aten.amin"),
      making("aten.cumsum.default", "aten.linear", cumulative_sum),
      making("aten.logsumexp.default", "aten.add.Tensor", log_sum_exp),
      making("aten.std.correction", kMean, spread<true, false>),
      making("aten.std.default", kMean, spread<true, false>),
      making("aten.std.dim", kMean, spread<true, false>),
      making("aten.std_mean.correction", kMean, spread<true, true>),
      making("aten.var.correction", kMean, spread<false, false>),
      making("aten.var.default", kMean, spread<false, false>),
      making("aten.var.dim", kMean, spread<false, false>),
      making("aten.var_mean.correction", kMean, spread<false, true>),
      making("aten.var_mean.dim", kMean, spread<false, true>),
  };
}

}  // namespace dtr::pt2
