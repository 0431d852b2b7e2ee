#include "compiler/compositions/scans.h"

#include <numeric>

#include "compiler/compositions/norms.h"

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

Result<ValueId> running_log_sum_exp(GraphBuilder& builder, ValueId x, int64_t dim) {
  DTR_ASSIGN(const ValueId greatest,
             builder.emit("aten.amax", {x}, {{"dim", Ints{dim}}, {"keepdim", true}}));
  DTR_ASSIGN(ValueId sums, builder.emit("aten.sub.Tensor", {x, greatest}));
  DTR_ASSIGN(sums, builder.emit("aten.exp", {sums}));
  DTR_ASSIGN(sums, cumulative_sum(builder, sums, dim));
  DTR_ASSIGN(sums, builder.emit("aten.log", {sums}));
  return builder.emit("aten.add.Tensor", {sums, greatest});
}

}  // namespace dtr::compositions
