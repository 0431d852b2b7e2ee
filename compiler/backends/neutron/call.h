// A partition between lowering and encoding: kernel calls whose addresses name storages, not yet places in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "compiler/backends/neutron/layout/order.h"
#include "compiler/ir/graph.h"
#include "device/npu/cycles.h"
#include "device/npu/microcode.h"

namespace dtr::neutron {

using Kernel = std::variant<npu::Conv2d, npu::Depthwise, npu::Pool, npu::Binary, npu::Lookup, npu::Softmax, npu::Move, npu::Fill,
                            npu::Reduce, npu::Resize, npu::Matmul, npu::Normalize, npu::Gather>;

// Until encoding, `region` of an address is a storage's index, or kOwnConstants: the call's own block of constants. `offset` counts
// from its start.
constexpr uint32_t kOwnConstants = UINT32_MAX;

// Memory that calls write and read: an operand of the delegate or interior.
struct Storage {
  enum class Kind : uint8_t { kInterior, kInput, kOutput };
  Kind kind = Kind::kInterior;
  uint32_t operand = 0;  // kInput, kOutput: index into the graph's inputs or outputs
  uint32_t bytes = 0;
  std::string name;
};

struct Call {
  Kernel kernel;
  std::vector<std::byte> constants;  // parameters, weights, table, constant operands: one block in flash, one copy
  Origin origin;
  int64_t macs = 0;
  std::string rearranges = {};  // a Move that brings a value into another order: the value's name
};

// A value of the graph, where and how it lies when it exists; std::nullopt in `LoweredGraph::values` for values lost to fusion.
struct Location {
  uint32_t storage = 0;
  uint32_t offset = 0;
  Order order;
  uint32_t after_call = 0;  // the call that completes it; inputs: 0
};

struct LoweredGraph {
  std::vector<Storage> storages;
  std::vector<Call> calls;
  std::vector<std::optional<Location>> values;  // by value slot of the graph
};

enum class Access : uint8_t { kRead, kWrite };

// Calls visit(address, access) for every address that the kernel uses. Fused operands that a call does not use are left out.
template <class K, class Visit>
void visit_addresses(K& kernel, Visit visit) {
  using Plain = std::remove_const_t<K>;
  if constexpr (std::is_same_v<Plain, Kernel>) {
    std::visit([&](auto& command) { visit_addresses(command, visit); }, kernel);
  } else if constexpr (std::is_same_v<Plain, npu::Fill>) {
    visit(kernel.output, Access::kWrite);
  } else if constexpr (std::is_same_v<Plain, npu::Binary>) {
    visit(kernel.input_0, Access::kRead);
    visit(kernel.input_1, Access::kRead);
    visit(kernel.output, Access::kWrite);
  } else if constexpr (std::is_same_v<Plain, npu::Matmul>) {
    visit(kernel.left, Access::kRead);
    visit(kernel.right, Access::kRead);
    if ((kernel.flags & npu::kWithTable) != 0) visit(kernel.table, Access::kRead);
    visit(kernel.output, Access::kWrite);
  } else {
    visit(kernel.input, Access::kRead);
    visit(kernel.output, Access::kWrite);
    if constexpr (std::is_same_v<Plain, npu::Conv2d> || std::is_same_v<Plain, npu::Depthwise>) {
      visit(kernel.weights, Access::kRead);
      visit(kernel.parameters, Access::kRead);
      if ((kernel.epilogue.flags & npu::kWithTable) != 0) visit(kernel.epilogue.table, Access::kRead);
      if ((kernel.epilogue.flags & npu::kWithAdd) != 0) visit(kernel.epilogue.addend, Access::kRead);
      if ((kernel.epilogue.flags & npu::kFromSums) != 0) visit(kernel.epilogue.sums, Access::kRead);
    } else if constexpr (std::is_same_v<Plain, npu::Lookup>) {
      visit(kernel.table, Access::kRead);
    } else if constexpr (std::is_same_v<Plain, npu::Softmax>) {
      if (kernel.mask_rows != 0) visit(kernel.mask, Access::kRead);
    } else if constexpr (std::is_same_v<Plain, npu::Gather>) {
      visit(kernel.indices, Access::kRead);
    } else if constexpr (std::is_same_v<Plain, npu::Normalize>) {
      visit(kernel.parameters, Access::kRead);
    }
  }
}

inline npu::Cycles cycles(const npu::Target& target, const Kernel& kernel) {
  return std::visit([&](const auto& command) { return npu::cycles(target, command); }, kernel);
}
std::string_view name(const Kernel& kernel);  // "Conv2d"
std::string_view text(npu::Limit limit);      // "array", "weight port", …

}  // namespace dtr::neutron
