#include "compiler/ops/constant_folding.h"

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

// Quantize and dequantize of constants are what the quantized form of a model consists of. A
// plug-in's kernel may fail.
bool can_be_evaluated(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  if (op.def == &kQuantize || op.def == &kDequantize || op.def == &kCustom || op.results.empty())
    return false;
  return (quantized(graph, op) ? op.def->evaluate_integer : op.def->evaluate_double) != nullptr;
}

// Static ops that no constant has replaced are few in a row: only what is not worth storing is
// left. The limit keeps the search short where a value depends on an input far away.
constexpr int kLongestChain = 4;

bool reads_static_within(const Graph& graph, OpId id, int steps, int64_t stored);
bool static_within(const Graph& graph, ValueId value, int steps, int64_t stored) {
  if (graph.is_constant(value)) return true;
  const OpId producer = graph.producer(value);
  return steps > 0 && producer.valid() && graph.type(value).bytes() > stored &&
         reads_static_within(graph, producer, steps - 1, stored);
}
bool reads_static_within(const Graph& graph, OpId id, int steps, int64_t stored) {
  return std::ranges::all_of(graph.op(id).operands,
                             [&](ValueId operand) {
                               return !operand.valid() ||
                                      static_within(graph, operand, steps, stored);
                             }) &&
         can_be_evaluated(graph, id);
}

// The elements of a static value.
Tensor known(const Module& module, const Graph& graph, ValueId value) {
  const Type& type = graph.type(value);
  if (graph.is_constant(value))
    return Tensor::copy_of(type.dtype, type.shape,
                           module.constants.bytes(graph.value(value).constant));
  std::vector<Tensor> results = evaluate_on_constants(module, graph, graph.producer(value));
  return std::move(results.at(graph.value(value).result));
}

int64_t bytes_of(const Graph& graph, const std::vector<ValueId>& values) {
  int64_t bytes = 0;
  for (const ValueId value : values)
    if (value.valid()) bytes += graph.type(value).bytes();
  return bytes;
}

}  // namespace

bool reads_only_constants(const Graph& graph, OpId id) {
  return can_be_evaluated(graph, id) &&
         std::ranges::all_of(graph.op(id).operands, [&](ValueId operand) {
           return !operand.valid() || graph.is_constant(operand);
         });
}

bool is_static(const Graph& graph, ValueId value) {
  return static_within(graph, value, kLongestChain, 0);
}

bool reads_only_static(const Graph& graph, OpId id, int64_t stored) {
  return reads_static_within(graph, id, kLongestChain, stored);
}

bool worth_storing(const Graph& graph, OpId id, int64_t growth) {
  constexpr int64_t kMostOfArithmetic = int64_t{1} << 20;
  constexpr int64_t kMostAtAll = int64_t{1} << 28;
  const int64_t results = bytes_of(graph, graph.op(id).results);
  const int64_t limit =
      graph.op(id).def->has_trait(kMovesData) ? growth : std::max(growth, kMostOfArithmetic);
  return results <= kMostAtAll && results <= bytes_of(graph, graph.op(id).operands) + limit;
}

std::vector<Tensor> evaluate_on_constants(const Module& module, const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  std::vector<Tensor> operands, results;
  std::vector<TensorView> operand_views, result_views;
  for (const ValueId operand : op.operands) {
    operands.emplace_back();
    if (operand.valid()) operands.back() = in_double(known(module, graph, operand));
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
