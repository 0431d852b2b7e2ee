#include "backends/neutron/lowering/accumulation.h"

#include <algorithm>

#include "ops/binary.h"

namespace dtr::neutron {
namespace {

// Which operand of the group's addition its own value is.
size_t own_operand(const Graph& graph, const Group& group) {
  const auto add = std::find(group.members.begin(), group.members.end(), group.add);
  const OpId before = add == group.members.begin() ? group.head : *(add - 1);
  return graph.producer(graph.op(group.add).operands[0]) == before ? 0 : 1;
}

}  // namespace

ValueId addend_of(const Graph& graph, const Group& group) {
  return group.add.valid() ? graph.op(group.add).operands[1 - own_operand(graph, group)] : ValueId{};
}

void emit_accumulation(Builder& builder, const Group& group, const Accumulation& accumulation, const Filters& filters) {
  const Graph& graph = builder.graph();
  const npu::Target& target = builder.target();
  const Op& op = graph.op(group.head);
  const BoundOpView view(graph, group.head);
  const int32_t zero_point = view->operand(0).quantization->zero_point();
  const auto first = static_cast<size_t>(accumulation.first_channel), count = static_cast<size_t>(filters.out);

  npu::Epilogue epilogue{};
  if (group.add.valid()) {
    const BoundOpView add(graph, group.add);
    epilogue.flags |= npu::kWithAdd;
    epilogue.addend = accumulation.addend;
    epilogue.addend_strides = accumulation.addend_strides;
    numerics::BinaryParameters sum = *ops::binary_parameters(*add);
    if (own_operand(graph, group) == 1) {
      std::swap(sum.zero_point_a, sum.zero_point_b);
      std::swap(sum.a, sum.b);
    }
    epilogue.add = binary_arguments(sum, group.add_clamp);
  }
  if (view->attribute_or("one_rounding", false)) epilogue.flags |= npu::kOneRounding;

  const std::vector<numerics::OutputStage> stages = ops::output_stages(*view, accumulation.first_channel + filters.out);
  const numerics::Range range = group.clamp.value_or(stages.front().range);
  epilogue.zero_point_out = stages.front().zero_point;
  epilogue.clamp_low = range.low;
  epilogue.clamp_high = range.high;

  std::vector<numerics::Requantization> rescale;
  for (size_t c = first; c < first + count; ++c) rescale.push_back(stages[c].by);
  const std::span<const int32_t> bias =
      view->has(2) ? builder.program().constants.values<int32_t>(graph.value(op.operands[2]).constant).subspan(first, count)
                   : std::span<const int32_t>{};
  const npu::Address parameters = builder.constant(pack_parameters(filters, bias, zero_point, rescale, target));
  const npu::Address weights = builder.constant(
      accumulation.mapping.depthwise ? pack_depthwise(filters, target) : pack_conv2d(filters, accumulation.mapping.packing, target));
  if (group.table) {
    epilogue.flags |= npu::kWithTable;
    epilogue.table = builder.constant(std::as_bytes(std::span(*group.table)));
  }

  Kernel kernel = kernel_of(accumulation.window, accumulation.mapping);
  const auto fill = [&](auto& command) {
    command.input = accumulation.input;
    command.output = accumulation.output;
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
  Origin origin = origin_of(graph, group);
  if (accumulation.parts > 1 && origin.parts == 1) {
    origin.part = accumulation.part;
    origin.parts = accumulation.parts;
  }
  builder.emit(kernel, std::move(origin), accumulation.macs);
}

Mapping choose_mapping(const Machine& machine, const npu::Window& window, bool depthwise_only) {
  const npu::Target& target = machine.target;
  std::vector<Mapping> candidates;
  if (!depthwise_only) candidates.push_back({});
  if (!depthwise_only && machine.options.row_packing && window.dilation_width == 1) candidates.push_back({.packing = npu::Packing::kRows});
  if (depthwise_only || window.in_channels == 1) candidates.push_back({.depthwise = true});
  const auto cost = [&](Mapping mapping) {
    const PackedSize size = mapping.depthwise ? packed_depthwise(window, target) : packed_conv2d(window, mapping.packing, target);
    return std::pair(cycles(target, kernel_of(window, mapping)).total, size.parameters + size.weights);
  };
  return *std::min_element(candidates.begin(), candidates.end(), [&](Mapping a, Mapping b) { return cost(a) < cost(b); });
}

Kernel kernel_of(const npu::Window& window, Mapping mapping) {
  if (mapping.depthwise) return npu::Depthwise{.window = window};
  return npu::Conv2d{.window = window, .packing = mapping.packing};
}

uint64_t least_staged_bytes(const npu::Target& target, const npu::Window& window, Mapping mapping) {
  const PackedSize size = mapping.depthwise ? packed_depthwise(window, target) : packed_conv2d(window, mapping.packing, target);
  return (size.parameters + size.weights) / (mapping.depthwise ? 1 : npu::div_up(window.out_channels, target.pipelines)) + sizeof(Table);
}

}  // namespace dtr::neutron
