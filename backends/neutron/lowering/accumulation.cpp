#include "backends/neutron/lowering/accumulation.h"

#include "backends/neutron/lowering/padding.h"
#include "backends/neutron/lowering/rules.h"
#include "ops/integer.h"

namespace dtr::neutron {
namespace {

uint32_t word(int64_t value) { return static_cast<uint32_t>(value); }

struct Accumulation {
  npu::Window window;
  Mapping mapping;
};

Accumulation of_convolution(const Machine& machine, const OpView& view) {
  const ops::ConvolutionShape shape = ops::convolution_shape(view);
  const npu::Window window = window_of(shape);
  return {window, choose_mapping(machine, window, shape.in == 1 && shape.groups > 1)};
}

Accumulation of_linear(const Machine& machine, const OpView& view) {
  const Shape& weight = view.operand(1).shape;
  const npu::Window window = window_of_linear(view.operand(0).elements() / weight[1], weight[1], weight[0]);
  return {window, choose_mapping(machine, window, false)};
}

template <Accumulation (*Of)(const Machine&, const OpView&)>
std::optional<Kernel> estimate(const Machine& machine, const OpView& view) {
  const Accumulation accumulation = Of(machine, view);
  return kernel_of(accumulation.window, accumulation.mapping);
}

Image image_of(const OpView& view, const ops::ConvolutionShape& shape) {
  return {shape.batch, shape.groups * shape.in, order_of(view.operand(0).shape, Layout::kChannelsLast)};
}

uint64_t staged(const Question& q, const Accumulation& accumulation, int64_t padded) {
  uint64_t bytes = staged_bytes(q.machine.target, accumulation.window, accumulation.mapping);
  const npu::Window& window = accumulation.window;
  // A call with one output position can be split by output channels.
  if (uint64_t{window.batch} * window.out_height * window.out_width == 1)
    bytes /= npu::div_up(window.out_channels, q.machine.target.pipelines);
  return bytes + static_cast<uint64_t>(padded) + sizeof(Table);
}

ops::Window window_of_question(const Question& q) { return ops::convolution_shape(q.view).window; }
Reduction convolution_reduction(const Question& q) {
  const ops::ConvolutionShape shape = ops::convolution_shape(q.view);
  return {shape.window.h.kernel, shape.window.w.kernel, shape.in};
}
uint64_t staged_for_convolution(const Question& q) {
  const ops::ConvolutionShape shape = ops::convolution_shape(q.view);
  const int64_t padded = padding_in_kernel(shape.window) ? 0 : padded_bytes(image_of(q.view, shape), shape.window);
  return staged(q, of_convolution(q.machine, q.view), padded);
}
constexpr const Check* kConvolutionChecks[] = {&kInt8Operand,
                                               &kNotEmpty,
                                               &kConstantWeight,
                                               &kConstantBias,
                                               &kNotTransposed,
                                               &kGroups,
                                               &kKernelSize<window_of_question>,
                                               &kStride<window_of_question>,
                                               &kDilation<window_of_question>,
                                               &kReductionSize<convolution_reduction>,
                                               &kFitsSram<staged_for_convolution>};

Reduction linear_reduction(const Question& q) { return {1, 1, q.view.operand(1).shape[1]}; }
uint64_t staged_for_linear(const Question& q) { return staged(q, of_linear(q.machine, q.view), 0); }
constexpr const Check* kLinearChecks[] = {&kInt8Operand,
                                          &kNotEmpty,
                                          &kConstantWeight,
                                          &kConstantBias,
                                          &kReductionSize<linear_reduction>,
                                          &kFitsSram<staged_for_linear>};

LayoutChoice linear_layouts(const OpView& view) {
  // In channels-last memory the features (last dimension) of rank 3 and more do not lie side by side.
  return view.operand(0).rank() < 3 ? LayoutChoice{} : LayoutChoice{.contiguous = true, .channels_last = false};
}

struct Source {  // what an accumulation reads and writes besides its constants
  npu::Address input;
  Order result_order;
};

void emit(Builder& builder, const Group& group, const Accumulation& accumulation, const Filters& filters, const Source& source) {
  const Graph& graph = builder.graph();
  const npu::Target& target = builder.target();
  const Op& op = graph.op(group.head);
  const BoundOpView view(graph, group.head);
  const int32_t zero_point = view->operand(0).quantization->zero_point();

  npu::Epilogue epilogue{};
  if (group.add.valid()) {
    const Op& add = graph.op(group.add);
    const BoundOpView add_view(graph, group.add);
    // The operand that the call itself computes is the one whose producer is in the group.
    const OpId before =
        group.members.front() == group.add ? group.head : *(std::find(group.members.begin(), group.members.end(), group.add) - 1);
    const size_t own = graph.producer(add.operands[0]) == before ? 0 : 1;
    epilogue.flags |= npu::kWithAdd;
    epilogue.addend = builder.read(add.operands[1 - own], source.result_order);
    epilogue.addend_strides = accumulation.window.out;
    epilogue.add = add_arguments(*add_view, own, group.add_clamp);
  }

  const std::vector<numerics::OutputStage> stages = ops::output_stages(*view, filters.out);
  const numerics::Range range = group.clamp.value_or(stages.front().range);
  if (view->attribute_or("one_rounding", false)) epilogue.flags |= npu::kOneRounding;
  epilogue.zero_point_out = stages.front().zero_point;
  epilogue.clamp_low = range.low;
  epilogue.clamp_high = range.high;

  std::vector<numerics::Requantization> rescale;
  for (const numerics::OutputStage& stage : stages) rescale.push_back(stage.by);
  const std::span<const int32_t> bias =
      view->has(2) ? builder.program().constants.values<int32_t>(graph.value(op.operands[2]).constant) : std::span<const int32_t>{};
  const npu::Address parameters = builder.constant(pack_parameters(filters, bias, zero_point, rescale, target));
  const npu::Address weights = builder.constant(
      accumulation.mapping.depthwise ? pack_depthwise(filters, target) : pack_conv2d(filters, accumulation.mapping.packing, target));
  if (group.table) {
    epilogue.flags |= npu::kWithTable;
    epilogue.table = builder.constant(std::as_bytes(std::span(*group.table)));
  }
  const npu::Address output = builder.define(graph.op(group.root()).results[0], source.result_order);

  Kernel kernel = kernel_of(accumulation.window, accumulation.mapping);
  const auto fill = [&](auto& command) {
    command.input = source.input;
    command.output = output;
    command.weights = weights;
    command.parameters = parameters;
    command.pad_value = zero_point;
    command.epilogue = epilogue;
  };
  if (auto* depthwise = std::get_if<npu::Depthwise>(&kernel)) {
    fill(*depthwise);
  } else {
    fill(std::get<npu::Conv2d>(kernel));
  }
  builder.emit(kernel, origin_of(graph, group), op.def->macs(*view));
}

void lower_convolution(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const BoundOpView view(graph, group.head);
  ops::ConvolutionShape shape = ops::convolution_shape(*view);
  const Op& op = graph.op(group.head);
  const Filters filters = filters_from_oihw(builder.program().constants.values<int8_t>(graph.value(op.operands[1]).constant),
                                            shape.groups * shape.out, shape.in, shape.window.h.kernel, shape.window.w.kernel);
  Accumulation accumulation = of_convolution(builder.machine(), *view);
  const Image image = image_of(*view, shape);
  const npu::Address input = padding_in_kernel(shape.window) ? builder.read(op.operands[0], image.order)
                                                             : read_padded(builder, op.operands[0], image, shape.window, op.origin);
  accumulation.window = window_of(shape);
  emit(builder, group, accumulation, filters, {input, order_of(view->result().shape, Layout::kChannelsLast)});
}

// Rows of a linear layer may lie in any order and so may the columns of one row, as long as each row is one run: the rows of the result
// then lie in the same order, and the weights' columns are permuted to fit. nullopt: the operand has to be copied.
struct Rows {
  Order x_order, result_order;
  std::vector<int64_t> columns;  // logical column at each position of a row
};
std::optional<Rows> rows_of(const Order& order, int64_t in, int64_t out) {
  const int64_t places[] = {in};
  const auto digits = split_at(order, places);
  if (!digits) return std::nullopt;
  Rows rows{order, {}, std::vector<int64_t>(static_cast<size_t>(in), 0)};
  bool in_row = false;
  int64_t filled = in;
  for (const Digit& digit : *digits) {  // outermost first
    if (digit.place >= in) {
      if (in_row) return std::nullopt;
      rows.result_order.push_back({digit.extent, digit.place / in * out, digit.step / in * out});
      continue;
    }
    in_row = true;
    filled /= digit.extent;
    for (int64_t i = 0; i < in; ++i) rows.columns[static_cast<size_t>(i)] += i / filled % digit.extent * digit.place;
  }
  rows.result_order.push_back({out, 1, 1});
  rows.result_order = normalized(std::move(rows.result_order));
  return rows;
}

void lower_linear(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const BoundOpView view(graph, group.head);
  const Op& op = graph.op(group.head);
  const int64_t in = view->operand(1).shape[1];
  const int64_t out = view->operand(1).shape[0];
  const Order plain = contiguous_order(view->operand(0).elements());
  std::optional<Rows> rows = rows_of(graph.is_constant(op.operands[0]) ? plain : builder.order(op.operands[0]), in, out);
  if (!rows) rows = rows_of(plain, in, out);
  Filters filters{.out = out, .in = in};
  filters.weights.resize(static_cast<size_t>(in * out));
  const auto weights = builder.program().constants.values<int8_t>(graph.value(op.operands[1]).constant);
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i)
      filters.weights[static_cast<size_t>(o * in + i)] = weights[static_cast<size_t>(o * in + rows->columns[static_cast<size_t>(i)])];
  emit(builder, group, of_linear(builder.machine(), *view), filters, {builder.read(op.operands[0], rows->x_order), rows->result_order});
}

constexpr Rule kRules[] = {
    {&ops::kConvolution, kConvolutionChecks, channels_last, estimate<of_convolution>, lower_convolution, Absorbs::kEpilogue},
    {&ops::kLinear, kLinearChecks, linear_layouts, estimate<of_linear>, lower_linear, Absorbs::kEpilogue},
};

}  // namespace

npu::Window window_of(const ops::ConvolutionShape& shape) {
  const auto& [h, w] = shape.window;
  npu::Window made{.batch = word(shape.batch),
                   .in_height = word(h.in),
                   .in_width = word(w.in),
                   .in_channels = word(shape.groups * shape.in),
                   .out_height = word(h.out),
                   .out_width = word(w.out),
                   .out_channels = word(shape.groups * shape.out),
                   .kernel_height = word(h.kernel),
                   .kernel_width = word(w.kernel),
                   .stride_height = word(h.stride),
                   .stride_width = word(w.stride),
                   .dilation_height = word(h.dilation),
                   .dilation_width = word(w.dilation),
                   .pad_top = static_cast<int32_t>(h.pad),
                   .pad_left = static_cast<int32_t>(w.pad)};
  return npu::dense(made);
}

npu::Window window_of_linear(int64_t rows, int64_t in, int64_t out) {
  npu::Window made{.batch = word(rows),
                   .in_height = 1,
                   .in_width = 1,
                   .in_channels = word(in),
                   .out_height = 1,
                   .out_width = 1,
                   .out_channels = word(out),
                   .kernel_height = 1,
                   .kernel_width = 1,
                   .stride_height = 1,
                   .stride_width = 1,
                   .dilation_height = 1,
                   .dilation_width = 1};
  return npu::dense(made);
}

Mapping choose_mapping(const Machine& machine, const npu::Window& window, bool depthwise_only) {
  std::vector<Mapping> candidates;
  if (!depthwise_only) candidates.push_back({});
  if (!depthwise_only && machine.options.row_packing && window.dilation_width == 1) candidates.push_back({.packing = npu::Packing::kRows});
  if (depthwise_only || window.in_channels == 1) candidates.push_back({.depthwise = true});
  const auto cost = [&](Mapping mapping) {
    return std::pair(cycles(machine.target, kernel_of(window, mapping)).total, staged_bytes(machine.target, window, mapping));
  };
  return *std::min_element(candidates.begin(), candidates.end(), [&](Mapping a, Mapping b) { return cost(a) < cost(b); });
}

Kernel kernel_of(const npu::Window& window, Mapping mapping) {
  if (mapping.depthwise) return npu::Depthwise{.window = window};
  return npu::Conv2d{.window = window, .packing = mapping.packing};
}

uint64_t staged_bytes(const npu::Target& target, const npu::Window& window, Mapping mapping) {
  const PackedSize size = mapping.depthwise ? packed_depthwise(window, target) : packed_conv2d(window, mapping.packing, target);
  return size.parameters + size.weights;
}

std::span<const Rule> accumulation_rules() { return kRules; }

}  // namespace dtr::neutron
