#include "compiler/backends/neutron/lowering/accumulation.h"

#include <algorithm>

#include "compiler/ops/binary.h"

namespace dtr::neutron {
namespace {

// Which operand of the group's addition its own value is.
size_t own_operand(const Graph& graph, const Group& group) {
  const auto add = std::find(group.members.begin(), group.members.end(), group.add);
  const OpId before = add == group.members.begin() ? group.head : *(add - 1);
  return graph.producer(graph.op(group.add).operands[0]) == before ? 0 : 1;
}

bool fits(const npu::Target& target, const npu::Window& window, Mapping mapping) {
  const auto lanes = [&](uint64_t run) {
    return (run + target.macs - 1) / target.macs * target.macs;
  };
  const uint64_t height = window.kernel_height, width = window.kernel_width,
                 channels = window.in_channels;
  const uint64_t products = mapping.depthwise ? height * width
                            : mapping.packing == npu::Packing::kChannels
                                ? height * width * lanes(channels)
                                : height * lanes(width * channels);
  return products <= target.max_reduction;
}

// The window of one share; where it is not all of the window, packing by channels.
npu::Window window_of(const npu::Window& whole, const Share& share, bool depthwise) {
  npu::Window window = whole;
  window.kernel_height = share.rows;
  window.kernel_width = share.columns;
  if (!depthwise) window.in_channels = share.channels;
  window.pad_top -= static_cast<int32_t>(share.row * whole.dilation_height);
  window.pad_left -= static_cast<int32_t>(share.column * whole.dilation_width);
  return window;
}

Filters filters_of(const Filters& whole, const Share& share) {
  Filters filters{.out = whole.out,
                  .height = share.rows,
                  .width = share.columns,
                  .in = share.channels,
                  .weights = {}};
  for (int64_t o = 0; o < whole.out; ++o)
    for (int64_t y = share.row; y < share.row + filters.height; ++y)
      for (int64_t x = share.column; x < share.column + filters.width; ++x) {
        const auto from = whole.filter(o).subspan(
            static_cast<size_t>((y * whole.width + x) * whole.in + share.channel), share.channels);
        filters.weights.insert(filters.weights.end(), from.begin(), from.end());
      }
  return filters;
}

uint32_t sums_bytes(const npu::Target& target, const npu::Window& window) {
  return npu::round_up(window.out_channels, target.pipelines) * 4 * window.batch *
         window.out_height * window.out_width;
}

// What makes results of sums; its constants become part of the call being built.
npu::Epilogue epilogue_of(Builder& builder, const Group& group, const Accumulation& accumulation,
                          const numerics::OutputStage& stage) {
  const Graph& graph = builder.graph();
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
  if (BoundOpView(graph, group.head)->attribute_or("one_rounding", false))
    epilogue.flags |= npu::kOneRounding;
  const numerics::Range range = group.clamp.value_or(stage.range);
  epilogue.zero_point_out = stage.zero_point;
  epilogue.clamp_low = range.low;
  epilogue.clamp_high = range.high;
  if (group.table) {
    epilogue.flags |= npu::kWithTable;
    epilogue.table = builder.constant(std::as_bytes(std::span(*group.table)));
  }
  return epilogue;
}

}  // namespace

ValueId addend_of(const Graph& graph, const Group& group) {
  return group.add.valid() ? graph.op(group.add).operands[1 - own_operand(graph, group)]
                           : ValueId{};
}

void emit_accumulation(Builder& builder, const Group& group, const Accumulation& accumulation,
                       const Filters& filters) {
  const Graph& graph = builder.graph();
  const npu::Target& target = builder.target();
  const Op& op = graph.op(group.head);
  const BoundOpView view(graph, group.head);
  const int32_t zero_point = view->operand(0).quantization->zero_point();
  const auto first = static_cast<size_t>(accumulation.first_channel),
             count = static_cast<size_t>(filters.out);
  const std::vector<numerics::OutputStage> stages =
      ops::output_stages(*view, accumulation.first_channel + filters.out);
  std::vector<numerics::Requantization> rescale;
  for (size_t c = first; c < first + count; ++c) rescale.push_back(stages[c].by);
  std::span<const int32_t> bias =
      view->has(2) ? builder.module()
                         .constants.values<int32_t>(graph.value(op.operands[2]).constant)
                         .subspan(first, count)
                   : std::span<const int32_t>{};
  Origin origin = origin_of(graph, group);
  if (accumulation.parts > 1 && origin.parts == 1) {
    origin.part = accumulation.part;
    origin.parts = accumulation.parts;
  }

  const bool depthwise = accumulation.mapping.depthwise;
  const std::vector<Share> shares = shares_of(target, accumulation.window, accumulation.mapping);
  const Mapping mapping =
      shares.size() == 1 ? accumulation.mapping : Mapping{.depthwise = depthwise};
  npu::Address sums{};
  if (shares.size() > 1) sums = builder.temporary(sums_bytes(target, accumulation.window), "sums");
  int64_t macs = accumulation.macs;
  for (size_t i = 0; i < shares.size(); ++i) {
    const Share& share = shares[i];
    const bool last = i + 1 == shares.size();
    const Filters own = shares.size() == 1 ? filters : filters_of(filters, share);
    const npu::Address parameters =
        builder.constant(pack_parameters(own, bias, zero_point, rescale, target));
    const npu::Address weights = builder.constant(
        depthwise ? pack_depthwise(own, target) : pack_conv2d(own, mapping.packing, target));
    npu::Epilogue epilogue{};
    if (last) epilogue = epilogue_of(builder, group, accumulation, stages.front());
    if (!last) epilogue.flags = npu::kToSums;
    if (i > 0) {
      epilogue.flags |= npu::kFromSums;
      epilogue.sums = sums;
    }
    Kernel kernel = kernel_of(window_of(accumulation.window, share, depthwise), mapping);
    const auto fill = [&](auto& command) {
      command.input = {accumulation.input.region, accumulation.input.offset + share.channel};
      command.output = last ? accumulation.output : sums;
      command.weights = weights;
      command.parameters = parameters;
      command.pad_value = zero_point;
      command.epilogue = epilogue;
    };
    if (auto* command = std::get_if<npu::Depthwise>(&kernel)) {
      fill(*command);
    } else {
      fill(std::get<npu::Conv2d>(kernel));
    }
    const int64_t done = last ? macs : accumulation.macs * own.reduction() / filters.reduction();
    macs -= done;
    builder.emit(kernel, origin, done);
    bias = {};  // has been added
  }
}

std::vector<Share> shares_of(const npu::Target& target, const npu::Window& window,
                             Mapping mapping) {
  const uint32_t channels = mapping.depthwise ? 1 : window.in_channels;
  if (fits(target, window, mapping))
    return {{0, window.kernel_height, 0, window.kernel_width, 0, channels}};
  const uint32_t lanes = mapping.depthwise ? 1 : target.macs;
  const uint32_t most = target.max_reduction / lanes * lanes;
  const uint32_t channels_each = std::min(channels, most);
  const uint32_t tap = npu::round_up(channels_each, lanes);
  DTR_CHECK(tap > 0 && tap <= most);  // empty tensors have been refused
  const uint32_t columns_each = std::min(window.kernel_width, most / tap);
  const uint32_t rows_each = columns_each < window.kernel_width
                                 ? 1
                                 : std::min(window.kernel_height, most / tap / columns_each);
  std::vector<Share> shares;
  for (uint32_t c = 0; c < channels; c += channels_each)
    for (uint32_t y = 0; y < window.kernel_height; y += rows_each)
      for (uint32_t x = 0; x < window.kernel_width; x += columns_each)
        shares.push_back({y, std::min(rows_each, window.kernel_height - y), x,
                          std::min(columns_each, window.kernel_width - x), c,
                          std::min(channels_each, channels - c)});
  return shares;
}

uint64_t accumulation_cycles(const npu::Target& target, const npu::Window& window,
                             Mapping mapping) {
  const std::vector<Share> shares = shares_of(target, window, mapping);
  if (shares.size() == 1)
    return target.call_host_cycles + cycles(target, kernel_of(window, mapping)).total;
  uint64_t sum = 0;
  for (const Share& share : shares) {
    const Kernel kernel =
        kernel_of(window_of(window, share, mapping.depthwise), {.depthwise = mapping.depthwise});
    sum += target.call_host_cycles + cycles(target, kernel).total;
  }
  return sum;
}

Mapping choose_mapping(const Machine& machine, const npu::Window& window, bool depthwise_only) {
  const npu::Target& target = machine.target;
  std::vector<Mapping> candidates;
  if (!depthwise_only) candidates.push_back({});
  if (!depthwise_only && machine.options.row_packing && window.dilation_width == 1)
    candidates.push_back({.packing = npu::Packing::kRows});
  if (depthwise_only || (window.in_channels == 1 && !machine.options.nxp_like()))
    candidates.push_back({.depthwise = true});
  const auto cost = [&](Mapping mapping) {
    const PackedSize size = mapping.depthwise ? packed_depthwise(window, target)
                                              : packed_conv2d(window, mapping.packing, target);
    return std::pair(accumulation_cycles(target, window, mapping), size.parameters + size.weights);
  };
  return *std::min_element(candidates.begin(), candidates.end(),
                           [&](Mapping a, Mapping b) { return cost(a) < cost(b); });
}

Kernel kernel_of(const npu::Window& window, Mapping mapping) {
  if (mapping.depthwise) return npu::Depthwise{.window = window};
  return npu::Conv2d{.window = window, .packing = mapping.packing};
}

uint64_t least_staged_bytes(const npu::Target& target, const npu::Window& window, Mapping mapping) {
  const std::vector<Share> shares = shares_of(target, window, mapping);
  const bool whole = shares.size() == 1;
  const npu::Window largest = whole ? window : window_of(window, shares.front(), mapping.depthwise);
  const PackedSize size =
      mapping.depthwise
          ? packed_depthwise(largest, target)
          : packed_conv2d(largest, whole ? mapping.packing : npu::Packing::kChannels, target);
  const uint64_t constants =
      (size.parameters + size.weights) /
          (mapping.depthwise ? 1 : npu::div_up(window.out_channels, target.pipelines)) +
      sizeof(Table);
  return constants + (whole ? 0 : sums_bytes(target, window));
}

}  // namespace dtr::neutron
