// Splits calls by output channels. Groups of channels are independent, and parameters and weights
// are stored group by group: a part of a call uses a slice of its constants and writes its channels
// in place in the result.
#include <algorithm>
#include <cstring>

#include "compiler/backends/neutron/lowering/weights.h"
#include "compiler/backends/neutron/schedule/schedule.h"

namespace dtr::neutron {
namespace {

const npu::Conv2d* splittable(const Call& call) {
  const auto* conv = std::get_if<npu::Conv2d>(&call.kernel);
  if (conv == nullptr || conv->parameters.region != kOwnConstants ||
      conv->input.region == kOwnConstants)
    return nullptr;
  const bool constant_addend =
      (conv->epilogue.flags & npu::kWithAdd) != 0 && conv->epilogue.addend.region == kOwnConstants;
  return constant_addend ? nullptr : conv;
}

// Part `part` of `parts` of a call that splittable accepts.
Call slice(const Call& call, uint32_t part, uint32_t parts, const npu::Target& target) {
  const npu::Conv2d& whole = std::get<npu::Conv2d>(call.kernel);
  const uint32_t groups = npu::div_up(whole.window.out_channels, target.pipelines);
  const auto bound = [&](uint32_t index) {
    return static_cast<uint32_t>(uint64_t{groups} * index / parts);
  };
  const uint32_t first = bound(part) * target.pipelines;
  const uint32_t last = std::min(whole.window.out_channels, bound(part + 1) * target.pipelines);
  const uint32_t padded = (bound(part + 1) - bound(part)) * target.pipelines;
  const uint64_t group_bytes =
      npu::reduction_steps(target, whole.window, whole.packing) * target.pipelines * target.macs;

  Call made{.kernel = whole, .origin = call.origin};
  npu::Conv2d& conv = std::get<npu::Conv2d>(made.kernel);
  conv.window.out_channels = last - first;
  const uint32_t sums =
      first * 4 * whole.window.batch * whole.window.out_height * whole.window.out_width;
  conv.output.offset += (whole.epilogue.flags & npu::kToSums) != 0 ? sums : first;
  conv.epilogue.addend.offset += first;
  conv.epilogue.sums.offset += sums;
  const auto append = [&](uint64_t offset, uint64_t bytes) {
    const auto begin = call.constants.begin() + static_cast<ptrdiff_t>(offset);
    made.constants.insert(made.constants.end(), begin, begin + static_cast<ptrdiff_t>(bytes));
  };
  const auto align = [&] {
    made.constants.resize(
        npu::round_up(static_cast<uint32_t>(made.constants.size()), npu::kAlignment));
  };
  const uint32_t all = groups * target.pipelines;
  conv.parameters.offset = 0;
  for (uint32_t array = 0; array < 3; ++array)
    append(whole.parameters.offset + 4ull * (array * all + first), 4ull * padded);
  align();
  conv.weights.offset = static_cast<uint32_t>(made.constants.size());
  append(whole.weights.offset + bound(part) * group_bytes,
         (bound(part + 1) - bound(part)) * group_bytes);
  align();
  if ((conv.epilogue.flags & npu::kWithTable) != 0) {
    conv.epilogue.table.offset = static_cast<uint32_t>(made.constants.size());
    append(whole.epilogue.table.offset, 256);
  }
  made.macs = call.macs / whole.window.out_channels * (last - first);
  if (made.origin.parts == 1) {
    made.origin.part = part;
    made.origin.parts = parts;
  }
  return made;
}

// Parts that make the program shortest; 1: leave the call whole.
uint32_t best_parts(const npu::Target& target, const Call& call, uint64_t stall) {
  const npu::Conv2d* conv = splittable(call);
  if (conv == nullptr || stall == 0) return 1;
  const uint32_t groups = npu::div_up(conv->window.out_channels, target.pipelines);
  const uint64_t busy = npu::cycles(target, *conv).total;
  const uint64_t price = target.call_host_cycles + target.call_npu_cycles +
                         target.copy_host_cycles + target.copy_setup_cycles;
  uint32_t best = 1;
  int64_t best_gain = 0;
  for (uint32_t parts = 2; parts <= std::min(groups, 8u); ++parts) {
    // All parts but the last compute while constants still arrive, as far as the call waits for
    // them at all.
    const uint64_t hidden = std::min(stall, (busy + target.call_host_cycles) / parts * (parts - 1));
    const int64_t gain = static_cast<int64_t>(hidden) - static_cast<int64_t>((parts - 1) * price);
    if (gain <= best_gain) continue;
    best = parts;
    best_gain = gain;
  }
  return best;
}

}  // namespace

void split_calls(const Machine& machine, LoweredGraph& graph,
                 std::span<const uint64_t> live_bytes) {
  const npu::Target& target = machine.target;
  std::vector<uint32_t> parts(graph.calls.size(), 1);
  // Waiting times if every copy ran as early as possible.
  Schedule earliest{std::vector<uint32_t>(graph.calls.size(), 0)};
  for (size_t i = 0; i < graph.calls.size(); ++i)
    if (graph.calls[i].constants.empty()) earliest.start[i] = kNoCopy;
  const Timeline timeline = simulate(target, graph.calls, earliest);
  bool changed = false;
  for (size_t i = 0; i < graph.calls.size(); ++i) {
    const Call& call = graph.calls[i];
    if (machine.options.prefetch_calls > 0 && !machine.options.nxp_like())
      parts[i] = best_parts(target, call, timeline.stalls[i]);
    const npu::Conv2d* conv = splittable(call);
    if (conv != nullptr && live_bytes[i] < target.sram_bytes) {
      const uint64_t room = target.sram_bytes - live_bytes[i];
      const uint32_t groups = npu::div_up(conv->window.out_channels, target.pipelines);
      while (call.constants.size() / parts[i] + 512 > room && parts[i] < groups) ++parts[i];
    }
    changed |= parts[i] > 1;
  }
  if (!changed) return;

  std::vector<uint32_t> last_part(graph.calls.size());
  std::vector<Call> calls;
  for (size_t i = 0; i < graph.calls.size(); ++i) {
    if (parts[i] == 1) {
      calls.push_back(std::move(graph.calls[i]));
    } else {
      for (uint32_t part = 0; part < parts[i]; ++part)
        calls.push_back(slice(graph.calls[i], part, parts[i], target));
    }
    last_part[i] = static_cast<uint32_t>(calls.size() - 1);
  }
  graph.calls = std::move(calls);
  for (std::optional<Location>& value : graph.values)
    if (value && value->after_call < last_part.size())
      value->after_call = last_part[value->after_call];
}

}  // namespace dtr::neutron
