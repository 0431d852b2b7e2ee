// aten.softmax and aten.log_softmax: the kernel runs along any dimension of dense memory, so that
// operands are read in place if the dimension has a single stride.
#include "compiler/ops/softmax.h"

#include <algorithm>

#include "compiler/backends/neutron/lowering/padding.h"
#include "compiler/backends/neutron/lowering/rows.h"
#include "compiler/backends/neutron/lowering/rules.h"
#include "compiler/ops/define.h"

namespace dtr::neutron {
namespace {

size_t softmax_dim(const OpView& view) {
  return *ops::normalize_dim(view.attribute<int64_t>("dim"), view.operand(0).rank());
}

bool masked(const OpView& view) { return view.has(1); }
uint64_t staged_mask(const OpQuery& question) {
  return masked(question.view) ? static_cast<uint64_t>(question.view.operand(0).elements())
                               : 0;  // at most
}
constexpr const Condition* kConditions[] = {&kInt8Operand, &kNotEmpty, &kRank,
                                            &kRowFitsSram<staged_mask, one_row>};

npu::Softmax kernel_of(const Rows& rows) {
  return {.outer = static_cast<uint32_t>(rows.outer),
          .columns = static_cast<uint32_t>(rows.columns),
          .inner = static_cast<uint32_t>(rows.inner)};
}

size_t dim_of(const OpView& view) { return view.operand(0).rank() == 0 ? 0 : softmax_dim(view); }

Rows plain_rows(const OpView& view) {
  const Shape& shape = view.operand(0).shape;
  return *rows_of(contiguous_layout(element_count(shape)), shape, dim_of(view));
}

std::optional<Kernel> estimate(const Machine&, const OpView& view) {
  return kernel_of(plain_rows(view));
}

// The dense order with a dimension innermost.
StridedLayout dim_innermost_layout(const Shape& shape, size_t dim) {
  std::vector<int64_t> steps(shape.size());
  int64_t step = steps[dim] = 1;
  step *= shape[dim];
  for (size_t i = shape.size(); i-- > 0;) {
    if (i == dim) continue;
    steps[i] = step;
    step *= shape[i];
  }
  return strided_layout(shape, steps);
}

// The shape in which the mask is stored: its dimension `dim` innermost, without leading dimensions
// along which it repeats.
Shape shape_of_mask(const Type& mask, const Shape& shape, size_t dim) {
  Shape own = mask.shape;
  own.insert(own.begin(), shape.size() - own.size(), 1);
  Shape rows = shape;
  for (size_t i = 0; i < rows.size() && (i == dim || own[i] == 1); ++i)
    if (i != dim) rows[i] = 1;
  return rows;
}

npu::Address constant_mask(Builder& builder, ValueId id, const Shape& shape,
                           const StridedLayout& layout) {
  const Value& mask = builder.graph().value(id);
  // Evaluation reads operands only, so that the pool's memory may be viewed as a tensor.
  std::byte* data = const_cast<std::byte*>(builder.module().constants.bytes(mask.constant).data());
  Shape own = mask.type.shape;
  own.insert(own.begin(), shape.size() - own.size(), 1);
  const std::vector<int8_t> expanded = ops::expand_mask({DType::kBool, own, data}, shape);
  return builder.constant(rearranged(std::as_bytes(std::span(expanded)), layout));
}

// The mask in place if its layout is that of the rows, else a copy, broadcast to the scores.
npu::Address computed_mask(Builder& builder, ValueId id, const Shape& shape,
                           const StridedLayout& layout, const Origin& origin) {
  const Value& mask = builder.graph().value(id);
  Shape own = mask.type.shape;
  own.insert(own.begin(), shape.size() - own.size(), 1);
  Placed from = builder.placed(id);
  std::optional<StridedLayout> spread = broadcast_layout(from.layout, own, shape);
  if (!spread) {  // a view of a permutation, perhaps
    from.layout = contiguous_layout(mask.type.elements());
    from.address = builder.read(id, from.layout);
    spread = broadcast_layout(from.layout, own, shape);
    DTR_CHECK(spread.has_value());  // every dimension is one digit
  }
  if (*spread == layout) return from.address;
  const npu::Address rows =
      builder.temporary(static_cast<uint32_t>(element_count(shape)), mask.name);
  builder.copy(from.address, *spread, rows, layout, element_count(shape), origin);
  return rows;
}

npu::Rescale rescale(numerics::Requantization by) { return {by.multiplier, by.shift}; }

// As NXP's converter lists it: rows are padded to whole lanes, which a mask leaves out, and cut
// again.
void emit_padded(Builder& builder, const Op& op, const Rows& rows, npu::Softmax softmax) {
  const Value& x = builder.graph().value(op.operands[0]);
  const uint32_t columns = softmax.columns, padded = npu::round_up(columns, builder.target().macs);
  npu::Window window{.batch = softmax.outer, .in_channels = columns, .out_channels = padded};
  window.in_height = window.in_width = window.out_height = window.out_width = 1;
  window.in = {columns, columns, columns};
  softmax.input = emit_pad(builder, window, softmax.input, x.type.quantization->zero_point(),
                           x.name, op.origin);
  softmax.columns = padded;
  std::vector<int8_t> mask(padded, 0);
  std::fill_n(mask.begin(), columns, int8_t{1});
  softmax.mask = builder.constant(std::as_bytes(std::span(mask)));
  softmax.mask_rows = 1;
  softmax.output = builder.temporary(softmax.outer * padded, x.name);
  builder.emit(softmax, op.origin);
  const Shape shape{rows.outer, rows.columns};
  const int64_t elements = rows.outer * rows.columns;
  builder.copy(softmax.output, strided_layout(shape, std::array<int64_t, 2>{padded, 1}),
               builder.define(op.results[0], rows.layout), contiguous_layout(elements), elements,
               op.origin);
}

void lower(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const Op& op = graph.op(group.head);
  const BoundOpView view(graph, group.head);
  std::optional<Rows> rows;
  if (masked(*view))
    rows = rows_of(dim_innermost_layout(view->operand(0).shape, dim_of(*view)),
                   view->operand(0).shape, dim_of(*view));
  if (!rows && !graph.is_constant(op.operands[0]))
    rows = rows_of(builder.dense_layout_of(op.operands[0]), view->operand(0).shape, dim_of(*view));
  if (!rows) rows = plain_rows(*view);
  npu::Softmax softmax = kernel_of(*rows);
  const numerics::SoftmaxParameters parameters = ops::softmax_parameters(*view);
  softmax.kind = view->def == &ops::kLogSoftmax ? npu::SoftmaxKind::kLogarithm
                                                : npu::SoftmaxKind::kProbability;
  softmax.input_rescale = rescale(parameters.to_exponent);
  softmax.diff_min = parameters.difference_min;
  softmax.difference = rescale(parameters.to_difference);
  softmax.output_rescale = rescale(parameters.to_result);
  softmax.zero_point_out = parameters.zero_point;
  softmax.input = builder.read(op.operands[0], rows->layout);
  if (masked(*view)) {
    const ValueId mask = op.operands[1];
    const size_t dim = dim_of(*view);
    const Shape shape = shape_of_mask(graph.type(mask), view->operand(0).shape, dim);
    const StridedLayout layout = dim_innermost_layout(shape, dim);
    softmax.mask = graph.is_constant(mask) ? constant_mask(builder, mask, shape, layout)
                                           : computed_mask(builder, mask, shape, layout, op.origin);
    softmax.mask_rows = static_cast<uint32_t>(element_count(shape)) / softmax.columns;
  }
  const bool pads = view->def == &ops::kSoftmax && !masked(*view) && rows->inner == 1 &&
                    rows->columns % builder.target().macs != 0;
  if (builder.machine().options.nxp_like() && pads) return emit_padded(builder, op, *rows, softmax);
  softmax.output = builder.define(op.results[0], rows->layout);
  builder.emit(softmax, op.origin);
}

constexpr LoweringRule kRules[] = {
    {&ops::kSoftmax, kConditions, any_layout, estimate, lower},
    {&ops::kLogSoftmax, kConditions, any_layout, estimate, lower},
};

}  // namespace

std::span<const LoweringRule> softmax_rules() { return kRules; }

}  // namespace dtr::neutron
