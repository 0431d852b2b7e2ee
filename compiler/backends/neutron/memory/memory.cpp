#include "compiler/backends/neutron/memory/memory.h"

#include <algorithm>

#include "compiler/backends/neutron/memory/trails.h"

namespace dtr::neutron {
namespace {

struct LiveRange {
  uint32_t first = UINT32_MAX, last = 0;
  void touch(uint32_t step) {
    first = std::min(first, step);
    last = std::max(last, step);
  }
};

// Operands that the output of the kernel may equal: their addresses in the command.
using Operands = std::vector<const npu::Address*>;
Operands overwritable(const Kernel& kernel) {
  const auto with_addend = [](const auto& command) {
    const bool legal = (command.epilogue.flags & npu::kWithAdd) != 0 &&
                       command.epilogue.addend_strides == command.window.out;
    return legal ? Operands{&command.epilogue.addend} : Operands{};
  };
  if (const auto* conv = std::get_if<npu::Conv2d>(&kernel)) return with_addend(*conv);
  if (const auto* depthwise = std::get_if<npu::Depthwise>(&kernel)) return with_addend(*depthwise);
  if (const auto* binary = std::get_if<npu::Binary>(&kernel)) {
    Operands inputs;
    if (npu::same_walk(binary->extent, binary->stride_0, binary->output_stride))
      inputs.push_back(&binary->input_0);
    if (npu::same_walk(binary->extent, binary->stride_1, binary->output_stride))
      inputs.push_back(&binary->input_1);
    return inputs;
  }
  if (const auto* lookup = std::get_if<npu::Lookup>(&kernel))
    return npu::same_walk(lookup->extent, lookup->input_stride, lookup->output_stride)
               ? Operands{&lookup->input}
               : Operands{};
  if (const auto* softmax = std::get_if<npu::Softmax>(&kernel)) return {&softmax->input};
  if (const auto* normalize = std::get_if<npu::Normalize>(&kernel)) return {&normalize->input};
  return {};
}

// True if another operand of the call reads the storage in another way than those in `alike`: it
// would read results.
bool reads_otherwise(const Kernel& kernel, uint32_t storage, const Operands& alike) {
  bool found = false;
  visit_addresses(kernel, [&](const npu::Address& address, Access access) {
    found |= access == Access::kRead && address.region == storage &&
             std::ranges::find(alike, &address) == alike.end();
  });
  return found;
}

// From call `first` to call `last` the operand is read only by calls that write the result over
// what they read: by one call, or by one for each stripe.
bool only_overwritten(const LoweredGraph& graph, uint32_t operand, uint32_t result, uint32_t first,
                      uint32_t last) {
  for (uint32_t step = first + 1; step <= last; ++step) {
    const Kernel& kernel = graph.calls[step].kernel;
    const npu::Address output =
        std::visit([](const auto& command) { return command.output; }, kernel);
    Operands alike = overwritable(kernel);
    std::erase_if(alike, [&](const npu::Address* at) { return at->offset != output.offset; });
    bool accesses = output.region == operand;
    visit_addresses(kernel, [&](const npu::Address& address, Access) {
      accesses |= address.region == operand;
    });
    if (accesses && (output.region != result || reads_otherwise(kernel, operand, alike)))
      return false;
  }
  return true;
}

}  // namespace

uint64_t MemoryPlan::peak() const {
  return live_bytes.empty() ? 0 : *std::max_element(live_bytes.begin(), live_bytes.end());
}

MemoryPlan plan_memory(const LoweredGraph& graph) {
  std::vector<LiveRange> lives(graph.storages.size());
  for (uint32_t step = 0; step < graph.calls.size(); ++step)
    visit_addresses(graph.calls[step].kernel, [&](const npu::Address& address, Access) {
      if (address.region != kOwnConstants) lives[address.region].touch(step);
    });
  const auto steps = static_cast<uint32_t>(graph.calls.size());
  for (size_t i = 0; i < lives.size(); ++i) {
    if (graph.storages[i].kind == Storage::Kind::kInput) lives[i].touch(0);
    if (graph.storages[i].kind == Storage::Kind::kOutput)
      lives[i].touch(steps == 0 ? 0 : steps - 1);
  }

  MemoryPlan plan;
  constexpr uint32_t kNone = UINT32_MAX;
  plan.buffer_of.assign(graph.storages.size(), kNone);
  const auto add_buffer = [&](uint32_t storage) {
    const Storage& of = graph.storages[storage];
    Buffer buffer{of.bytes, lives[storage].first, lives[storage].last, std::nullopt, of.name};
    if (of.kind != Storage::Kind::kInterior) buffer.operand_storage = storage;
    plan.buffer_of[storage] = static_cast<uint32_t>(plan.buffers.size());
    plan.buffers.push_back(std::move(buffer));
  };
  for (uint32_t storage = 0; storage < graph.storages.size(); ++storage)
    if (graph.storages[storage].kind == Storage::Kind::kInput) add_buffer(storage);
  for (uint32_t step = 0; step < steps; ++step) {
    const Kernel& kernel = graph.calls[step].kernel;
    const npu::Address output =
        std::visit([](const auto& command) { return command.output; }, kernel);
    if (plan.buffer_of[output.region] != kNone)
      continue;  // a further part of a tensor that is written by several calls
    const Storage& result = graph.storages[output.region];
    Operands alike = overwritable(kernel);
    std::erase_if(alike,
                  [&](const npu::Address* operand) { return operand->offset != output.offset; });
    for (const npu::Address* at : alike) {
      const npu::Address operand = *at;
      if (operand.region == kOwnConstants || operand.region == output.region ||
          reads_otherwise(kernel, operand.region, alike))
        continue;
      const Storage& of = graph.storages[operand.region];
      if (of.kind != Storage::Kind::kInterior || of.bytes != result.bytes ||
          plan.buffer_of[operand.region] == kNone ||
          !only_overwritten(graph, operand.region, output.region, step, lives[operand.region].last))
        continue;
      const uint32_t shared = plan.buffer_of[operand.region];
      plan.buffer_of[output.region] = shared;
      plan.buffers[shared].last_step = lives[output.region].last;
      if (result.kind == Storage::Kind::kOutput)
        plan.buffers[shared].operand_storage = output.region;
      break;
    }
    if (plan.buffer_of[output.region] == kNone) add_buffer(output.region);
  }

  std::vector<int64_t> change(steps + 1, 0);
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.first_step == UINT32_MAX) continue;
    change[buffer.first_step] += buffer.bytes;
    if (buffer.last_step + 1 <= steps) change[buffer.last_step + 1] -= buffer.bytes;
  }
  plan.trails = find_trails(graph, plan);
  std::vector<ArenaBuffer> arena;
  for (const Buffer& buffer : plan.buffers)
    arena.push_back({.size = buffer.bytes,
                     .first = static_cast<int32_t>(buffer.first_step),
                     .last = static_cast<int32_t>(buffer.last_step)});
  for (const TrailSaving& saving : trail_savings(arena, plan.trails)) {
    change[static_cast<size_t>(saving.first)] -= saving.bytes;
    change[static_cast<size_t>(saving.last) + 1] += saving.bytes;
  }
  int64_t live = 0;
  for (uint32_t step = 0; step < steps; ++step)
    plan.live_bytes.push_back(static_cast<uint64_t>(live += change[step]));
  return plan;
}

}  // namespace dtr::neutron
