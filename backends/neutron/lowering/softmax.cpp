// aten.softmax: the kernel works on rows that lie side by side, so the dimension goes innermost in memory (in channels-last memory
// dimension 1 is there already).
#include "numerics/softmax.h"

#include "backends/neutron/lowering/rules.h"
#include "ops/define.h"

namespace dtr::neutron {
namespace {

size_t softmax_dim(const OpView& view) { return *ops::normalize_dim(view.attribute<int64_t>("dim"), view.operand(0).rank()); }

constexpr const Check* kChecks[] = {&kInt8Operand, &kNotEmpty, &kRank, &kFitsSram<nothing_staged>};

LayoutChoice layouts(const OpView& view) {
  const size_t rank = view.operand(0).rank();
  if (rank < 3) return {};
  const size_t dim = softmax_dim(view);
  if (dim == 1) return {.contiguous = false, .channels_last = true};
  return {.contiguous = true, .channels_last = dim + 1 != rank};
}

npu::Softmax shape_of(const OpView& view) {
  if (view.operand(0).rank() == 0) return {.rows = 1, .columns = 1};
  const int64_t columns = view.operand(0).shape[softmax_dim(view)];
  return {.rows = static_cast<uint32_t>(view.operand(0).elements() / columns), .columns = static_cast<uint32_t>(columns)};
}

std::optional<Kernel> estimate(const Machine&, const OpView& view) { return shape_of(view); }

// The order as it lies if the dimension is innermost there, else contiguous with the dimension moved to the end.
Order wanted_order(const Builder& builder, ValueId x, const Shape& shape, size_t dim) {
  if (shape.empty()) return {};
  const int64_t place = strides(shape, Layout::kContiguous)[dim];
  if (!builder.graph().is_constant(x)) {
    const Order& lies = builder.order(x);
    const auto digits = split_at_dims(lies, shape);
    if (digits && (shape[dim] == 1 || (!digits->empty() && digits->back() == Digit{shape[dim], place, 1}))) return lies;
  }
  std::vector<int> dims;
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != dim) dims.push_back(static_cast<int>(i));
  dims.push_back(static_cast<int>(dim));
  return dense_order(shape, dims);
}

void lower(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const Op& op = graph.op(group.head);
  const BoundOpView view(graph, group.head);
  const Shape& shape = view->operand(0).shape;
  const Order order = wanted_order(builder, op.operands[0], shape, shape.empty() ? 0 : softmax_dim(*view));
  npu::Softmax softmax = shape_of(*view);
  const auto parameters = numerics::softmax_parameters(view->operand(0).quantization->scale());
  softmax.input_rescale = {parameters.to_exponent.multiplier, parameters.to_exponent.shift};
  softmax.diff_min = parameters.difference_min;
  softmax.input = builder.read(op.operands[0], order);
  softmax.output = builder.define(op.results[0], order);
  builder.emit(softmax, op.origin);
}

constexpr Rule kRules[] = {{&ops::kSoftmax, kChecks, layouts, estimate, lower}};

}  // namespace

std::span<const Rule> softmax_rules() { return kRules; }

}  // namespace dtr::neutron
