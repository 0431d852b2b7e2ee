#include "compiler/ops/vectors.h"

#include <algorithm>

#include "compiler/ops/ops.h"

namespace dtr::ops {

Tensor evaluate_on_vectors(const Module& module, const Graph& graph, OpId id,
                           std::span<const TensorView* const> vectors) {
  const Op& op = graph.op(id);
  Type result_type = graph.type(op.results[0]);
  bool on_codes = result_type.quantized();
  std::vector<Type> types;
  std::vector<TensorView> operands;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    Type& type = types.emplace_back(graph.type(op.operands[i]));
    on_codes = on_codes || type.quantized();
    if (vectors[i] != nullptr) {
      result_type.shape = type.shape = vectors[i]->shape;
      operands.push_back(*vectors[i]);
      continue;
    }
    // Evaluation reads operands only, so that the pool's memory may be viewed as a tensor.
    const auto bytes = module.constants.bytes(graph.value(op.operands[i]).constant);
    type.shape = {1};
    operands.push_back({type.dtype, type.shape, const_cast<std::byte*>(bytes.data())});
  }
  std::vector<const Type*> operand_types;
  for (const Type& type : types) operand_types.push_back(&type);
  const Type* result_types[] = {&result_type};
  Tensor result(result_type.dtype, result_type.shape);
  (on_codes ? op.def->evaluate_integer : op.def->evaluate_float)(
      {op.def, operand_types, &op.attributes, result_types}, operands, {&result.view(), 1});
  return result;
}

}  // namespace dtr::ops
