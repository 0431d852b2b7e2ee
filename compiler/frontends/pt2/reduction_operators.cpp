// Reductions over dimensions; without dimensions they reduce all.
#include <fmt/format.h>

#include "compiler/compositions/norms.h"
#include "compiler/frontends/pt2/operators.h"
#include "compiler/ops/constant_folding.h"

namespace dtr::pt2 {

namespace {

// Sums and means take a dtype to compute in.
template <const char* kOp>
Result<Values> in_own_dtype(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const std::optional<DType> dtype, node.dtype("dtype"));
  if (dtype) {
    DTR_ASSIGN(x, node.cast(x, *dtype));
  }
  DTR_ASSIGN(Ints dims, node.dims("dim", node.type(x).rank()));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  DTR_ASSIGN(const ValueId result,
             node.emit(kOp, {x}, {{"dim", std::move(dims)}, {"keepdim", keepdim}}));
  return Values{result};
}
constexpr char kMean[] = "aten.mean.dim";
constexpr char kSum[] = "aten.sum.dim_IntList";

Result<Values> log_sum_exp(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints dims, node.dims("dim", node.type(x).rank()));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  DTR_ASSIGN(const ValueId result, compositions::log_sum_exp(node, x, dims, keepdim));
  return Values{result};
}

Result<Values> cumulative_sum(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const int64_t dim, node.dim("dim", node.type(x).rank()));
  DTR_ASSIGN(const std::optional<DType> dtype, node.dtype("dtype"));
  if (dtype) {
    DTR_ASSIGN(x, node.cast(x, *dtype));
  }
  const Type type = node.type(x);
  if (!is_float(type.dtype) || ops::is_static(node.graph(), x)) {
    DTR_ASSIGN(ValueId result, node.emit("aten.cumsum", {x}, {{"dim", dim}}));
    if (dtype) {
      DTR_ASSIGN(result, node.cast(result, *dtype));  // integers are added up in int64
    }
    return Values{result};
  }
  if (type.rank() == 0) return Values{x};
  DTR_ASSIGN(const ValueId result, compositions::cumulative_sum(node, x, dim));
  return Values{result};
}

// any, all: the greatest or the least of bools.
template <const char* kOp>
Result<Values> of_truth(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(x, node.cast(x, DType::kBool));
  DTR_ASSIGN(Ints dims, node.dims("dim", node.type(x).rank()));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  DTR_ASSIGN(const ValueId result,
             node.emit(kOp, {x}, {{"dim", std::move(dims)}, {"keepdim", keepdim}}));
  return Values{result};
}
constexpr char kAny[] = "aten.amax";
constexpr char kAll[] = "aten.amin";

// The product of all, or along a dimension.
Result<Values> product(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor("self"));
  DTR_ASSIGN(const std::optional<DType> dtype, node.dtype("dtype"));
  const DType own = node.type(x).dtype;
  DTR_ASSIGN(x, node.cast(x, dtype.value_or(is_float(own) ? own : DType::kInt64)));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  int64_t dim = 0;
  if (node.has("dim")) {
    DTR_ASSIGN(dim, node.dim("dim", node.type(x).rank()));
  } else {
    DTR_ASSIGN(x, node.view(x, {node.type(x).elements()}));
  }
  DTR_ASSIGN(const ValueId result, compositions::product(node, x, dim, keepdim));
  return Values{result};
}

// What is subtracted from the number of elements before it divides their squared distances.
Result<double> correction_of(NodeImport& node) {
  if (node.has("correction")) return node.number("correction");
  if (!node.has("unbiased")) return 1.0;
  DTR_ASSIGN(const bool unbiased, node.boolean("unbiased"));
  return unbiased ? 1.0 : 0.0;
}

// var, std, and with the mean as a second result: var_mean, std_mean.
template <bool kRoot, bool kWithMean>
Result<Values> spread(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints dims, node.dims("dim", node.type(x).rank()));
  DTR_ASSIGN(const bool keepdim, node.boolean("keepdim", false));
  DTR_ASSIGN(const ValueId mean, node.emit(kMean, {x}, {{"dim", dims}, {"keepdim", true}}));
  DTR_ASSIGN(const double correction, correction_of(node));
  DTR_ASSIGN(const ValueId result,
             compositions::variance(node, x, {mean, dims, keepdim, correction, kRoot}));
  if (!kWithMean) return Values{result};
  DTR_ASSIGN(const ValueId shaped, node.view(mean, Shape(node.type(result).shape)));
  return Values{result, shaped};
}

}  // namespace

std::vector<Operator> reduction_operators() {
  const auto reduction = [](std::string_view target, std::string_view op) -> Operator {
    return {
        .target = target,
        .op = op,
        .params = {{"self"}, {"dim", ArgumentKind::kDims}, {"keepdim", ArgumentKind::kBool, 0}}};
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
      tensor_row("aten.all.default", kAll, of_truth<kAll>),
      tensor_row("aten.all.dim", kAll, of_truth<kAll>),
      tensor_row("aten.all.dims", kAll, of_truth<kAll>),
      tensor_row("aten.any.default", kAny, of_truth<kAny>),
      tensor_row("aten.any.dim", kAny, of_truth<kAny>),
      tensor_row("aten.any.dims", kAny, of_truth<kAny>),
      tensor_row("aten.prod.default", "aten.mul.Tensor", product),
      tensor_row("aten.prod.dim_int", "aten.mul.Tensor", product),
      tensor_row("aten.cumsum.default", "aten.linear", cumulative_sum),
      tensor_row("aten.logsumexp.default", "aten.add.Tensor", log_sum_exp),
      tensor_row("aten.std.correction", kMean, spread<true, false>),
      tensor_row("aten.std.default", kMean, spread<true, false>),
      tensor_row("aten.std.dim", kMean, spread<true, false>),
      tensor_row("aten.std_mean.correction", kMean, spread<true, true>),
      tensor_row("aten.std_mean.default", kMean, spread<true, true>),
      tensor_row("aten.std_mean.dim", kMean, spread<true, true>),
      tensor_row("aten.var.correction", kMean, spread<false, false>),
      tensor_row("aten.var.default", kMean, spread<false, false>),
      tensor_row("aten.var.dim", kMean, spread<false, false>),
      tensor_row("aten.var_mean.correction", kMean, spread<false, true>),
      tensor_row("aten.var_mean.default", kMean, spread<false, true>),
      tensor_row("aten.var_mean.dim", kMean, spread<false, true>),
  };
}

}  // namespace dtr::pt2
