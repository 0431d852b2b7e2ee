#include "compiler/backends/neutron/call.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/ir/constant_pool.h"

namespace dtr::neutron {

std::string_view name(const Kernel& kernel) {
  return std::visit(
      [](const auto& command) { return std::string_view(npu::name(command.kOpcode)); }, kernel);
}

std::string_view text(npu::Limit limit) {
  switch (limit) {
    case npu::Limit::kArray:
      return "array";
    case npu::Limit::kWeightPort:
      return "weight port";
    case npu::Limit::kActivationPort:
      return "activation port";
    case npu::Limit::kWritePort:
      return "write port";
    case npu::Limit::kStart:
      return "start";
  }
  DTR_CHECK(false);
}

void share_equal_constants(std::span<LoweredGraph> graphs) {
  std::unordered_multimap<uint64_t, const ConstantBlock*> known;
  std::vector<std::byte> buffer, other_buffer;
  for (LoweredGraph& graph : graphs)
    for (Call& call : graph.calls) {
      if (call.constants.empty()) continue;
      const std::span<const std::byte> bytes = call.constants.bytes(buffer);
      const uint64_t hash = content_hash(bytes);
      const auto [first, last] = known.equal_range(hash);
      const auto same = std::find_if(first, last, [&](const auto& entry) {
        return std::ranges::equal(entry.second->bytes(other_buffer), bytes);
      });
      if (same == last)
        known.emplace(hash, &call.constants);
      else
        call.constants = *same->second;
    }
}

}  // namespace dtr::neutron
