// Elementwise operators of two operands that are both tensors: one call that reads each operand in
// place and in its layout, with strides of 0 along broadcast dimensions. Operators whose other
// operand is a constant of one element are tables (elementwise.cpp).
#include "compiler/ops/binary.h"

#include <algorithm>

#include "compiler/backends/neutron/lowering/rules.h"

namespace dtr::neutron {
namespace {

uint64_t constant_bytes(const OpQuery& q) {
  uint64_t bytes = 0;
  for (const ValueId operand : q.graph.op(q.op).operands)
    if (q.graph.is_constant(operand)) bytes += static_cast<uint64_t>(q.graph.type(operand).bytes());
  return bytes;
}
constexpr const Condition* kConditions[] = {&kInt8Operands, &kNotEmpty, &kRank,
                                            &kRowFitsSram<constant_bytes, one_row>};

std::optional<std::string> tensor_divisor(const OpQuery& q) {
  const Graph& graph = q.graph;
  const std::vector<ValueId>& operands = graph.op(q.op).operands;
  return fmt::format("`{}` of shape {} is divided by `{}` of shape {}",
                     graph.value(operands[0]).name, to_string(q.view.operand(0).shape),
                     graph.value(operands[1]).name, to_string(q.view.operand(1).shape));
}
constexpr Condition kOneNumber{"npu-division",
                               "one operand of a division is a constant of one element",
                               "multiply by a reciprocal", tensor_divisor};
constexpr const Condition* kDivisionConditions[] = {&kOneNumber};

void set_loops(npu::Binary& binary, std::span<const JointLoop> loops) {
  std::fill(std::begin(binary.extent), std::end(binary.extent), 1u);
  std::fill(std::begin(binary.stride_0), std::end(binary.stride_0), 0);
  std::fill(std::begin(binary.stride_1), std::end(binary.stride_1), 0);
  std::fill(std::begin(binary.output_stride), std::end(binary.output_stride), 0);
  DTR_CHECK(loops.size() <= npu::kMoveRank);
  const size_t first = npu::kMoveRank - loops.size();
  for (size_t i = 0; i < loops.size(); ++i) {
    binary.extent[first + i] = static_cast<uint32_t>(loops[i].extent);
    binary.stride_0[first + i] = static_cast<int32_t>(loops[i].steps[0]);
    binary.stride_1[first + i] = static_cast<int32_t>(loops[i].steps[1]);
    binary.output_stride[first + i] = static_cast<int32_t>(loops[i].steps[2]);
  }
}

// Loops over operands of these layouts (of their own shapes), which write a result of the last
// layout; nullopt if the command has too few loops.
std::optional<std::vector<JointLoop>> loops_of(const OpView& view, const StridedLayout& a,
                                               const StridedLayout& b,
                                               const StridedLayout& layout) {
  const Shape& shape = view.result().shape;
  const auto spread_a = broadcast_layout(a, view.operand(0).shape, shape);
  const auto spread_b = broadcast_layout(b, view.operand(1).shape, shape);
  if (!spread_a || !spread_b) return std::nullopt;
  const StridedLayout layouts[] = {*spread_a, *spread_b, layout};
  auto loops = joint_loops(layouts);
  return loops && loops->size() <= npu::kMoveRank ? std::move(loops) : std::nullopt;
}

std::optional<Kernel> estimate(const Machine&, const OpView& view) {
  npu::Binary binary =
      npu::dense_binary(npu::BinaryKind::kAdd, static_cast<uint32_t>(view.result().elements()));
  const auto loops = loops_of(view, contiguous_layout(view.operand(0).elements()),
                              contiguous_layout(view.operand(1).elements()),
                              contiguous_layout(view.result().elements()));
  if (loops) set_loops(binary, *loops);
  return binary;
}

// The layout of the result: that of the first computed operand of its shape, else channels-last if
// an operand of its rank is channels-last.
StridedLayout result_layout(const Builder& builder, const Op& op, const Type& result) {
  const Graph& graph = builder.graph();
  for (const ValueId operand : op.operands)
    if (!graph.is_constant(operand) && graph.type(operand).shape == result.shape)
      return builder.dense_layout_of(operand);
  for (const ValueId operand : op.operands) {
    const Shape& shape = graph.type(operand).shape;
    if (!graph.is_constant(operand) && shape.size() == result.rank() &&
        builder.dense_layout_of(operand) == strided_layout(shape, Layout::kChannelsLast))
      return strided_layout(result.shape, Layout::kChannelsLast);
  }
  return contiguous_layout(result.elements());
}

// The layout in which the call reads an operand: a computed one in its own, a constant in that of
// the result.
StridedLayout operand_layout(const Builder& builder, ValueId operand, const Type& result,
                             const StridedLayout& layout) {
  const Type& type = builder.graph().type(operand);
  if (!builder.graph().is_constant(operand)) return builder.layout_of(operand);
  if (type.shape == result.shape) return compacted(layout);
  Shape padded = type.shape;
  padded.insert(padded.begin(), result.rank() - padded.size(), 1);
  return layout == strided_layout(result.shape, Layout::kChannelsLast)
             ? strided_layout(padded, Layout::kChannelsLast)
             : contiguous_layout(type.elements());
}

void lower(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const Op& op = graph.op(group.head);
  const BoundOpView view(graph, group.head);
  const Type& result = view->result();
  const ValueId y = graph.op(group.root()).results[0];
  const StridedLayout own = result_layout(builder, op, result);
  std::array<StridedLayout, 2> layouts;
  StridedLayout layout;
  std::optional<std::vector<JointLoop>> loops;
  for (const StridedLayout& candidate : {builder.layout_to_write(y, own, op.operands), own}) {
    layout = candidate;
    for (size_t i = 0; i < 2; ++i)
      layouts[i] = operand_layout(builder, op.operands[i], result, layout);
    loops = loops_of(*view, layouts[0], layouts[1], layout);
    if (loops) break;
  }
  if (!loops) {  // digits of earlier views do not fit each other
    layout = contiguous_layout(result.elements());
    for (size_t i = 0; i < 2; ++i) layouts[i] = contiguous_layout(view->operand(i).elements());
    loops = loops_of(*view, layouts[0], layouts[1], layout);
  }
  const numerics::BinaryParameters function = *ops::binary_parameters(*view);
  // NXP's converter lists an activation behind an addition as a call of its own.
  const bool activates_apart =
      builder.machine().options.nxp_like() && view->attributes->find("activation") != nullptr;
  npu::Binary binary{
      .kind = static_cast<npu::BinaryKind>(function.kind),
      .arguments = binary_arguments(function, activates_apart ? numerics::Range{} : group.clamp)};
  set_loops(binary, *loops);
  binary.input_0 = builder.read(op.operands[0], layouts[0]);
  binary.input_1 =
      op.operands[1] == op.operands[0] ? binary.input_0 : builder.read(op.operands[1], layouts[1]);
  binary.output = builder.define(y, layout);
  builder.emit(binary, origin_of(graph, group));
  if (!activates_apart) return;
  Table limits;
  for (size_t i = 0; i < limits.size(); ++i)
    limits[i] = static_cast<int8_t>(function.output.range.clamp(static_cast<int32_t>(i) - 128));
  npu::Lookup lookup = npu::dense_lookup(static_cast<uint32_t>(result.elements()));
  lookup.input = lookup.output = binary.output;
  lookup.table = builder.constant(std::as_bytes(std::span(limits)));
  builder.emit(lookup, origin_of(graph, group));
}

constexpr LoweringRule kRules[] = {
    {&ops::kAddTensor, kConditions, any_layout, estimate, lower, Absorbs::kClamp},
    {&ops::kSubTensor, kConditions, any_layout, estimate, lower, Absorbs::kClamp},
    {&ops::kMulTensor, kConditions, any_layout, estimate, lower, Absorbs::kClamp},
    {&ops::kMaximum, kConditions, any_layout, estimate, lower, Absorbs::kClamp},
    {&ops::kMinimum, kConditions, any_layout, estimate, lower, Absorbs::kClamp},
    {&ops::kPrelu, kConditions, any_layout, estimate, lower, Absorbs::kClamp},
    {&ops::kDivTensor, kDivisionConditions, any_layout, estimate, lower},
};

npu::Rescale rescale(numerics::Requantization by) { return {by.multiplier, by.shift}; }

}  // namespace

std::span<const LoweringRule> binary_rules() { return kRules; }

npu::BinaryArguments binary_arguments(const numerics::BinaryParameters& function,
                                      std::optional<numerics::Range> clamp) {
  const numerics::Range range = clamp.value_or(function.output.range);
  return {.zero_point_0 = function.zero_point_a,
          .zero_point_1 = function.zero_point_b,
          .zero_point_out = function.output.zero_point,
          .input_0 = rescale(function.a),
          .input_1 = rescale(function.b),
          .output = rescale(function.output.by),
          .clamp_low = range.low,
          .clamp_high = range.high};
}

}  // namespace dtr::neutron
