// aten.index_select: selects parts of a tensor, or rows of a table, by index. Constant indices in
// arithmetic progression become copies; all others, and computed indices, become one gather call.
#include <algorithm>

#include "compiler/backends/neutron/lowering/rows.h"
#include "compiler/backends/neutron/lowering/rules.h"
#include "compiler/ops/define.h"

namespace dtr::neutron {
namespace {

size_t dim_of(const OpView& view) {
  return *ops::normalize_dim(view.attribute<int64_t>("dim"), view.operand(0).rank());
}

// Known indices are int32 in a call's constants.
uint64_t staged(const OpQuery& q) {
  const std::vector<ValueId>& operands = q.graph.op(q.op).operands;
  uint64_t bytes = 0;
  if (q.graph.is_constant(operands[0])) bytes += static_cast<uint64_t>(q.view.operand(0).bytes());
  if (q.graph.is_constant(operands[1]))
    bytes += static_cast<uint64_t>(q.view.operand(1).elements()) * sizeof(int32_t);
  return bytes;
}
constexpr const Condition* kConditions[] = {&kInt8Operand, &kNotEmpty, &kRank, &kFitsSram<staged>};

// The operand as rows along the dimension, and the result: in its shape with the indices as one
// dimension, and bytes between neighbours.
struct Selection {
  Rows rows;
  Shape listed;
  std::vector<int64_t> steps;
  int64_t count = 0;
};
// nullopt if a dimension has no single stride in that order.
std::optional<Selection> selection_of(const OpView& view, const StridedLayout& layout) {
  const Type& x = view.operand(0);
  const size_t dim = dim_of(view);
  const std::optional<Rows> rows = rows_of(layout, x.shape, dim);
  std::optional<std::vector<int64_t>> steps = steps_of(layout, x.shape);
  if (!rows || !steps) return std::nullopt;
  Selection selection{*rows, x.shape, std::move(*steps), view.operand(1).elements()};
  selection.listed[dim] = selection.count;
  for (int64_t& step : selection.steps)
    if (step >= rows->inner * rows->columns) step = step / rows->columns * selection.count;
  selection.steps[dim] = rows->inner;
  return selection;
}
Selection plain_selection(const OpView& view) {
  return *selection_of(view, contiguous_layout(view.operand(0).elements()));
}

npu::Gather gather_of(const Selection& selection, DType index) {
  return {.outer = word(selection.rows.outer),
          .rows = word(selection.rows.columns),
          .count = word(selection.count),
          .inner = word(selection.rows.inner),
          .index_bytes = static_cast<uint32_t>(byte_size(index))};
}

std::optional<Kernel> estimate(const Machine&, const OpView& view) {
  return gather_of(plain_selection(view), view.operand(1).dtype);
}

// The call reads the indices in memory order, so that those with two layouts must be contiguous.
LayoutChoice layouts(const OpView& view) {
  return {.contiguous = true, .channels_last = view.operand(1).rank() != 4};
}

// Indices, −1 where one names nothing.
std::vector<int32_t> known_indices(const Module& module, const Graph& graph, ValueId index,
                                   int64_t extent) {
  const ConstantId id = graph.value(index).constant;
  std::vector<int32_t> indices;
  const auto add = [&](int64_t at) {
    indices.push_back(at >= 0 && at < extent ? static_cast<int32_t>(at) : -1);
  };
  if (module.constants.dtype(id) == DType::kInt32) {
    std::ranges::for_each(module.constants.values<int32_t>(id), add);
  } else {
    std::ranges::for_each(module.constants.values<int64_t>(id), add);
  }
  return indices;
}

// Indices that follow each other in steps, or a single one.
struct Run {
  int64_t start, count, step;
};
// nullopt if an index names nothing, or copies of the runs take longer than the gather.
std::optional<std::vector<Run>> runs_of(const std::vector<int32_t>& indices,
                                        const Selection& selection, const npu::Target& target) {
  std::vector<Run> runs;
  for (const int64_t at : indices) {
    if (at < 0) return std::nullopt;
    Run* last = runs.empty() ? nullptr : &runs.back();
    if (last != nullptr && last->count == 1 && at > last->start) {
      *last = {last->start, 2, at - last->start};
    } else if (last != nullptr && last->count > 1 && at == last->start + last->count * last->step) {
      ++last->count;
    } else {
      runs.push_back({at, 1, 1});
    }
  }
  const Rows& rows = selection.rows;
  uint64_t copies = 0;
  for (const Run& run : runs) {
    const bool dense = run.step == 1;
    const uint64_t row = (dense ? 1 : static_cast<uint64_t>(run.count)) *
                         npu::div_up(word(rows.inner * (dense ? run.count : 1)), target.write_port);
    copies +=
        target.call_host_cycles + target.call_npu_cycles + static_cast<uint64_t>(rows.outer) * row;
  }
  const npu::Gather gather = gather_of(selection, DType::kInt32);
  if (copies >
      target.call_host_cycles + target.copy_host_cycles + npu::cycles(target, gather).total)
    return std::nullopt;
  return runs;
}

void lower(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const Op& op = graph.op(group.head);
  const BoundOpView view(graph, group.head);
  const ValueId x = op.operands[0], index = op.operands[1];
  const size_t dim = dim_of(*view);
  std::optional<Selection> found;
  if (!graph.is_constant(x)) found = selection_of(*view, builder.dense_layout_of(x));
  const Selection selection = found ? std::move(*found) : plain_selection(*view);
  const StridedLayout layout = strided_layout(selection.listed, selection.steps);
  npu::Gather gather = gather_of(selection, view->operand(1).dtype);
  if (graph.is_constant(index)) {
    const std::vector<int32_t> indices =
        known_indices(builder.module(), graph, index, selection.rows.columns);
    const auto runs =
        graph.is_constant(x) ? std::nullopt : runs_of(indices, selection, builder.target());
    if (runs) {
      const npu::Address from = builder.read(x, selection.rows.layout);
      const npu::Address to = builder.define(op.results[0], layout);
      int64_t at = 0;
      for (const Run& run : *runs) {
        const Section section = *sliced(selection.rows.layout, view->operand(0).shape, dim,
                                        run.start, run.count, run.step);
        Shape part = selection.listed;
        part[dim] = run.count;
        builder.copy({from.region, from.offset + word(section.offset)}, section.layout,
                     {to.region, to.offset + word(at * selection.steps[dim])},
                     strided_layout(part, selection.steps), element_count(part), op.origin);
        at += run.count;
      }
      return;
    }
    gather.index_bytes = sizeof(int32_t);
    gather.indices = builder.constant(std::as_bytes(std::span(indices)));
  } else {
    gather.indices = builder.read(index, contiguous_layout(selection.count));
  }
  gather.input = builder.read(x, selection.rows.layout);
  gather.output = builder.define(op.results[0], layout);
  builder.emit(gather, op.origin);
}

constexpr LoweringRule kRules[] = {{&ops::kIndexSelect, kConditions, layouts, estimate, lower}};

}  // namespace

std::span<const LoweringRule> index_rules() { return kRules; }

}  // namespace dtr::neutron
