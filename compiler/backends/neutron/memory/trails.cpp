#include "compiler/backends/neutron/memory/trails.h"

#include <algorithm>

namespace dtr::neutron {
namespace {

// What one call does to one buffer.
struct Touch {
  uint32_t step = 0;
  ByteRange read, write;
};

std::vector<std::vector<Touch>> touches_by_buffer(const LoweredGraph& graph,
                                                  const MemoryPlan& plan) {
  std::vector<std::vector<Touch>> touches(plan.buffers.size());
  for (uint32_t step = 0; step < graph.calls.size(); ++step)
    visit_addresses(graph.calls[step].kernel, [&](const npu::Address& address, Access access) {
      if (address.region == kOwnConstants) return;
      std::vector<Touch>& of = touches[plan.buffer_of[address.region]];
      if (of.empty() || of.back().step != step) of.push_back({.step = step});
      (access == Access::kRead ? of.back().read : of.back().write)
          .include(
              footprint(graph.calls[step].kernel, address, graph.storages[address.region].bytes));
    });
  return touches;
}

// The lag of the pair; std::nullopt if the operand is written once the result has begun.
std::optional<int64_t> lag_of(std::span<const Touch> operand, std::span<const Touch> result) {
  const uint32_t begin = result.front().step;
  auto at = std::ranges::lower_bound(operand, begin, {}, &Touch::step);
  TrailLag lag;
  auto write = result.begin();
  for (; at != operand.end(); ++at) {
    if (!at->write.empty()) return std::nullopt;
    for (; write != result.end() && write->step < at->step; ++write) lag.add_call({}, write->write);
    const bool same = write != result.end() && write->step == at->step;
    lag.add_call(at->read, same ? write->write : ByteRange{});
    if (same) ++write;
  }
  return lag.lag();
}

}  // namespace

void TrailLag::add_call(ByteRange read, ByteRange write) {
  calls_.emplace_back(read.empty() ? UINT64_MAX : read.begin, write.empty() ? 0 : write.end);
}

int64_t TrailLag::lag() const {
  int64_t lag = INT64_MIN;
  uint64_t read = UINT64_MAX;  // the first byte that this call or a later one reads
  for (size_t i = calls_.size(); i-- > 0;) {
    read = std::min(read, calls_[i].first);
    if (read != UINT64_MAX && calls_[i].second != 0)
      lag = std::max(lag, static_cast<int64_t>(calls_[i].second) - static_cast<int64_t>(read));
  }
  return lag;
}

std::vector<ArenaTrail> find_trails(const LoweredGraph& graph, const MemoryPlan& plan) {
  const std::vector<std::vector<Touch>> touches = touches_by_buffer(graph, plan);
  std::vector<uint32_t> order;  // by first step
  for (uint32_t i = 0; i < plan.buffers.size(); ++i)
    if (!touches[i].empty()) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](uint32_t i) { return plan.buffers[i].first_step; });
  std::vector<ArenaTrail> trails;
  std::vector<uint32_t> live;
  for (const uint32_t result : order) {
    const Buffer& to = plan.buffers[result];
    std::erase_if(live, [&](uint32_t i) { return plan.buffers[i].last_step < to.first_step; });
    const bool is_written_first =
        touches[result].front().step == to.first_step && touches[result].front().read.empty();
    for (const uint32_t operand : live) {
      const Buffer& from = plan.buffers[operand];
      const bool is_output = from.operand_storage &&
                             graph.storages[*from.operand_storage].kind == Storage::Kind::kOutput;
      if (!is_written_first || is_output || from.last_step > to.last_step) continue;
      const std::optional<int64_t> lag = lag_of(touches[operand], touches[result]);
      if (lag && trail_overlap(from.bytes, to.bytes, *lag) > 0)
        trails.push_back({operand, result, *lag});
    }
    live.push_back(result);
  }
  return trails;
}

}  // namespace dtr::neutron
