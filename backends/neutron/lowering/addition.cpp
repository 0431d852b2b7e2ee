// aten.add.Tensor: TFLite's ADD. An operand that is broadcast is repeated in memory first (a Move with steps of 0; a constant on the
// host).
#include "backends/neutron/lowering/rules.h"
#include "numerics/add.h"
#include "ops/integer.h"

namespace dtr::neutron {
namespace {

uint64_t repeated_bytes(const Question& q) {
  uint64_t repeated = 0;
  for (const Type* operand : q.view.operands)
    if (operand->shape != q.view.result().shape) repeated += static_cast<uint64_t>(q.view.result().bytes());
  return repeated;
}
constexpr const Check* kChecks[] = {&kInt8Operands, &kNotEmpty, &kRank, &kFitsSram<repeated_bytes>};

std::optional<Kernel> estimate(const Machine&, const OpView& view) {
  return npu::Add{.elements = static_cast<uint32_t>(view.result().elements())};
}

// The order in which both operands shall lie: that of the first operand of full shape that is computed.
Order common_order(const Builder& builder, const Op& op, const Type& result) {
  for (const ValueId operand : op.operands)
    if (!builder.graph().is_constant(operand) && builder.graph().type(operand).shape == result.shape) return builder.order(operand);
  return contiguous_order(result.elements());
}

void lower(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const Op& op = graph.op(group.head);
  const BoundOpView view(graph, group.head);
  const Type& result = view->result();
  const Order order = common_order(builder, op, result);
  npu::Add add{.elements = static_cast<uint32_t>(result.elements()), .arguments = add_arguments(*view, 0, group.clamp)};
  add.input_0 = builder.read_broadcast(op.operands[0], result.shape, order);
  add.input_1 = op.operands[1] == op.operands[0] ? add.input_0 : builder.read_broadcast(op.operands[1], result.shape, order);
  add.output = builder.define(graph.op(group.root()).results[0], order);
  builder.emit(add, origin_of(graph, group));
}

constexpr Rule kRules[] = {{&ops::kAddTensor, kChecks, any_layout, estimate, lower, Absorbs::kClamp}};

npu::Rescale rescale(numerics::Requantization by) { return {by.multiplier, by.shift}; }

}  // namespace

std::span<const Rule> addition_rules() { return kRules; }

npu::AddArguments add_arguments(const OpView& add, size_t first_operand, std::optional<numerics::Range> clamp) {
  const Quantization& a = *add.operand(first_operand).quantization;
  const Quantization& b = *add.operand(1 - first_operand).quantization;
  const Quantization& out = *add.result().quantization;
  const numerics::Range range = clamp.value_or(ops::activation_range(ops::activation_bounds(add), out));
  const auto parameters =
      numerics::add_parameters(a.scale(), a.zero_point(), b.scale(), b.zero_point(), out.scale(), out.zero_point(), range);
  return {.zero_point_0 = a.zero_point(),
          .zero_point_1 = b.zero_point(),
          .zero_point_out = out.zero_point(),
          .input_0 = rescale(parameters.a),
          .input_1 = rescale(parameters.b),
          .output = rescale(parameters.output.by),
          .clamp_low = range.low,
          .clamp_high = range.high};
}

}  // namespace dtr::neutron
