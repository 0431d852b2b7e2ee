// Splits calls by output channels. Groups of channels are independent, and parameters and weights
// are stored group by group: a part of a call uses a slice of its constants and writes its channels
// in place in the result.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "compiler/backends/neutron/lowering/weights.h"
#include "compiler/backends/neutron/schedule/schedule.h"

namespace dtr::neutron {
namespace {

// The window of a call that can be split by output channels, and what else the split changes.
struct Splittable {
  const npu::Window* window = nullptr;
  const npu::Epilogue* epilogue = nullptr;
  npu::Address parameters, weights;
  uint64_t group_bytes = 0;  // of the weights
};

template <class Command>
bool reads_own_constants(const Command& command) {
  const bool constant_addend = (command.epilogue.flags & npu::kWithAdd) != 0 &&
                               command.epilogue.addend.region == kOwnConstants;
  return command.parameters.region == kOwnConstants && command.input.region != kOwnConstants &&
         !constant_addend;
}

std::optional<Splittable> splittable(const npu::Target& target, const Call& call) {
  if (call.constants.empty()) return std::nullopt;
  if (const auto* conv = std::get_if<npu::Conv2d>(&call.kernel)) {
    if (!reads_own_constants(*conv)) return std::nullopt;
    return Splittable{
        &conv->window, &conv->epilogue, conv->parameters, conv->weights,
        npu::reduction_steps(target, conv->window, conv->packing) * target.pipelines * target.macs};
  }
  // With one output channel for each input channel, parts of the operand belong to parts of the
  // result.
  const auto* depthwise = std::get_if<npu::Depthwise>(&call.kernel);
  if (depthwise == nullptr || !reads_own_constants(*depthwise) ||
      depthwise->window.in_channels != depthwise->window.out_channels)
    return std::nullopt;
  const npu::Window& window = depthwise->window;
  return Splittable{&window, &depthwise->epilogue, depthwise->parameters, depthwise->weights,
                    uint64_t{window.kernel_height} * window.kernel_width * target.pipelines};
}

// The first group of part `index` of `parts`.
uint32_t group_at(uint32_t groups, uint32_t index, uint32_t parts) {
  return static_cast<uint32_t>(uint64_t{groups} * index / parts);
}

// Part `part` of `parts` of a call that splittable accepts.
Call slice(const Call& call, uint32_t part, uint32_t parts, const npu::Target& target) {
  const Splittable whole = *splittable(target, call);
  const uint32_t groups = npu::div_up(whole.window->out_channels, target.pipelines);
  const uint32_t first_group = group_at(groups, part, parts);
  const uint32_t end_group = group_at(groups, part + 1, parts);
  const uint32_t first = first_group * target.pipelines;
  const uint32_t last = std::min(whole.window->out_channels, end_group * target.pipelines);
  const uint32_t padded = (end_group - first_group) * target.pipelines;

  Call made{.kernel = call.kernel, .origin = call.origin};
  std::vector<ConstantBlock::Piece> pieces;
  size_t block_bytes = 0;
  const auto append = [&](uint64_t offset, uint64_t bytes) {
    pieces.push_back({.from = offset, .bytes = bytes, .at = block_bytes});
    block_bytes += bytes;
  };
  const auto align = [&] {
    block_bytes = npu::round_up(static_cast<uint32_t>(block_bytes), npu::kAlignment);
  };
  const uint32_t all = groups * target.pipelines;
  for (uint32_t array = 0; array < 3; ++array)
    append(whole.parameters.offset + 4ull * (array * all + first), 4ull * padded);
  align();
  const auto weights_offset = static_cast<uint32_t>(block_bytes);
  append(whole.weights.offset + first_group * whole.group_bytes,
         (end_group - first_group) * whole.group_bytes);
  align();
  const auto table_offset = static_cast<uint32_t>(block_bytes);
  if ((whole.epilogue->flags & npu::kWithTable) != 0) append(whole.epilogue->table.offset, 256);
  made.constants = call.constants.with(pieces, block_bytes);
  if (call.weights.set != 0)
    made.weights = {.set = call.weights.set,
                    .begin = call.weights.begin + first_group * whole.group_bytes,
                    .bytes = (end_group - first_group) * whole.group_bytes};

  const auto narrow = [&](auto& command) {
    const uint32_t sums =
        first * 4 * command.window.batch * command.window.out_height * command.window.out_width;
    command.window.out_channels = last - first;
    command.output.offset += (command.epilogue.flags & npu::kToSums) != 0 ? sums : first;
    command.epilogue.addend.offset += first;
    command.epilogue.sums.offset += sums;
    command.parameters.offset = 0;
    command.weights.offset = weights_offset;
    if ((command.epilogue.flags & npu::kWithTable) != 0)
      command.epilogue.table.offset = table_offset;
  };
  if (auto* conv = std::get_if<npu::Conv2d>(&made.kernel)) narrow(*conv);
  if (auto* depthwise = std::get_if<npu::Depthwise>(&made.kernel)) {
    narrow(*depthwise);
    depthwise->window.in_channels = last - first;
    depthwise->input.offset += first;
  }
  const int64_t channels = whole.window->out_channels;
  made.macs = call.macs * last / channels - call.macs * first / channels;
  if (made.origin.parts == 1) {
    made.origin.part = part;
    made.origin.parts = parts;
  }
  return made;
}

// Parts that make the program shortest; 1: leave the call whole.
uint32_t best_parts(const npu::Target& target, const Call& call, uint64_t stall) {
  const auto* conv = std::get_if<npu::Conv2d>(&call.kernel);
  if (conv == nullptr || !splittable(target, call) || stall == 0) return 1;
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

uint32_t most_slices(const npu::Target& target, const Call& call) {
  const std::optional<Splittable> whole = splittable(target, call);
  return whole ? npu::div_up(whole->window->out_channels, target.pipelines) : 1;
}

uint64_t slice_bytes(const npu::Target& target, const Call& call, uint32_t parts) {
  const std::optional<Splittable> whole = splittable(target, call);
  if (parts == 1 || !whole) return call.constants.size();
  const uint64_t groups =
      npu::div_up(npu::div_up(whole->window->out_channels, target.pipelines), parts);
  const auto aligned = [](uint64_t bytes) {
    return (bytes + npu::kAlignment - 1) / npu::kAlignment * npu::kAlignment;
  };
  const uint64_t table = (whole->epilogue->flags & npu::kWithTable) != 0 ? 256 : 0;
  return aligned(12 * groups * target.pipelines) + aligned(groups * whole->group_bytes) + table;
}

std::vector<uint32_t> split_into(const npu::Target& target, LoweredGraph& graph,
                                 std::span<const uint32_t> parts) {
  std::vector<uint32_t> part_of;
  std::vector<uint32_t> last_part(graph.calls.size());
  std::vector<Call> calls;
  for (size_t i = 0; i < graph.calls.size(); ++i) {
    if (parts[i] == 1) {
      calls.push_back(std::move(graph.calls[i]));
      uint32_t& block = calls.back().block_of;
      if (block != kNoCall) block = last_part[block];
    } else {
      for (uint32_t part = 0; part < parts[i]; ++part)
        calls.push_back(slice(graph.calls[i], part, parts[i], target));
    }
    last_part[i] = static_cast<uint32_t>(calls.size() - 1);
    part_of.resize(calls.size(), static_cast<uint32_t>(i));
  }
  graph.calls = std::move(calls);
  for (std::optional<Location>& value : graph.values)
    if (value && value->after_call < last_part.size())
      value->after_call = last_part[value->after_call];
  return part_of;
}

std::vector<uint32_t> split_calls(const Machine& machine, LoweredGraph& graph,
                                  std::span<const uint64_t> live_bytes,
                                  std::span<const uint32_t> shares, SplitShared split_shared) {
  const npu::Target& target = machine.target;
  std::vector<uint32_t> parts(graph.calls.size(), 1);
  // Waiting times if every copy ran as early as possible.
  Schedule earliest{std::vector<uint32_t>(graph.calls.size(), 0)};
  std::vector<bool> shared(graph.calls.size(), false);
  for (size_t i = 0; i < graph.calls.size(); ++i) {
    if (graph.calls[i].constants.empty()) earliest.start[i] = kNoCopy;
    if (graph.calls[i].block_of != kNoCall) shared[graph.calls[i].block_of] = true;
  }
  const Timeline timeline = simulate(target, graph.calls, earliest);
  for (size_t i = 0; i < graph.calls.size(); ++i) {
    const Call& call = graph.calls[i];
    // All readers of a shared block would have to be split alike.
    if (shared[i]) continue;
    const bool may_save_time =
        call.weights.set == 0 || split_shared == SplitShared::kWhereItSavesTime;
    if (may_save_time && machine.options.prefetch_calls > 0 && !machine.options.nxp_like())
      parts[i] = best_parts(target, call, timeline.stalls[i]);
    if (live_bytes[i] < target.sram_bytes) {
      const uint64_t room = (target.sram_bytes - live_bytes[i]) / (shares.empty() ? 1 : shares[i]);
      const uint32_t most = most_slices(target, call);
      while (parts[i] < most && slice_bytes(target, call, parts[i]) > room) ++parts[i];
    }
  }
  // Parts of equal weights are equal if these are split alike.
  std::map<uint32_t, uint32_t> most_parts;
  for (size_t i = 0; i < graph.calls.size(); ++i)
    if (const uint32_t set = graph.calls[i].weights.set; set != 0)
      most_parts[set] = std::max(most_parts[set], parts[i]);
  for (size_t i = 0; i < graph.calls.size(); ++i)
    if (const uint32_t set = graph.calls[i].weights.set; set != 0 && !shared[i])
      parts[i] = std::max(parts[i], std::min(most_parts[set], most_slices(target, graph.calls[i])));
  return split_into(target, graph, parts);
}

}  // namespace dtr::neutron
