#include "compiler/compositions/scans.h"

#include <limits>
#include <numeric>

namespace dtr::compositions {

Result<ValueId> scan(GraphBuilder& builder, ValueId x, int64_t dim, const Combine& combine) {
  const int64_t count = builder.type(x).shape[static_cast<size_t>(dim)];
  for (int64_t step = 1; step < count; step *= 2) {
    DTR_ASSIGN(const ValueId done, builder.slice(x, dim, 0, step));
    DTR_ASSIGN(const ValueId before, builder.slice(x, dim, 0, count - step));
    DTR_ASSIGN(const ValueId behind, builder.slice(x, dim, step, count));
    DTR_ASSIGN(const ValueId combined, combine(before, behind));
    DTR_ASSIGN(x, builder.concatenate({done, combined}, dim));
  }
  return x;
}

Result<RunningExtreme> running_extreme(GraphBuilder& builder, ValueId x, int64_t dim,
                                       bool greatest) {
  const Combine extreme_of = [&](ValueId before, ValueId behind) -> Result<ValueId> {
    DTR_ASSIGN(const ValueId replaces,
               builder.emit(greatest ? "aten.ge.Tensor" : "aten.le.Tensor", {behind, before}));
    return builder.emit("aten.where.self", {replaces, behind, before});
  };
  RunningExtreme result;
  DTR_ASSIGN(result.values, scan(builder, x, dim, extreme_of));
  // The index of an element that is the extreme so far, else 0; then the greatest so far.
  const Shape shape = builder.type(x).shape;
  std::vector<double> counted(static_cast<size_t>(shape[static_cast<size_t>(dim)]));
  std::iota(counted.begin(), counted.end(), 0.0);
  Shape along(shape.size(), 1);
  along[static_cast<size_t>(dim)] = static_cast<int64_t>(counted.size());
  DTR_ASSIGN(ValueId index, builder.constant(DType::kInt64, counted, along));
  DTR_ASSIGN(index, builder.expand(index, shape));
  DTR_ASSIGN(const ValueId none, builder.constant(DType::kInt64, shape, 0, "none"));
  DTR_ASSIGN(const ValueId is_extreme, builder.emit("aten.eq.Tensor", {x, result.values}));
  DTR_ASSIGN(index, builder.emit("aten.where.self", {is_extreme, index, none}));
  DTR_ASSIGN(result.indices, scan(builder, index, dim, [&](ValueId before, ValueId behind) {
               return builder.emit("aten.gt.Tensor", {behind, before}).and_then([&](ValueId later) {
                 return builder.emit("aten.where.self", {later, behind, before});
               });
             }));
  return result;
}

// max + softplus(min − max). An infinity is not subtracted from itself.
Result<ValueId> log_sum_exp(GraphBuilder& builder, ValueId a, ValueId b, double beta) {
  constexpr double kGreatest = std::numeric_limits<float>::max();
  DTR_ASSIGN(const ValueId greatest, builder.emit("aten.maximum", {a, b}));
  DTR_ASSIGN(const ValueId least, builder.emit("aten.minimum", {a, b}));
  DTR_ASSIGN(const ValueId finite,
             builder.emit("aten.clamp", {greatest}, {{"min", -kGreatest}, {"max", kGreatest}}));
  DTR_ASSIGN(ValueId rest, builder.emit("aten.sub.Tensor", {least, finite}));
  DTR_ASSIGN(rest, builder.emit("aten.softplus", {rest}, {{"beta", beta}}));
  return builder.emit("aten.add.Tensor", {greatest, rest});
}

Result<ValueId> running_log_sum_exp(GraphBuilder& builder, ValueId x, int64_t dim) {
  return scan(builder, x, dim, [&](ValueId before, ValueId behind) {
    return log_sum_exp(builder, before, behind, 1);
  });
}

}  // namespace dtr::compositions
