// aten.linear: a convolution of a 1×1 input with a 1×1 kernel; rows are the batch.
#include "compiler/backends/neutron/lowering/accumulation.h"

namespace dtr::neutron {
namespace {

npu::Window window_of(const OpView& view) {
  const Shape& weight = view.operand(1).shape;
  npu::Window window{.batch = word(view.operand(0).elements() / weight[1]),
                     .in_channels = word(weight[1]),
                     .out_channels = word(weight[0])};
  window.in_height = window.in_width = window.out_height = window.out_width = 1;
  window.kernel_height = window.kernel_width = window.stride_height = window.stride_width = 1;
  window.dilation_height = window.dilation_width = 1;
  return npu::dense(window);
}

uint64_t cost(const Machine& machine, const OpView& view) {
  const npu::Window window = window_of(view);
  return accumulation_cycles(machine.target, window, choose_mapping(machine, window, false));
}

uint64_t staged_for_linear(const OpQuery& q) {
  const npu::Window window = window_of(q.view);
  return least_staged_bytes(machine_of(q).target, window,
                            choose_mapping(machine_of(q), window, false));
}
constexpr const Condition* kConditions[] = {&kInt8Operand, &kNotEmpty, &kConstantWeight,
                                            &kConstantBias,
                                            &kRowFitsSram<staged_for_linear, one_row>};

LayoutChoice layouts(const OpView& view) {
  // In channels-last memory the features (last dimension) of rank 3 and more are not contiguous.
  return view.operand(0).rank() < 3 ? LayoutChoice{}
                                    : LayoutChoice{.contiguous = true, .channels_last = false};
}

// Rows of a linear layer may be in any order in memory, at one distance, and so may the columns of
// a row, as long as each row is contiguous: the rows of the result then have the same order, and
// the weights' columns are permuted to fit. nullopt: the operand has to be copied.
struct Rows {
  StridedLayout x_layout, result_layout;
  std::vector<int64_t> columns;  // logical column at each position of a row
  int64_t distance = 0;          // from a row to the next in memory
};
std::optional<Rows> rows_of(const StridedLayout& layout, int64_t in, int64_t out) {
  const int64_t places[] = {in};
  const auto modes = split_at(layout, places);
  if (!modes) return std::nullopt;
  Rows rows{layout, {}, std::vector<int64_t>(static_cast<size_t>(in), 0), in};
  StridedLayout of_rows;
  int64_t filled = in;
  for (const Mode& mode : *modes) {  // outermost first
    if (mode.logical_stride >= in) {
      if (filled != in) return std::nullopt;
      of_rows.push_back(mode);
      continue;
    }
    filled /= mode.extent;
    if (mode.byte_stride != filled) return std::nullopt;
    for (int64_t i = 0; i < in; ++i)
      rows.columns[static_cast<size_t>(i)] += i / filled % mode.extent * mode.logical_stride;
  }
  if (!of_rows.empty()) rows.distance = of_rows.back().byte_stride;
  if (filled != 1 || rows.distance < in) return std::nullopt;
  int64_t count = 1;
  for (auto mode = of_rows.rbegin(); mode != of_rows.rend(); ++mode) {
    if (mode->byte_stride != rows.distance * count) return std::nullopt;
    rows.result_layout.push_back({mode->extent, mode->logical_stride / in * out, count * out});
    count *= mode->extent;
  }
  rows.result_layout.push_back({out, 1, 1});
  rows.result_layout = normalized(std::move(rows.result_layout));
  return rows;
}

void lower(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const BoundOpView view(graph, group.head);
  const Op& op = graph.op(group.head);
  const int64_t in = view->operand(1).shape[1];
  const int64_t out = view->operand(1).shape[0];
  std::optional<Rows> rows = rows_of(builder.layout_of(op.operands[0]), in, out);
  if (!rows) rows = rows_of(builder.dense_layout_of(op.operands[0]), in, out);
  if (!rows) rows = rows_of(contiguous_layout(view->operand(0).elements()), in, out);
  Filters filters{.out = out, .in = in};
  filters.weights.resize(static_cast<size_t>(in * out));
  const auto weights =
      builder.module().constants.values<int8_t>(graph.value(op.operands[1]).constant);
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i)
      filters.weights[static_cast<size_t>(o * in + i)] =
          weights[static_cast<size_t>(o * in + rows->columns[static_cast<size_t>(i)])];

  npu::Window window = window_of(*view);
  window.in.batch = word(rows->distance);
  Accumulation accumulation{.window = window,
                            .mapping = choose_mapping(builder.machine(), window, false),
                            .input = builder.read(op.operands[0], rows->x_layout),
                            .output = {},
                            .addend_strides = window.out,
                            .macs = op.def->macs(*view)};
  if (const ValueId addend = addend_of(graph, group); addend.valid())
    accumulation.addend = builder.read(addend, rows->result_layout);
  accumulation.output = builder.define(graph.op(group.root()).results[0], rows->result_layout);
  emit_accumulation(builder, group, accumulation, filters);
}

constexpr LoweringRule kRules[] = {
    {&ops::kLinear, kConditions, layouts, nullptr, lower, Absorbs::kEpilogue, cost}};

}  // namespace

std::span<const LoweringRule> linear_rules() { return kRules; }

}  // namespace dtr::neutron
