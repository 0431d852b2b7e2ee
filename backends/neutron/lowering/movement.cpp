// Ops that move data. View, permute and layout conversions only say how the bytes that are there are to be read; bytes move when a
// kernel, or an output of the partition, needs them in another order. Padding and concatenation copy into a new tensor.
#include "backends/neutron/lowering/rules.h"
#include "ops/integer.h"

namespace dtr::neutron {
namespace {

uint32_t word(int64_t value) { return static_cast<uint32_t>(value); }

constexpr const Check* kChecks[] = {&kInt8Operands, &kNotEmpty, &kRank, &kFitsSram<nothing_staged>};

std::optional<Kernel> estimate_free(const Machine&, const OpView&) { return std::nullopt; }
LayoutChoice free_layouts(const OpView&) { return {.contiguous = true, .channels_last = true, .mixed = true}; }

// `y` shows the elements of `x` in that order over the same bytes.
void show(Builder& builder, const Op& op, Order order) {
  const ValueId x = op.operands[0];
  if (!builder.graph().is_constant(x)) return builder.alias(op.results[0], x, std::move(order));
  const Type& type = builder.graph().type(x);
  const Order plain = contiguous_order(type.elements());
  const npu::Address from = builder.read(x, plain);
  builder.copy(from, plain, builder.define(op.results[0], std::move(order)), plain, type.elements(), op.origin);
}

void lower_view(Builder& builder, const Group& group) {
  const Op& op = builder.graph().op(group.head);
  show(builder, op, builder.lies(op.operands[0]));
}

void lower_permute(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const Op& op = graph.op(group.head);
  const Shape& shape = graph.type(op.operands[0]).shape;
  std::vector<size_t> dims;
  for (const int64_t dim : op.attributes.get<Ints>("dims")) dims.push_back(*ops::normalize_dim(dim, shape.size()));
  auto order = permuted(builder.lies(op.operands[0]), shape, dims);
  if (order && order->size() <= npu::kMoveRank) return show(builder, op, std::move(*order));
  // Digits of earlier views do not divide at these dimensions: bring the operand into its logical order first.
  const Order plain = contiguous_order(graph.type(op.operands[0]).elements());
  const npu::Address from = builder.read(op.operands[0], plain);
  const Order result = contiguous_order(graph.type(op.results[0]).elements());
  builder.copy(from, *permuted(plain, shape, dims), builder.define(op.results[0], result), result, graph.type(op.results[0]).elements(),
               op.origin);
}

// Channels-last if the first operand that is computed lies so, else contiguous.
Layout layout_of(const Builder& builder, const Op& op) {
  for (const ValueId operand : op.operands)
    if (!builder.graph().is_constant(operand)) {
      const Order channels = order_of(builder.graph().type(operand).shape, Layout::kChannelsLast);
      return builder.order(operand) == channels ? Layout::kChannelsLast : Layout::kContiguous;
    }
  return Layout::kContiguous;
}

void lower_cat(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const Op& op = graph.op(group.head);
  const Type& result = graph.type(op.results[0]);
  const size_t dim = *ops::normalize_dim(op.attributes.get<int64_t>("dim"), result.rank());
  // In the order of the concatenation around it, or in which operands lie in it already.
  const Part* outer = builder.planned(op.results[0]);
  const Layout layout = builder.started(op.results[0]) ? result.layout : layout_of(builder, op);
  const std::vector<int64_t> steps = outer != nullptr ? outer->steps : strides(result.shape, layout);
  const npu::Address whole = builder.define(op.results[0], strided_order(result.shape, steps));
  int64_t at = 0;
  for (const ValueId operand : op.operands) {
    const Type& part = graph.type(operand);
    const npu::Address to{whole.region, whole.offset + word(at * steps[dim])};
    at += part.shape[dim];
    if (builder.in_place(operand)) continue;
    Order order = builder.lies(operand);
    npu::Address from = builder.read(operand, order);
    if (from.region == whole.region) {  // a view of another part: copies do not read and write one tensor
      const npu::Address aside = builder.temporary(bytes_of(part), graph.value(operand).name);
      builder.copy(from, order, aside, compacted(order), part.elements(), op.origin);
      from = aside;
      order = compacted(order);
    }
    builder.copy(from, order, to, strided_order(part.shape, steps), part.elements(), op.origin);
  }
}

std::optional<Kernel> estimate_cat(const Machine&, const OpView& view) {
  return npu::Fill{.bytes = word(view.result().bytes())};  // as many bytes as the copies write together
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
  const npu::Address whole = builder.define(op.results[0], order_of(y.shape, layout));
  const int64_t elements = element_count(kept);
  if (elements < y.elements()) {
    const Quantization& q = *y.quantization;
    const int32_t value =
        ops::range_of(q).clamp(numerics::quantize_real(static_cast<float>(op.attributes.get<double>("value")), q.scale(), q.zero_point()));
    builder.emit(npu::Fill{.output = whole, .bytes = word(y.elements()), .value = value}, op.origin);
  }
  if (elements == 0) return;
  const npu::Address from = builder.read(op.operands[0], order_of(x.shape, layout));
  builder.copy({from.region, from.offset + word(from_offset)}, strided_order(kept, from_steps), {whole.region, word(to_offset)},
               strided_order(kept, to_steps), elements, op.origin);
}

constexpr Rule kRules[] = {
    {&ops::kView, kChecks, free_layouts, estimate_free, lower_view},
    {&ops::kPermute, kChecks, free_layouts, estimate_free, lower_permute},
    {&ops::kToDimOrderCopy, kChecks, free_layouts, estimate_free, lower_view},
    {&ops::kCat, kChecks, any_layout, estimate_cat, lower_cat},
    {&ops::kConstantPadNd, kChecks, any_layout, estimate_cat, lower_pad},
};

}  // namespace

std::span<const Rule> movement_rules() { return kRules; }

}  // namespace dtr::neutron
