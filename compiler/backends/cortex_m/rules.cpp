#include "compiler/backends/cortex_m/rules.h"

#include <algorithm>

namespace dtr::cortex_m {

KernelArgument CallContext::operand(size_t index) const {
  return index < op.operands.size() ? kernel_argument(graph, op.operands[index]) : KernelArgument{};
}

KernelArgument CallContext::values(std::span<const int32_t> values) const {
  return ConstantArgument{{.dtype = DType::kInt32, .shape = {static_cast<int64_t>(values.size())}},
                          program.constants.add_values<int32_t>(DType::kInt32, values)};
}

KernelArgument CallContext::values(std::span<const int8_t> values, Shape shape) const {
  return ConstantArgument{{.dtype = DType::kInt8, .shape = std::move(shape)}, program.constants.add_values<int8_t>(DType::kInt8, values)};
}

LayoutChoice channels_last(const Graph&, const Op&) { return {.contiguous = false, .channels_last = true}; }
LayoutChoice contiguous(const Graph&, const Op&) { return {.contiguous = true, .channels_last = false}; }

LayoutChoice any_layout(const Graph& graph, const Op& op) {
  const size_t rank = graph.type(op.results[0]).rank();
  const bool alike = std::ranges::all_of(
      op.operands, [&](ValueId operand) { return !operand.valid() || graph.is_constant(operand) || graph.type(operand).rank() == rank; });
  return alike ? LayoutChoice{} : contiguous(graph, op);
}

std::optional<Refusal> constant_weights(const Graph& graph, const Op& op, const OpView&) {
  for (size_t i = 1; i < op.operands.size(); ++i)
    if (op.operands[i].valid() && !graph.is_constant(op.operands[i]))
      return Refusal{"cortex-m-dynamic-weight", "the Cortex-M kernels need constant weights; these are computed while the model runs",
                     "make them parameters or buffers of the module"};
  return std::nullopt;
}

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
