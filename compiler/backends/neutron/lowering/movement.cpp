// Ops that move data. Views, permutations, slices, reversals, repetitions and layout conversions
// only change the layout with which existing bytes are read; bytes move when a kernel, or an output
// of the partition, needs another layout. Padding and concatenation copy into a new tensor.
#include "compiler/ops/movement.h"
#include "compiler/backends/neutron/lowering/rules.h"
#include "compiler/ops/integer.h"

namespace dtr::neutron {
namespace {

constexpr const Condition* kConditions[] = {&kInt8Operands, &kNotEmpty, &kRank,
                                            &kRowFitsSram<nothing_staged, one_row>};
constexpr const Condition* kCatConditions[] = {&kInt8Operands, &kNotEmpty, &kRank, &kOperandCount,
                                               &kRowFitsSram<nothing_staged, one_row>};

std::optional<Kernel> estimate_free(const Machine&, const OpView&) { return std::nullopt; }
LayoutChoice free_layouts(const OpView&) {
  return {.contiguous = true, .channels_last = true, .mixed = true};
}

// The result shows the elements of operand 0, whose order `transform` changes. Where the digits of
// the order that is there do not divide so, or become too many for a copy, the operand is brought
// into its logical order first.
template <class Transform>
void show(Builder& builder, const Op& op, Transform transform) {
  const ValueId x = op.operands[0];
  const ValueId y = op.results[0];
  const auto shown = [&](const Placed& from) -> std::optional<Placed> {
    std::optional<Section> part = transform(from.layout);
    if (!part || part->layout.size() > npu::kMoveRank) return std::nullopt;
    return Placed{{from.address.region, word(from.address.offset + part->offset)},
                  std::move(part->layout)};
  };
  const StridedLayout plain = contiguous_layout(builder.graph().type(x).elements());
  if (builder.graph().is_constant(x)) {
    const int64_t elements = builder.graph().type(y).elements();
    const Placed from = *shown(builder.placed(x));
    return builder.copy(from.address, from.layout, builder.define(y, contiguous_layout(elements)),
                        contiguous_layout(elements), elements, op.origin);
  }
  std::optional<Placed> at = shown(builder.placed(x));
  if (!at) at = shown({builder.read(x, plain), plain});
  DTR_CHECK(at.has_value());  // every dimension of the logical order is one digit
  builder.place(y, *at);
}

void lower_view(Builder& builder, const Group& group) {
  show(builder, builder.graph().op(group.head),
       [](const StridedLayout& layout) { return std::optional(Section{layout}); });
}

void lower_permute(Builder& builder, const Group& group) {
  const Op& op = builder.graph().op(group.head);
  const Shape& shape = builder.graph().type(op.operands[0]).shape;
  std::vector<size_t> dims;
  for (const int64_t dim : op.attributes.get<Ints>("dims"))
    dims.push_back(*ops::normalize_dim(dim, shape.size()));
  show(builder, op, [&](const StridedLayout& existing) {
    std::optional<StridedLayout> layout = permuted(existing, shape, dims);
    return layout ? std::optional(Section{std::move(*layout)}) : std::nullopt;
  });
}

void lower_slice(Builder& builder, const Group& group) {
  const BoundOpView view(builder.graph(), group.head);
  const ops::Slice slice = ops::slice_of(*view);
  show(builder, builder.graph().op(group.head), [&](const StridedLayout& existing) {
    return sliced(existing, view->operand(0).shape, slice.dim, slice.start, slice.count,
                  slice.step);
  });
}

void lower_flip(Builder& builder, const Group& group) {
  const Op& op = builder.graph().op(group.head);
  const Shape& shape = builder.graph().type(op.operands[0]).shape;
  std::vector<bool> dims(shape.size(), false);
  for (const int64_t dim : op.attributes.get<Ints>("dims"))
    dims[*ops::normalize_dim(dim, shape.size())] = true;
  show(builder, op, [&](const StridedLayout& existing) { return reversed(existing, shape, dims); });
}

void lower_expand(Builder& builder, const Group& group) {
  const BoundOpView view(builder.graph(), group.head);
  show(builder, builder.graph().op(group.head), [&](const StridedLayout& existing) {
    std::optional<StridedLayout> layout =
        broadcast_layout(existing, view->operand(0).shape, view->result().shape);
    return layout ? std::optional(Section{std::move(*layout)}) : std::nullopt;
  });
}

// Channels-last if the first computed operand is, else contiguous.
Layout layout_of(const Builder& builder, const Op& op) {
  for (const ValueId operand : op.operands)
    if (!builder.graph().is_constant(operand)) {
      const StridedLayout channels =
          strided_layout(builder.graph().type(operand).shape, Layout::kChannelsLast);
      return builder.dense_layout_of(operand) == channels ? Layout::kChannelsLast
                                                          : Layout::kContiguous;
    }
  return Layout::kContiguous;
}

void lower_cat(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const Op& op = graph.op(group.head);
  const Type& result = graph.type(op.results[0]);
  const size_t dim = *ops::normalize_dim(op.attributes.get<int64_t>("dim"), result.rank());
  // The layout of the concatenation around it, or that of operands that are already in place.
  const Subview* outer = builder.planned_subview(op.results[0]);
  const Layout layout = builder.started(op.results[0]) ? result.layout : layout_of(builder, op);
  const std::vector<int64_t> steps =
      outer != nullptr ? outer->steps : strides(result.shape, layout);
  const npu::Address whole = builder.define(op.results[0], strided_layout(result.shape, steps));
  int64_t at = 0;
  for (const ValueId operand : op.operands) {
    const Type& part = graph.type(operand);
    const npu::Address to{whole.region, whole.offset + word(at * steps[dim])};
    at += part.shape[dim];
    if (builder.in_place(operand)) continue;
    Placed from = builder.placed(operand);
    if (from.address.region ==
        whole.region) {  // a view of another part: copies do not read and write one tensor
      const Placed aside{builder.temporary(bytes_of(part), graph.value(operand).name),
                         compacted(from.layout)};
      builder.copy(from.address, from.layout, aside.address, aside.layout, part.elements(),
                   op.origin);
      from = aside;
    }
    builder.copy(from.address, from.layout, to, strided_layout(part.shape, steps), part.elements(),
                 op.origin);
  }
}

std::optional<Kernel> estimate_cat(const Machine&, const OpView& view) {
  return npu::Fill{.bytes =
                       word(view.result().bytes())};  // as many bytes as the copies write together
}

void lower_pad(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const BoundOpView view(graph, group.head);
  const Op& op = graph.op(group.head);
  const Type& x = view->operand(0);
  const Type& y = view->result();
  const Layout layout = layout_of(builder, op);
  const Ints& pad = op.attributes.get<Ints>("pad");
  const std::vector<int64_t> from_steps = strides(x.shape, layout);
  const std::vector<int64_t> to_steps = strides(y.shape, layout);
  Shape kept = x.shape;
  int64_t from_offset = 0;
  int64_t to_offset = 0;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t dim = x.rank() - 1 - i;
    const int64_t cut = std::max<int64_t>(0, -pad[2 * i]);
    from_offset += cut * from_steps[dim];
    to_offset += std::max<int64_t>(0, pad[2 * i]) * to_steps[dim];
    kept[dim] -= cut + std::max<int64_t>(0, -pad[2 * i + 1]);
  }
  const npu::Address whole = builder.define(op.results[0], strided_layout(y.shape, layout));
  const int64_t elements = element_count(kept);
  if (elements < y.elements()) {
    const Quantization& q = *y.quantization;
    const int32_t value = numerics::code_of(op.attributes.get<double>("value"), q.scale(),
                                            q.zero_point(), ops::range_of(q));
    builder.emit(npu::Fill{.output = whole, .bytes = word(y.elements()), .value = value},
                 op.origin);
  }
  if (elements == 0) return;
  const npu::Address from = builder.read(op.operands[0], strided_layout(x.shape, layout));
  builder.copy({from.region, from.offset + word(from_offset)}, strided_layout(kept, from_steps),
               {whole.region, whole.offset + word(to_offset)}, strided_layout(kept, to_steps),
               elements, op.origin);
}

constexpr LoweringRule kRules[] = {
    {&ops::kView, kConditions, free_layouts, estimate_free, lower_view},
    {&ops::kPermute, kConditions, free_layouts, estimate_free, lower_permute},
    {&ops::kSliceTensor, kConditions, free_layouts, estimate_free, lower_slice},
    {&ops::kExpand, kConditions, free_layouts, estimate_free, lower_expand},
    {&ops::kFlip, kConditions, free_layouts, estimate_free, lower_flip},
    {&ops::kToDimOrderCopy, kConditions, free_layouts, estimate_free, lower_view},
    {&ops::kCat, kCatConditions, any_layout, estimate_cat, lower_cat},
    {&ops::kConstantPadNd, kConditions, any_layout, estimate_cat, lower_pad},
};

}  // namespace

std::span<const LoweringRule> movement_rules() { return kRules; }

}  // namespace dtr::neutron
