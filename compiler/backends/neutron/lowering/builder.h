// Builds the calls of a partition: allocates storages, tracks the layout and address of each value,
// and adds copies where a kernel needs another layout.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "compiler/backends/neutron/call.h"
#include "compiler/backends/neutron/conditions.h"
#include "compiler/backends/neutron/lowering/concatenation.h"

namespace dtr::neutron {

// A value in memory.
struct Placed {
  npu::Address address;  // of the element of index 0
  StridedLayout layout;
};

// A field of a command has 32 bits, an extent of the IR 64.
constexpr uint32_t word(int64_t value) { return static_cast<uint32_t>(value); }

class Builder {
 public:
  // `join`: computes operands of concatenations in place where possible
  // (`lowering/concatenation.h`).
  Builder(const Machine& machine, const Module& module, const Graph& graph, bool join = true);

  const Machine& machine() const { return machine_; }
  const npu::Target& target() const { return machine_.target; }
  const Module& module() const { return module_; }
  const Graph& graph() const { return graph_; }

  // The current layout of a value, perhaps with gaps between elements; constants are contiguous.
  StridedLayout layout_of(ValueId value) const;
  // The same without gaps: the dense layout into which the value is copied with the least effort.
  StridedLayout dense_layout_of(ValueId value) const { return compacted(layout_of(value)); }
  // The current layout and address of a value. A constant becomes part of the block of the call
  // being built.
  Placed placed(ValueId value);

  // Address of a value in exactly that layout, for the call being built. Emits a Move before the
  // call if the value has another layout (once for each layout); a constant becomes part of the
  // call's block.
  npu::Address read(ValueId value, const StridedLayout& wanted);
  // Appends bytes to the block of the call being built, 16-byte aligned.
  npu::Address constant(std::span<const std::byte> bytes);

  // Address at which the call being built writes a value in that layout, which is dense or that of
  // its planned subview. A value in the layout of its subview is written into the concatenation.
  npu::Address define(ValueId value, StridedLayout layout);
  // The layout in which a reader needs the value (`lowering/readers.h`). Returns nullopt under
  // NeutronSchedule::kNxpLike, which emits every transposition as its own call.
  std::optional<StridedLayout> preferred_layout(ValueId value) const;
  // The layout for a call that reads the values `read` and can write any layout: that of the
  // planned subview if the call may write there, else the preferred one of a reader, else `own`.
  StridedLayout layout_to_write(ValueId value, StridedLayout own,
                                std::span<const ValueId> read) const;
  // The value's planned subview of a concatenation, or nullptr.
  const Subview* planned_subview(ValueId value) const;
  // True if writing `part` in place cannot overwrite bytes that a call with the operands `read`
  // still reads.
  bool may_write(const Subview& part, std::span<const ValueId> read) const;
  // True if the value is in its planned subview.
  bool in_place(ValueId value) const;
  // True if an operand of this concatenation has been computed in place already.
  bool started(ValueId whole) const { return wholes_.contains(whole); }
  // Makes `value` another name of `of`, at the same address, without a call.
  void alias(ValueId value, ValueId of);
  // Sets the address and layout of `value`, which is in an existing storage.
  void place(ValueId value, const Placed& at);
  // Allocates storage that holds no value of the graph.
  npu::Address temporary(uint32_t bytes, std::string name);

  // Appends the call being built, with its block of constants.
  void emit(Kernel kernel, Origin origin, int64_t macs = 0);
  // Emits Move calls that copy `from` to `to`: one, or two if their layouts cannot be copied in
  // one.
  void copy(npu::Address from, const StridedLayout& from_layout, npu::Address to,
            const StridedLayout& to_layout, int64_t elements, const Origin& origin);

  // Ends an op after its last call: from here on other ops can read its results.
  void end_op();
  // Assigns the outputs of the graph to operands of the delegate, with a copy for values that are
  // elsewhere. Returns everything that was built.
  LoweredGraph finish();

 private:
  // Copies a value into another layout.
  void rearrange(ValueId value, npu::Address from, const StridedLayout& from_layout,
                 npu::Address to, const StridedLayout& to_layout);
  const Location& location(ValueId value) const;
  Origin origin_of(ValueId value) const;
  uint32_t add_storage(Storage storage);
  uint32_t storage_of(ValueId whole);

  const Machine& machine_;
  const Module& module_;
  const Graph& graph_;
  LoweredGraph built_;
  std::map<ValueId, Subview> subviews_;
  std::map<ValueId, uint32_t> wholes_;  // storages of concatenations with parts in place
  std::vector<ValueId> defined_;        // by the op being lowered
  std::vector<std::byte> block_;        // constants of the call being built
  std::map<std::pair<uint32_t, std::vector<int64_t>>, npu::Address>
      rearranged_;  // by value and order
};

inline uint32_t bytes_of(const Type& type) { return static_cast<uint32_t>(type.bytes()); }

}  // namespace dtr::neutron
