// Reductions over dimensions, cumulative sums, softmax, and places of extremes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/compositions/indices.h"
#include "compiler/compositions/norms.h"
#include "compiler/frontends/onnx/operators.h"

namespace dtr::onnx {
namespace {

enum class Reduce : uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kL1,
  kL2,
  kLogSum,
  kLogSumExp,
  kSumSquare
};

// The result over no element.
double neutral(Reduce kind) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case Reduce::kMax:
    case Reduce::kLogSum:
    case Reduce::kLogSumExp:
      return -kInfinity;
    case Reduce::kMin:
      return kInfinity;
    case Reduce::kProd:
      return 1;
    default:
      return 0;
  }
}

Result<ValueId> plain_op(NodeImport& node, std::string_view op, ValueId x, const Ints& dims,
                         bool keepdim) {
  return node.emit(op, {x}, {{"dim", dims}, {"keepdim", keepdim}});
}

Result<ValueId> reduced(NodeImport& node, Reduce kind, ValueId x, const Ints& dims, bool keepdim) {
  const DType dtype = node.dtype(x);
  switch (kind) {
    case Reduce::kSum:
      return node.sum(x, dims, keepdim);
    case Reduce::kMean: {
      if (is_float(dtype)) return plain_op(node, "aten.mean.dim", x, dims, keepdim);
      int64_t count = 1;
      for (const int64_t dim : dims) count *= node.shape(x)[static_cast<size_t>(dim)];
      DTR_ASSIGN(const ValueId sum, node.sum(x, dims, keepdim));
      DTR_ASSIGN(const ValueId divisor, node.scalar(static_cast<double>(count), sum));
      return node.emit("aten.div.Tensor_mode", {sum, divisor},
                       {{"rounding_mode", std::string("trunc")}});
    }
    case Reduce::kMax:
      return plain_op(node, "aten.amax", x, dims, keepdim);
    case Reduce::kMin:
      return plain_op(node, "aten.amin", x, dims, keepdim);
    case Reduce::kProd:
      for (size_t i = dims.size(); i-- > 0;) {
        DTR_ASSIGN(x, compositions::product(node, x, dims[i], keepdim));
      }
      return x;
    case Reduce::kL1: {
      DTR_ASSIGN(x, node.emit("aten.abs", {x}));
      return node.sum(x, dims, keepdim);
    }
    case Reduce::kL2: {
      DTR_ASSIGN(x, node.mul(x, x));
      DTR_ASSIGN(x, node.sum(x, dims, keepdim));
      DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
      DTR_ASSIGN(x, node.emit("aten.sqrt", {x}));
      return node.cast(x, dtype);
    }
    case Reduce::kLogSum: {
      DTR_ASSIGN(x, node.sum(x, dims, keepdim));
      DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
      DTR_ASSIGN(x, node.emit("aten.log", {x}));
      return node.cast(x, dtype);
    }
    case Reduce::kLogSumExp: {
      DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
      DTR_ASSIGN(x, compositions::log_sum_exp(node, x, dims, keepdim));
      return node.cast(x, dtype);
    }
    default: {
      DTR_ASSIGN(x, node.mul(x, x));
      return node.sum(x, dims, keepdim);
    }
  }
}

template <Reduce kKind>
Result<Values> reduction(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  const Shape of = node.shape(x);
  DTR_ASSIGN(const bool keepdim, node.flag("keepdims", true));
  DTR_ASSIGN(const bool nothing, node.flag("noop_with_empty_axes"));
  DTR_ASSIGN(const Ints stated, node.ints_or_input("axes", 1, Ints{}));
  DTR_ASSIGN(Ints dims, node.axes(stated, of.size()));
  if (dims.empty() && nothing) {
    // What is computed of one element.
    if (kKind == Reduce::kSum || kKind == Reduce::kMean || kKind == Reduce::kMax ||
        kKind == Reduce::kMin || kKind == Reduce::kProd || kKind == Reduce::kLogSumExp)
      return Values{x};
    if (kKind == Reduce::kL1 || kKind == Reduce::kL2) return only(node.emit("aten.abs", {x}));
    if (kKind == Reduce::kLogSum) return only(node.emit("aten.log", {x}));
    return only(node.mul(x, x));
  }
  if (dims.empty())
    for (size_t i = 0; i < of.size(); ++i) dims.push_back(static_cast<int64_t>(i));
  if (of.empty()) {
    DTR_ASSIGN(ValueId one, node.view(x, {1}));
    DTR_ASSIGN(one, reduced(node, kKind, one, {0}, false));
    return Values{one};
  }
  if (element_count(of) == 0) {
    Shape to;
    for (size_t i = 0; i < of.size(); ++i) {
      const bool drops = std::ranges::binary_search(dims, static_cast<int64_t>(i));
      if (!drops || keepdim) to.push_back(drops ? 1 : of[i]);
    }
    const bool truth = node.dtype(x) == DType::kBool;
    return only(node.constant(node.dtype(x), to,
                              truth ? double{kKind == Reduce::kMin} : neutral(kKind), "empty"));
  }
  return only(reduced(node, kKind, x, dims, keepdim));
}

// The greatest or least element; the last of equals is the first in reverse order.
template <bool kGreatest>
Result<Values> index_of_extreme(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(const int64_t stated, node.integer("axis", int64_t{0}));
  DTR_ASSIGN(const bool keepdim, node.flag("keepdims", true));
  DTR_ASSIGN(const bool last, node.flag("select_last_index"));
  DTR_ASSIGN(const int64_t dim, node.axis(stated, node.type(x).rank()));
  if (last) {
    DTR_ASSIGN(x, node.flip(x, {dim}));
  }
  const int64_t extent = node.shape(x)[static_cast<size_t>(dim)];
  DTR_ASSIGN(ValueId y, node.emit(kGreatest ? "aten.argmax" : "aten.argmin", {x},
                                  {{"dim", dim}, {"keepdim", keepdim}}));
  if (last) {
    DTR_ASSIGN(y, node.times(y, -1));
    DTR_ASSIGN(y, node.plus(y, static_cast<double>(extent - 1)));
  }
  return Values{y};
}

Result<Values> top_k(NodeImport& node) {
  DTR_ASSIGN(const ValueId given, node.value(0));
  DTR_ASSIGN(const int64_t count, node.integer(1));
  DTR_ASSIGN(const int64_t stated, node.integer("axis", int64_t{-1}));
  DTR_ASSIGN(const bool greatest, node.flag("largest", true));
  (void)node.flag("sorted", true);
  DTR_ASSIGN(const int64_t dim, node.axis(stated, node.type(given).rank()));
  const int64_t extent = node.shape(given)[static_cast<size_t>(dim)];
  if (count < 0 || count > extent)
    return node.invalid(fmt::format("the first {} of {} elements", count, extent));
  const DType dtype = node.dtype(given);
  const bool whole = dtype == DType::kInt32 || dtype == DType::kInt64;
  DTR_ASSIGN(const ValueId x, node.cast(given, whole ? dtype : DType::kFloat32));
  DTR_ASSIGN(compositions::Extremes top, compositions::top(node, x, count, dim, greatest));
  DTR_ASSIGN(top.values, node.cast(top.values, dtype));
  return Values{top.values, top.indices};
}

Result<Values> cumulative_sum(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(const int64_t stated, node.integer(1));
  DTR_ASSIGN(const bool exclusive, node.flag("exclusive"));
  DTR_ASSIGN(const bool reverse, node.flag("reverse"));
  const DType dtype = node.dtype(x);
  DTR_ASSIGN(const int64_t dim, node.axis(stated, node.type(x).rank()));
  const int64_t extent = node.shape(x)[static_cast<size_t>(dim)];
  if (reverse) {
    DTR_ASSIGN(x, node.flip(x, {dim}));
  }
  if (exclusive && extent > 0) {
    DTR_ASSIGN(x, node.slice(x, dim, 0, extent - 1));
    Ints pairs(2 * node.type(x).rank());
    pairs[2 * (node.type(x).rank() - 1 - static_cast<size_t>(dim))] = 1;
    DTR_ASSIGN(x, node.pad(x, pairs, 0));
  }
  DTR_ASSIGN(x, node.emit("aten.cumsum", {x}, {{"dim", dim}}));
  if (reverse) {
    DTR_ASSIGN(x, node.flip(x, {dim}));
  }
  return only(node.cast(x, dtype));
}

// Before version 13 over all dimensions from the axis on.
template <bool kLogarithm>
Result<Values> softmax(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  const bool flattens = node.version() < 13;
  DTR_ASSIGN(const int64_t stated, node.integer("axis", int64_t{flattens ? 1 : -1}));
  const Shape of = node.shape(x);
  const std::string_view op = kLogarithm ? "aten.log_softmax" : "aten.softmax";
  DTR_ASSIGN(const int64_t dim, node.axis(stated, of.size()));
  if (!flattens || dim + 1 == static_cast<int64_t>(of.size()))
    return only(node.emit(op, {x}, {{"dim", dim}}));
  const int64_t inner = element_count(Shape(of.begin() + dim, of.end()));
  const int64_t outer = element_count(Shape(of.begin(), of.begin() + dim));
  DTR_ASSIGN(x, node.view(x, {outer, inner}));
  DTR_ASSIGN(x, node.emit(op, {x}, {{"dim", int64_t{1}}}));
  return only(node.view(x, of));
}

// 1 at the first greatest element, 0 elsewhere.
Result<Values> hardmax(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const int64_t stated, node.integer("axis", int64_t{-1}));
  const Shape of = node.shape(x);
  DTR_ASSIGN(const int64_t dim, node.axis(stated, of.size()));
  DTR_ASSIGN(const ValueId best, node.emit("aten.argmax", {x}, {{"dim", dim}, {"keepdim", true}}));
  Shape along(of.size(), 1);
  along[static_cast<size_t>(dim)] = of[static_cast<size_t>(dim)];
  std::vector<double> places;
  if (of[static_cast<size_t>(dim)] > 1 << 22) return node.unsupported("more than 2^22 classes");
  for (int64_t i = 0; i < of[static_cast<size_t>(dim)]; ++i)
    places.push_back(static_cast<double>(i));
  DTR_ASSIGN(const ValueId place, node.constant(DType::kInt64, places, along));
  DTR_ASSIGN(const ValueId mask, node.emit("aten.eq.Tensor", {place, best}));
  return only(node.cast(mask, node.dtype(x)));
}

// The loss of scores that are logarithms of probabilities, [N, C, …], for classes [N, …], which may
// have a weight each; one class is ignored.
Result<ValueId> loss_of(NodeImport& node, ValueId scores, ValueId classes, ValueId weights) {
  DTR_ASSIGN(const std::string how, node.string("reduction", "mean"));
  const bool ignores = node.has_attribute("ignore_index");
  DTR_ASSIGN(const int64_t ignored, node.integer("ignore_index", int64_t{0}));
  const Shape of = node.shape(classes);
  if (node.type(scores).rank() != of.size() + 1)
    return node.invalid(fmt::format("classes of shape {}", to_string(of)));
  DTR_ASSIGN(classes, node.cast(classes, DType::kInt64));
  ValueId counted;
  if (ignores) {
    DTR_ASSIGN(const ValueId other, node.scalar(static_cast<double>(ignored), classes));
    DTR_ASSIGN(const ValueId taken, node.emit("aten.ne.Tensor", {classes, other}));
    DTR_ASSIGN(const ValueId zero, node.scalar(0, classes));
    DTR_ASSIGN(classes, node.emit("aten.where.self", {taken, classes, zero}));
    DTR_ASSIGN(counted, node.cast(taken, DType::kFloat32));
  }
  if (weights.valid()) {
    DTR_ASSIGN(ValueId each,
               node.emit("aten.index_select", {weights, classes}, {{"dim", int64_t{0}}}));
    if (counted.valid()) {
      DTR_ASSIGN(each, node.mul(each, counted));
    }
    counted = each;
  }
  Shape wide = of;
  wide.insert(wide.begin() + 1, 1);
  DTR_ASSIGN(const ValueId index, node.view(classes, wide));
  DTR_ASSIGN(ValueId loss, compositions::gather(node, scores, 1, index));
  DTR_ASSIGN(loss, node.view(loss, of));
  DTR_ASSIGN(loss, node.times(loss, -1));
  if (counted.valid()) {
    DTR_ASSIGN(loss, node.mul(loss, counted));
  }
  if (how == "none") return loss;
  Ints all;
  for (size_t i = 0; i < of.size(); ++i) all.push_back(static_cast<int64_t>(i));
  DTR_ASSIGN(const ValueId sum, node.sum(loss, all, false));
  if (how == "sum") return sum;
  if (!counted.valid())
    return node.times(sum, 1 / static_cast<double>(std::max<int64_t>(element_count(of), 1)));
  DTR_ASSIGN(const ValueId count, node.sum(counted, all, false));
  return node.div(sum, count);
}

Result<Values> likelihood_loss(NodeImport& node) {
  DTR_ASSIGN(const ValueId scores, node.value(0));
  DTR_ASSIGN(const ValueId classes, node.value(1));
  DTR_ASSIGN(const ValueId weights, node.optional_value(2));
  return only(loss_of(node, scores, classes, weights));
}

Result<Values> cross_entropy_loss(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId classes, node.value(1));
  DTR_ASSIGN(const ValueId weights, node.optional_value(2));
  DTR_ASSIGN(const ValueId scores, node.emit("aten.log_softmax", {x}, {{"dim", int64_t{1}}}));
  DTR_ASSIGN(const ValueId loss, loss_of(node, scores, classes, weights));
  return Values{loss, scores};
}

}  // namespace

std::vector<Operator> reduction_operators() {
  return {
      row("ArgMax", 1, 1, index_of_extreme<true>),
      row("ArgMin", 1, 1, index_of_extreme<false>),
      row("CumSum", 2, 2, cumulative_sum),
      row("Hardmax", 1, 1, hardmax),
      row("LogSoftmax", 1, 1, softmax<true>),
      row("NegativeLogLikelihoodLoss", 2, 3, likelihood_loss),
      row("ReduceL1", 1, 2, reduction<Reduce::kL1>),
      row("ReduceL2", 1, 2, reduction<Reduce::kL2>),
      row("ReduceLogSum", 1, 2, reduction<Reduce::kLogSum>),
      row("ReduceLogSumExp", 1, 2, reduction<Reduce::kLogSumExp>),
      row("ReduceMax", 1, 2, reduction<Reduce::kMax>),
      row("ReduceMean", 1, 2, reduction<Reduce::kMean>),
      row("ReduceMin", 1, 2, reduction<Reduce::kMin>),
      row("ReduceProd", 1, 2, reduction<Reduce::kProd>),
      row("ReduceSum", 1, 2, reduction<Reduce::kSum>),
      row("ReduceSumSquare", 1, 2, reduction<Reduce::kSumSquare>),
      row("Softmax", 1, 1, softmax<false>),
      row("SoftmaxCrossEntropyLoss", 2, 3, cross_entropy_loss),
      row("TopK", 2, 2, top_k),
  };
}

}  // namespace dtr::onnx
