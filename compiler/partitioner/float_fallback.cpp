#include "compiler/partitioner/float_fallback.h"

#include <algorithm>

#include "compiler/ir/rewriter.h"
#include "compiler/ops/ops.h"

namespace dtr {
namespace {

// The real values of a quantized constant, as float32 in logical order.
ConstantId dequantized(Module& module, const Value& value) {
  const Type& type = value.type;
  const Quantization& quantization = *type.quantization;
  const auto count = static_cast<size_t>(type.elements());
  size_t inner = 1;  // elements between two channels
  size_t channels = 1;
  if (quantization.per_channel()) {
    const auto axis = static_cast<size_t>(quantization.axis);
    channels = static_cast<size_t>(type.shape[axis]);
    for (size_t i = axis + 1; i < type.shape.size(); ++i)
      inner *= static_cast<size_t>(type.shape[i]);
  }
  std::vector<float> real(count);
  const auto convert = [&](const auto& integers) {
    for (size_t i = 0; i < count; ++i) {
      const size_t channel = quantization.per_channel() ? i / inner % channels : 0;
      real[i] = static_cast<float>(static_cast<int64_t>(integers[i]) -
                                   quantization.zero_points[channel]) *
                quantization.scales[channel];
    }
  };
  if (type.dtype == DType::kInt32) {
    convert(module.constants.values<int32_t>(value.constant));
  } else {
    convert(module.constants.values<int8_t>(value.constant));
  }
  return module.constants.add_values<float>(DType::kFloat32, real);
}

}  // namespace

bool can_fall_back_to_float(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  if (op.def == &ops::kQuantize || op.def == &ops::kDequantize) return false;
  if (op.def->evaluate_float == nullptr && op.def != &ops::kRequantize) return false;
  return std::any_of(op.results.begin(), op.results.end(),
                     [&](ValueId result) { return graph.type(result).quantized(); });
}

Result<void> fall_back_to_float(Module& module, Graph& graph, OpId id) {
  Rewriter rewriter(graph);
  const Op op = graph.op(id);
  OpSpec spec{.def = op.def,
              .attributes = op.attributes,
              .origin = op.origin,
              .name = graph.value(op.results[0]).name + ".float"};
  for (const ValueId operand : op.operands) {
    ValueId real = operand;
    if (operand.valid() && graph.type(operand).quantized()) {
      const Value& value = graph.value(operand);
      if (graph.is_constant(operand)) {
        real = rewriter.add_constant({.dtype = DType::kFloat32, .shape = value.type.shape},
                                     dequantized(module, value), value.name + ".float");
      } else {
        DTR_ASSIGN(real,
                   rewriter.insert_value(
                       id, {.def = &ops::kDequantize, .operands = {operand}, .origin = op.origin}));
      }
    }
    spec.operands.push_back(real);
  }
  // A requantize needs no float op: the dequantize and quantize around it compute the same.
  std::vector<ValueId> real_results = spec.operands;
  if (op.def != &ops::kRequantize) {
    DTR_ASSIGN(const OpId in_float, rewriter.insert(id, std::move(spec)));
    real_results = graph.op(in_float).results;
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    const OpSpec quantize{.def = &ops::kQuantize,
                          .operands = {real_results[i]},
                          .origin = op.origin,
                          .name = graph.value(op.results[i]).name,
                          .quantization = graph.type(op.results[i]).quantization};
    DTR_ASSIGN(const ValueId integer, rewriter.insert_value(id, quantize));
    rewriter.replace_uses(op.results[i], integer);
  }
  rewriter.erase(id);
  return {};
}

}  // namespace dtr
