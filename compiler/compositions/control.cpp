#include "compiler/compositions/control.h"

namespace dtr::compositions {

Result<ValueId> select_branch(GraphBuilder& builder, ValueId condition, ValueId taken,
                              ValueId other) {
  if (taken == other) return taken;
  if (builder.type(taken).shape != builder.type(other).shape)
    return builder.unsupported(
        "its branches make tensors of different shapes, and its condition depends on an input",
        "Choose the branch before the export.");
  DTR_ASSIGN(const ValueId mask, builder.view(condition, {}));
  return builder.emit("aten.where.self", {mask, taken, other});
}

Result<ValueId> stack(GraphBuilder& builder, std::vector<ValueId> values, int64_t dim) {
  if (values.empty()) return builder.unsupported("a loop of no step collects results");
  for (ValueId& value : values) {
    Shape with = builder.type(value).shape;
    with.insert(with.begin() + dim, 1);
    DTR_ASSIGN(value, builder.view(value, with));
  }
  return builder.concatenate(std::move(values), dim);
}

Result<ValueId> element(GraphBuilder& builder, ValueId x, int64_t dim, int64_t index) {
  DTR_ASSIGN(const ValueId part, builder.slice(x, dim, index, index + 1));
  Shape without = builder.type(part).shape;
  without.erase(without.begin() + dim);
  return builder.view(part, without);
}

}  // namespace dtr::compositions
