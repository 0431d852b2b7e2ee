// aten.matmul: the kernel reads and writes by strides, so that transposed, permuted, broadcast and
// channels-last operands are read in place, and the result is written in the layout that its reader
// after views and permutations needs. Operands without single strides are copied first.
#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/backends/neutron/lowering/readers.h"
#include "compiler/backends/neutron/lowering/rules.h"
#include "compiler/ops/integer.h"

namespace dtr::neutron {
namespace {

uint64_t staged_bytes(const OpQuery& q) {
  uint64_t staged = sizeof(Table);
  for (const ValueId operand : q.graph.op(q.op).operands)
    if (q.graph.is_constant(operand))
      staged += static_cast<uint64_t>(q.graph.type(operand).bytes());
  return staged;
}
constexpr const Condition* kConditions[] = {&kInt8Operands, &kNotEmpty, &kRank,
                                            &kRowFitsSram<staged_bytes, one_row>};

// In channels-last memory the matrices of a batch are interleaved, which is slow to read.
LayoutChoice layouts(const OpView&) {
  return {.contiguous = true, .channels_last = true, .mixed = true, .prefers_contiguous = true};
}

using Steps = std::vector<int64_t>;  // as steps_of gives them

// One of the three tensors: a possible layout and its strides.
struct Side {
  StridedLayout layout;
  Steps steps;
};
Side contiguous_side(const Shape& shape) {
  const StridedLayout layout = contiguous_layout(element_count(shape));
  return {layout, *steps_of(layout, shape)};
}

void set_batch(uint32_t (&to)[npu::kMatmulBatchRank], const Steps& steps) {
  std::ranges::fill(to, 0u);
  const size_t count = steps.size() - 2;
  for (size_t i = 0; i < count; ++i) to[npu::kMatmulBatchRank - count + i] = word(steps[i]);
}

npu::Matmul product_of(const OpView& view, const Steps& left, const Steps& right,
                       const Steps& output) {
  const Shape& shape = view.result().shape;
  npu::Matmul matmul{.rows = word(shape[shape.size() - 2]),
                     .inner = word(view.operand(0).shape.back()),
                     .columns = word(shape.back()),
                     .left_row_stride = word(left[left.size() - 2]),
                     .left_inner_stride = word(left.back()),
                     .right_inner_stride = word(right[right.size() - 2]),
                     .right_column_stride = word(right.back()),
                     .output_row_stride = word(output[output.size() - 2]),
                     .output_column_stride = word(output.back())};
  std::ranges::fill(matmul.batch, 1u);
  const size_t count = shape.size() - 2;
  for (size_t i = 0; i < count; ++i)
    matmul.batch[npu::kMatmulBatchRank - count + i] = word(shape[i]);
  set_batch(matmul.left_batch_stride, left);
  set_batch(matmul.right_batch_stride, right);
  set_batch(matmul.output_batch_stride, output);
  return matmul;
}

// Uses rightᵀ · leftᵀ = outputᵀ to swap which operand is the shared one of the array.
npu::Matmul exchanged(npu::Matmul m) {
  std::swap(m.left, m.right);
  std::swap(m.left_batch_stride, m.right_batch_stride);
  std::swap(m.rows, m.columns);
  std::swap(m.left_row_stride, m.right_column_stride);
  std::swap(m.left_inner_stride, m.right_inner_stride);
  std::swap(m.output_row_stride, m.output_column_stride);
  std::swap(m.zero_point_left, m.zero_point_right);
  return m;
}

npu::Matmul cheaper_way(const npu::Target& target, const npu::Matmul& matmul) {
  const npu::Matmul other = exchanged(matmul);
  return npu::cycles(target, other).total < npu::cycles(target, matmul).total ? other : matmul;
}

std::optional<Kernel> estimate(const Machine& machine, const OpView& view) {
  return cheaper_way(machine.target, product_of(view, contiguous_side(view.operand(0).shape).steps,
                                                contiguous_side(view.operand(1).shape).steps,
                                                contiguous_side(view.result().shape).steps));
}

// Whether an op reads its only operand in any layout: a matmul with strides, a softmax without a
// mask along the last dimension wherever that is innermost.
bool reads_any_layout(const Graph& graph, OpId op) {
  const OpDef* def = graph.op(op).def;
  if (def == &ops::kMatmul) return true;
  const BoundOpView view(graph, op);
  return def == &ops::kSoftmax && !view->has(1) &&
         ops::normalize_dim(view->attribute<int64_t>("dim"), view->operand(0).rank()) ==
             view->operand(0).rank() - 1;
}

// The layout that the reader of a product prefers; nullopt if it reads any.
std::optional<StridedLayout> layout_for_reader(const Graph& graph, ValueId value) {
  const ViewChain views = trailing_views(graph, value);
  const bool any = views.reader.valid() && reads_any_layout(graph, views.reader);
  return any ? std::nullopt : views.layout;
}

// The order in which the left operand has the batch and the rows, so that a part of the rows of the
// result is read from a part of its rows: scores of attention, whose heads are inside of a
// position.
Side side_like_left(const Shape& shape, const Steps& left) {
  std::vector<int> dims(shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  const size_t repeated = shape.size() - left.size();  // leading dimensions that it does not have
  const auto step = [&](int dim) {
    const auto i = static_cast<size_t>(dim);
    return i < repeated ? 0 : left[i - repeated];
  };
  std::stable_sort(dims.begin(), dims.end() - 1, [&](int a, int b) { return step(a) > step(b); });
  StridedLayout layout = dense_layout(shape, dims);
  Steps steps = *steps_of(layout, shape);  // each dimension is one mode
  return {std::move(layout), std::move(steps)};
}

// The possible layouts of a tensor: its own, if every dimension has a stride, and contiguous.
std::vector<Side> sides_of(const Shape& shape, const std::optional<StridedLayout>& existing) {
  std::vector<Side> sides;
  if (existing)
    if (auto steps = steps_of(*existing, shape); steps && std::ranges::min(*steps) >= 0)
      sides.push_back({*existing, std::move(*steps)});
  Side plain = contiguous_side(shape);
  if (sides.empty() || sides[0].layout != plain.layout) sides.push_back(std::move(plain));
  return sides;
}

// Whether the tensor has to be copied from or to its own layout.
bool copies(const Side& side, const std::optional<StridedLayout>& existing) {
  return existing && side.layout != *existing;
}

void lower(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const Op& op = graph.op(group.head);
  const BoundOpView view(graph, group.head);
  const ValueId result = graph.op(group.root()).results[0];
  const npu::Target& target = builder.target();
  const auto layout_of = [&](ValueId value) {
    return graph.is_constant(value) ? std::nullopt : std::optional(builder.layout_of(value));
  };
  const std::array<std::optional<StridedLayout>, 3> found{
      layout_of(op.operands[0]), layout_of(op.operands[1]), layout_for_reader(graph, result)};
  const std::array<const Type*, 3> types{&view->operand(0), &view->operand(1), &view->result()};
  std::array<std::vector<Side>, 3> sides;
  for (size_t i = 0; i < 3; ++i) sides[i] = sides_of(types[i]->shape, found[i]);
  if (!found[2])
    sides[2].insert(sides[2].begin(), side_like_left(types[2]->shape, sides[0][0].steps));

  const std::array<const Side*, 3> first{sides[0].data(), sides[1].data(), sides[2].data()};
  std::array<const Side*, 3> best = first;
  uint64_t best_cost = UINT64_MAX;
  npu::Matmul matmul;
  for (const Side& left : sides[0])
    for (const Side& right : sides[1])
      for (const Side& output : sides[2]) {
        const std::array<const Side*, 3> chosen{&left, &right, &output};
        const npu::Matmul candidate = product_of(*view, left.steps, right.steps, output.steps);
        uint64_t cost = npu::cycles(target, cheaper_way(target, candidate)).total;
        for (size_t i = 0; i < 3; ++i)
          if (copies(*chosen[i], found[i]))
            cost += target.call_host_cycles + target.call_npu_cycles +
                    static_cast<uint64_t>(types[i]->elements());
        if (cost >= best_cost) continue;
        best_cost = cost;
        best = chosen;
        matmul = candidate;
      }

  const numerics::OutputStage stage = ops::matmul_output_stage(*view);
  const numerics::Range range = group.clamp.value_or(stage.range);
  matmul.zero_point_left = types[0]->quantization->zero_point();
  matmul.zero_point_right = types[1]->quantization->zero_point();
  matmul.rescale = {stage.by.multiplier, stage.by.shift};
  matmul.zero_point_out = stage.zero_point;
  matmul.clamp_low = range.low;
  matmul.clamp_high = range.high;
  matmul.left = builder.read(op.operands[0], best[0]->layout);
  const bool square = op.operands[0] == op.operands[1] && best[0]->layout == best[1]->layout;
  matmul.right = square ? matmul.left : builder.read(op.operands[1], best[1]->layout);
  if (group.table) {
    matmul.flags = npu::kWithTable;
    matmul.table = builder.constant(std::as_bytes(std::span(*group.table)));
  }
  matmul.output = builder.define(result, best[2]->layout);
  builder.emit(cheaper_way(target, matmul), origin_of(graph, group), op.def->macs(*view));
}

constexpr LoweringRule kRules[] = {
    {&ops::kMatmul, kConditions, layouts, estimate, lower, Absorbs::kTable}};

}  // namespace

std::span<const LoweringRule> matmul_rules() { return kRules; }

}  // namespace dtr::neutron
