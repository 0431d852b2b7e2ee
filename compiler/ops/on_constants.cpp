#include "compiler/ops/on_constants.h"

#include <algorithm>

#include "compiler/ops/ops.h"

namespace dtr::ops {
namespace {

Tensor in_double(const Tensor& tensor) {
  if (tensor.dtype() != DType::kFloat32)
    return Tensor::copy_of(tensor.dtype(), tensor.shape(), tensor.bytes());
  Tensor converted(DType::kFloat64, tensor.shape());
  std::ranges::copy(tensor.values<float>(), converted.values<double>().begin());
  return converted;
}

Tensor rounded(const Tensor& tensor, const Type& type) {
  Tensor result(type.dtype, type.shape);
  const auto values = tensor.values<double>();
  std::ranges::transform(values, result.values<float>().begin(),
                         [](double value) { return static_cast<float>(value); });
  return result;
}

bool quantized(const Graph& graph, const Op& op) {
  const auto is_quantized = [&](ValueId value) {
    return value.valid() && graph.type(value).quantized();
  };
  return std::ranges::any_of(op.operands, is_quantized) ||
         std::ranges::any_of(op.results, is_quantized);
}

int64_t bytes_of(const Graph& graph, const std::vector<ValueId>& values) {
  int64_t bytes = 0;
  for (const ValueId value : values)
    if (value.valid()) bytes += graph.type(value).bytes();
  return bytes;
}

}  // namespace

bool reads_only_constants(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  if (op.def == &kQuantize || op.def == &kDequantize || op.results.empty()) return false;
  if (std::ranges::any_of(op.operands, [&](ValueId operand) {
        return operand.valid() && !graph.is_constant(operand);
      }))
    return false;
  return (quantized(graph, op) ? op.def->evaluate_integer : op.def->evaluate_double) != nullptr;
}

int64_t operand_bytes(const Graph& graph, OpId op) {
  return bytes_of(graph, graph.op(op).operands);
}
int64_t result_bytes(const Graph& graph, OpId op) { return bytes_of(graph, graph.op(op).results); }

std::vector<Tensor> evaluate_on_constants(const Program& program, const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  std::vector<Tensor> operands, results;
  std::vector<TensorView> operand_views, result_views;
  for (const ValueId operand : op.operands) {
    operands.emplace_back();
    if (operand.valid()) {
      const Type& type = graph.type(operand);
      operands.back() = in_double(Tensor::copy_of(
          type.dtype, type.shape, program.constants.bytes(graph.value(operand).constant)));
    }
    operand_views.push_back(operands.back().view());
  }
  for (const ValueId result : op.results) {
    const Type& type = graph.type(result);
    results.emplace_back(type.dtype == DType::kFloat32 ? DType::kFloat64 : type.dtype, type.shape);
    result_views.push_back(results.back().view());
  }
  (quantized(graph, op) ? op.def->evaluate_integer : op.def->evaluate_double)(
      BoundOpView(graph, id), operand_views, result_views);
  for (size_t i = 0; i < results.size(); ++i)
    if (const Type& type = graph.type(op.results[i]); type.dtype == DType::kFloat32)
      results[i] = rounded(results[i], type);
  return results;
}

}  // namespace dtr::ops
