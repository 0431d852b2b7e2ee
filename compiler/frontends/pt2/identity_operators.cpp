// Operators without effect in inference (dropout, detach), and operators that create constants.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

Result<Values> first_tensor(NodeImport& node, std::string_view name) {
  DTR_ASSIGN(const ValueId x, node.tensor(name));
  return Values{x};
}

Result<Values> identity(NodeImport& node) { return first_tensor(node, "self"); }

Result<Values> dropout(NodeImport& node) {
  DTR_ASSIGN(const bool training, node.boolean("train", false));
  DTR_ASSIGN(const double probability, node.number("p", 0));
  if (training && probability != 0)
    return node.unsupported("dropout in training mode", "call model.eval() before the export");
  return first_tensor(node, node.has("input") ? "input" : "self");  // in place it is self
}

// to(…), _to_copy, type_as, float(), bool(): nothing where the dtype stays.
Result<Values> convert(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  std::optional<DType> wanted;
  if (node.has("other")) {
    DTR_ASSIGN(const ValueId other, node.tensor("other"));
    wanted = node.type(other).dtype;
  } else {
    DTR_ASSIGN(wanted, node.dtype("dtype"));
  }
  if (!wanted || node.type(x).quantized()) return Values{x};
  DTR_ASSIGN(const ValueId result, node.cast(x, *wanted));
  return Values{result};
}

Result<Values> filled(NodeImport& node, const Shape& shape, DType fallback, double value) {
  DTR_ASSIGN(const auto dtype, node.dtype("dtype"));
  DTR_ASSIGN(const ValueId result, node.constant(dtype.value_or(fallback), shape, value, "value"));
  return Values{result};
}

template <int value>
Result<Values> filled_size(NodeImport& node) {
  DTR_ASSIGN(const Ints size, node.ints("size"));
  return filled(node, size, DType::kFloat32, value);
}

template <int value>
Result<Values> filled_like(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  return filled(node, Shape(node.type(x).shape), node.type(x).dtype, value);
}

Result<Values> full(NodeImport& node) {
  DTR_ASSIGN(const Ints size, node.ints("size"));
  DTR_ASSIGN(const double value, node.number("fill_value"));
  const DType fallback = node.boolean("fill_value")   ? DType::kBool
                         : node.integer("fill_value") ? DType::kInt64
                                                      : DType::kFloat32;
  return filled(node, size, fallback, value);
}

// new_zeros, new_ones: of a size, in the dtype of another tensor.
template <int value>
Result<Values> filled_as(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints size, node.ints("size"));
  return filled(node, size, node.type(x).dtype, value);
}

Result<Values> new_full(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const Ints size, node.ints("size"));
  DTR_ASSIGN(const double value, node.number("fill_value"));
  return filled(node, size, node.type(x).dtype, value);
}

Result<Values> full_like(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.tensor("self"));
  DTR_ASSIGN(const double value, node.number("fill_value"));
  return filled(node, Shape(node.type(x).shape), node.type(x).dtype, value);
}

Result<Values> scalar_tensor(NodeImport& node) {
  DTR_ASSIGN(const double value, node.number("s"));
  return filled(node, {}, DType::kFloat32, value);
}

// start, start + step, … before end.
Result<Values> arange(NodeImport& node) {
  constexpr double kMost = 1 << 24;
  DTR_ASSIGN(const double start, node.number("start", 0));
  DTR_ASSIGN(const double end, node.number("end"));
  DTR_ASSIGN(const double step, node.number("step", 1));
  DTR_ASSIGN(const auto wanted, node.dtype("dtype"));
  const double count = std::ceil((end - start) / step);
  if (!(count >= 0 && count <= kMost))
    return node.unsupported(fmt::format("numbers from {} to {} in steps of {}", start, end, step));
  bool whole = true;
  for (const std::string_view bound : {"start", "end", "step"})
    whole = whole && (!node.has(bound) || node.integer(bound));
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i) * step;
  DTR_ASSIGN(const ValueId result,
             node.constant(wanted.value_or(whole ? DType::kInt64 : DType::kFloat32), values));
  return Values{result};
}

// curve of `steps` numbers at equal distances, from start to end.
template <class Curve>
Result<Values> spaced(NodeImport& node, Curve curve) {
  constexpr int64_t kMost = 1 << 24;
  DTR_ASSIGN(const double start, node.number("start"));
  DTR_ASSIGN(const double end, node.number("end"));
  DTR_ASSIGN(const int64_t steps, node.integer("steps"));
  DTR_ASSIGN(const auto dtype, node.dtype("dtype"));
  if (steps < 0 || steps > kMost)
    return node.unsupported(fmt::format("{} numbers, at most {} are taken", steps, kMost));
  std::vector<double> values(static_cast<size_t>(steps), curve(start));
  for (int64_t i = 1; i < steps; ++i)
    values[static_cast<size_t>(i)] =
        curve(start + (end - start) * static_cast<double>(i) / static_cast<double>(steps - 1));
  DTR_ASSIGN(const ValueId result, node.constant(dtype.value_or(DType::kFloat32), values));
  return Values{result};
}
Result<Values> linspace(NodeImport& node) {
  return spaced(node, [](double number) { return number; });
}
Result<Values> logspace(NodeImport& node) {
  DTR_ASSIGN(const double base, node.number("base", 10));
  return spaced(node, [base](double exponent) { return std::pow(base, exponent); });
}

// Ones on the diagonal of n × m zeros.
Result<Values> eye(NodeImport& node) {
  DTR_ASSIGN(const int64_t rows, node.integer("n"));
  DTR_ASSIGN(const int64_t columns, node.integer("m", rows));
  DTR_ASSIGN(const auto dtype, node.dtype("dtype"));
  constexpr int64_t kMost = 4096;
  if (std::min(rows, columns) < 0 || std::max(rows, columns) > kMost)
    return node.unsupported(
        fmt::format("an identity matrix of {} × {}, at most {} are taken", rows, columns, kMost));
  std::vector<double> values(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < std::min(rows, columns); ++i)
    values[static_cast<size_t>(i * columns + i)] = 1;
  DTR_ASSIGN(const ValueId result,
             node.constant(dtype.value_or(DType::kFloat32), values, Shape{rows, columns}));
  return Values{result};
}

}  // namespace

std::vector<Operator> identity_operators() {
  const auto gone = [](std::string_view target, Result<Values> (*build)(NodeImport&),
                       bool aliases) -> Operator {
    return {.target = target, .op = "", .build = build, .aliases = aliases};
  };
  return {
      gone("aten.alias.default", identity, true),
      gone("aten.alias_copy.default", identity, false),
      gone("aten.alpha_dropout.default", dropout, true),
      gone("aten.clone.default", identity, false),
      gone("aten.conj.default", identity, true),
      gone("aten.conj_physical.default", identity, false),
      gone("aten.contiguous.default", identity, true),
      gone("aten.detach.default", identity, true),
      gone("aten.detach_copy.default", identity, false),
      gone("aten.dropout.default", dropout, true),
      gone("aten.feature_dropout.default", dropout, true),
      gone("aten.lift_fresh.default", identity, true),
      gone("aten.lift_fresh_copy.default", identity, false),
      gone("aten.native_dropout.default", dropout, false),
      gone("aten.positive.default", identity, true),
      gone("aten.resolve_conj.default", identity, true),
      gone("aten.resolve_neg.default", identity, true),
      gone("aten._to_copy.default", convert, false),
      gone("aten.to.device", convert, true),
      gone("aten.to.dtype", convert, true),
      gone("aten.to.dtype_layout", convert, true),
      gone("aten.to.other", convert, true),
      gone("aten.type_as.default", convert, true),
      gone("aten.arange.default", arange, false),
      gone("aten.arange.start", arange, false),
      gone("aten.arange.start_step", arange, false),
      gone("aten.eye.default", eye, false),
      gone("aten.eye.m", eye, false),
      gone("aten.empty.memory_format", filled_size<0>, false),
      gone("aten.empty_like.default", filled_like<0>, false),
      gone("aten.full.default", full, false),
      gone("aten.full_like.default", full_like, false),
      gone("aten.linspace.default", linspace, false),
      gone("aten.logspace.default", logspace, false),
      gone("aten.new_empty.default", filled_as<0>, false),
      gone("aten.new_full.default", new_full, false),
      gone("aten.new_ones.default", filled_as<1>, false),
      gone("aten.new_zeros.default", filled_as<0>, false),
      gone("aten.ones.default", filled_size<1>, false),
      gone("aten.ones_like.default", filled_like<1>, false),
      gone("aten.real.default", identity, true),
      gone("aten.scalar_tensor.default", scalar_tensor, false),
      gone("aten.zeros.default", filled_size<0>, false),
      gone("aten.zeros_like.default", filled_like<0>, false),
  };
}

}  // namespace dtr::pt2
