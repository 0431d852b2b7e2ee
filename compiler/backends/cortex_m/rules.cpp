#include "compiler/backends/cortex_m/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/define.h"

namespace dtr::cortex_m {

KernelArgument CallContext::operand(size_t index) const {
  return index < op.operands.size() ? kernel_argument(graph, op.operands[index]) : KernelArgument{};
}

KernelArgument CallContext::values(std::span<const int32_t> values) const {
  return ConstantArgument{{.dtype = DType::kInt32, .shape = {static_cast<int64_t>(values.size())}},
                          module.constants.add_values<int32_t>(DType::kInt32, values)};
}

KernelArgument CallContext::values(std::span<const int8_t> values, Shape shape) const {
  return ConstantArgument{{.dtype = DType::kInt8, .shape = std::move(shape)},
                          module.constants.add_values<int8_t>(DType::kInt8, values)};
}

LayoutChoice channels_last(const Graph&, const Op&) {
  return {.contiguous = false, .channels_last = true};
}
LayoutChoice contiguous(const Graph&, const Op&) {
  return {.contiguous = true, .channels_last = false};
}

LayoutChoice any_layout(const Graph& graph, const Op& op) {
  const size_t rank = graph.type(op.results[0]).rank();
  const bool alike = std::ranges::all_of(op.operands, [&](ValueId operand) {
    return !operand.valid() || graph.is_constant(operand) || graph.type(operand).rank() == rank;
  });
  return alike ? LayoutChoice{} : contiguous(graph, op);
}

namespace {

std::optional<std::string> other_than_int8(const OpQuery& query) {
  const Op& op = query.graph.op(query.op);
  for (const std::vector<ValueId>* values : {&op.operands, &op.results})
    for (const ValueId id : *values) {
      if (!id.valid() || query.graph.is_constant(id)) continue;
      const Value& value = query.graph.value(id);
      if (value.type.dtype != DType::kInt8 || !ops::per_tensor(value.type))
        return fmt::format("`{}` is {}", value.name, dtr::name(value.type.dtype));
    }
  return std::nullopt;
}

std::optional<std::string> computed_weight(const OpQuery& query) {
  for (size_t i = 1; i < query.view.operands.size(); ++i)
    if (std::optional<std::string> computed = computed_operand(query, i)) return computed;
  return std::nullopt;
}

}  // namespace

const Condition kInt8{
    "cortex-m-int8",
    "the Cortex-M's kernels compute in int8 with one scale and zero point a tensor",
    "quantize the operator and those around it", other_than_int8};
const Condition kConstantWeights{"cortex-m-dynamic-weight",
                                 "the Cortex-M's kernels need constant weights and biases",
                                 "make them parameters or buffers of the module", computed_weight};

LayoutChoice any_to_any(const Graph&, const Op&) { return {.mixed = true}; }

void push(KernelCall& call, numerics::Requantization by) {
  push(call, by.multiplier);
  push(call, by.shift);
}

void push(KernelCall& call, numerics::Range range) {
  push(call, range.low);
  push(call, range.high);
}

}  // namespace dtr::cortex_m
