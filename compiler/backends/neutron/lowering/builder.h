// Builds the list of calls of a partition: storages, where values lie, and copies into another
// order where a kernel needs one.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "compiler/backends/neutron/call.h"
#include "compiler/backends/neutron/conditions.h"
#include "compiler/backends/neutron/lowering/concatenation.h"

namespace dtr::neutron {

struct Placed {
  npu::Address address;  // of the element of index 0
  StridedLayout layout;
};

class Builder {
 public:
  // `join`: operands of concatenations are computed in place where they can be
  // (`lowering/concatenation.h`).
  Builder(const Machine& machine, const Module& module, const Graph& graph, bool join = true);

  const Machine& machine() const { return machine_; }
  const npu::Target& target() const { return machine_.target; }
  const Module& module() const { return module_; }
  const Graph& graph() const { return graph_; }

  // Physical order of a value as it lies, perhaps with gaps between elements; constants are
  // contiguous.
  StridedLayout layout_of(ValueId value) const;
  // The same without gaps: the dense order in which it is read with the least effort.
  StridedLayout dense_layout_of(ValueId value) const { return compacted(layout_of(value)); }
  // A value as it lies, and where. A constant becomes part of the block of the call being built.
  Placed placed(ValueId value);

  // Address of a value in exactly that order, for the call being built. Emits a Move before it if
  // the value lies otherwise (once for each order); a constant becomes part of the call's block.
  npu::Address read(ValueId value, const StridedLayout& wanted);
  // Appends bytes to the block of the call being built, 16-byte aligned.
  npu::Address constant(std::span<const std::byte> bytes);

  // Storage for a value that the call being built writes in that order: dense, or that of its
  // planned part. A part of a concatenation whose planned order it is lies there.
  npu::Address define(ValueId value, StridedLayout layout);
  // The order in which a reader asks for the value (`lowering/readers.h`). Where the schedule lists
  // transpositions as calls of their own, nobody does.
  std::optional<StridedLayout> preferred_layout(ValueId value) const;
  // The order for a call that reads the values `read` and can write any: that of the planned part,
  // if the call may write there, that in which a reader asks for it, else `own`.
  StridedLayout layout_to_write(ValueId value, StridedLayout own,
                                std::span<const ValueId> read) const;
  // Where a concatenation wants the value, or nullptr.
  const Subview* planned_subview(ValueId value) const;
  // What lies where `part` will, and next to it, has nothing in common with it: calls that read
  // these values may write the part.
  bool may_write(const Subview& part, std::span<const ValueId> read) const;
  // The value lies where its part is planned.
  bool in_place(ValueId value) const;
  // Parts of this concatenation have been computed already.
  bool started(ValueId whole) const { return wholes_.contains(whole); }
  // `value` is `of`, at the same place (no call).
  void alias(ValueId value, ValueId of);
  // `value` lies in a storage that is there already.
  void place(ValueId value, const Placed& at);
  // Storage without a value.
  npu::Address temporary(uint32_t bytes, std::string name);

  // Ends the call being built.
  void emit(Kernel kernel, Origin origin, int64_t macs = 0);
  // Emits Move calls that copy `from` to `to`, two if one cannot do it.
  void copy(npu::Address from, const StridedLayout& from_layout, npu::Address to,
            const StridedLayout& to_layout, int64_t elements, const Origin& origin);

  // All calls of an op have been emitted: the values that it defined exist from here on.
  void end_op();
  // Gives the outputs of the graph their operands, copying where a value cannot lie in one; returns
  // everything that was built.
  LoweredGraph finish();

 private:
  // Copies a value into another order.
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
