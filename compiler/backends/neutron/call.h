// A partition between lowering and encoding: kernel calls whose addresses refer to storages, before
// memory is planned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/backends/neutron/constant_block.h"
#include "compiler/backends/neutron/layout/strided_layout.h"
#include "compiler/ir/graph.h"
#include "device/npu/cycles.h"
#include "device/npu/microcode.h"

namespace dtr::neutron {

template <class, class... Commands>
using VariantOf = std::variant<Commands...>;
// A kernel call with its arguments: one alternative for each kernel of the NPU.
using Kernel = VariantOf<void
#define DTR_NPU_KERNEL(type, function, opcode) , npu::type
#include "device/npu/commands.inc"
                         >;

// Until encoding, `region` of an address is a storage's index, or kOwnConstants: the call's own
// block of constants. `offset` counts from its start.
constexpr uint32_t kOwnConstants = UINT32_MAX;
// The same of weights that another call's block has (Call::weights); `offset` counts from the
// first of them.
constexpr uint32_t kSharedWeights = UINT32_MAX - 1;

// In Call::block_of and SharedWeights.
constexpr uint32_t kNoCall = UINT32_MAX;

// Memory that calls write and read: an operand of the delegate, or an intermediate value.
struct Storage {
  enum class Kind : uint8_t { kInterior, kInput, kOutput };
  Kind kind = Kind::kInterior;
  uint32_t operand = 0;  // kInput, kOutput: index into the graph's inputs or outputs
  uint32_t bytes = 0;
  std::string name;
};

// Weights of a call that other calls of the partition have too, byte by byte, as the steps of a
// recurrence do. Parameters and tables of such calls differ where their operands' scales do.
struct SharedWeights {
  // Which weights: whole calls with equal ones have the same set, and a part of a call has some
  // bytes of it. 0: no other call has them.
  uint32_t set = 0;
  uint64_t begin = 0, bytes = 0;
  // The earlier call whose block has the weights in flash, in place of this call's own block, and
  // the earlier call whose copy of them in SRAM this call reads. kNoCall: this call's own block has
  // them; they are copied for this call, behind its own block.
  uint32_t stored_by = kNoCall, staged_by = kNoCall;

  bool are_copied_apart() const { return stored_by != kNoCall && staged_by == kNoCall; }
};

// One kernel call of the partition, with its own constants.
struct Call {
  Kernel kernel;
  ConstantBlock
      constants;  // parameters, weights, table, constant operands: one block in flash, one copy
  Origin origin;
  int64_t macs = 0;
  // the name of the value, if the call is a Move that only changes a value's layout
  std::string rearranges = {};
  // The earlier call whose block of constants this call reads, which then stays in SRAM until here;
  // `constants` is empty. kNoCall: the call reads its own block.
  uint32_t block_of = kNoCall;
  SharedWeights weights = {};
};

// Where in the call's staged constants its weights begin that are copied apart, and the bytes of
// all that is staged for it.
inline uint32_t apart_offset(const Call& call) {
  return npu::round_up(static_cast<uint32_t>(call.constants.size()), npu::kAlignment);
}
inline uint64_t staged_bytes(const Call& call) {
  return call.weights.are_copied_apart() ? apart_offset(call) + call.weights.bytes
                                         : call.constants.size();
}

// Where a value of the graph is stored, and in which layout. `LoweredGraph::values` has
// std::nullopt for values that fusion removed.
struct Location {
  uint32_t storage = 0;
  uint32_t offset = 0;
  StridedLayout layout;
  uint32_t after_call = 0;  // the last call that writes it; inputs: 0
};

// A partition as calls in execution order, with the storages that they use.
struct LoweredGraph {
  std::vector<Storage> storages;
  std::vector<Call> calls;
  std::vector<std::optional<Location>> values;  // by value slot of the graph
};

// Lets calls of all graphs that have equal constants share one block.
void share_equal_constants(std::span<LoweredGraph> graphs);

enum class Access : uint8_t { kRead, kWrite };

// Without flags a kernel always uses its table.
template <class Command>
bool uses_table(const Command& command) {
  if constexpr (requires { command.flags; }) return (command.flags & npu::kWithTable) != 0;
  return true;
}

// Calls visit(address, access) for every address that the kernel uses; operands of the epilogue
// that a call does not use are left out. Which fields are operands follows from their names
// (device/npu/microcode.h).
template <class K, class Visit>
void visit_addresses(K& kernel, Visit visit) {
  if constexpr (std::is_same_v<std::remove_const_t<K>, Kernel>) {
    std::visit([&](auto& command) { visit_addresses(command, visit); }, kernel);
  } else {
    if constexpr (requires { kernel.input; }) visit(kernel.input, Access::kRead);
    if constexpr (requires { kernel.input_0; })
      visit(kernel.input_0, Access::kRead), visit(kernel.input_1, Access::kRead);
    if constexpr (requires { kernel.left; })
      visit(kernel.left, Access::kRead), visit(kernel.right, Access::kRead);
    if constexpr (requires { kernel.weights; }) visit(kernel.weights, Access::kRead);
    if constexpr (requires { kernel.parameters; }) visit(kernel.parameters, Access::kRead);
    if constexpr (requires { kernel.indices; }) visit(kernel.indices, Access::kRead);
    if constexpr (requires { kernel.table; })
      if (uses_table(kernel)) visit(kernel.table, Access::kRead);
    if constexpr (requires { kernel.mask; })
      if (kernel.mask_rows != 0) visit(kernel.mask, Access::kRead);
    if constexpr (requires { kernel.epilogue; }) {
      if ((kernel.epilogue.flags & npu::kWithTable) != 0)
        visit(kernel.epilogue.table, Access::kRead);
      if ((kernel.epilogue.flags & npu::kWithAdd) != 0)
        visit(kernel.epilogue.addend, Access::kRead);
      if ((kernel.epilogue.flags & npu::kFromSums) != 0) visit(kernel.epilogue.sums, Access::kRead);
    }
    visit(kernel.output, Access::kWrite);
  }
}

// Calls visit(address) for the weights of a kernel of the array; other kernels have none.
template <class K, class Visit>
void visit_weights(K& kernel, Visit visit) {
  std::visit(
      [&](auto& command) {
        if constexpr (requires { command.weights; }) visit(command.weights);
      },
      kernel);
}

// Busy cycles of the call and what limits it (device/npu/cycles.h).
inline npu::Cycles cycles(const npu::Target& target, const Kernel& kernel) {
  return std::visit([&](const auto& command) { return npu::cycles(target, command); }, kernel);
}
std::string_view name(const Kernel& kernel);  // "Conv2d"
std::string_view text(npu::Limit limit);      // "array", "weight port", …

}  // namespace dtr::neutron
