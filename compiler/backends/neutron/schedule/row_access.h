// Which rows of its operands a kernel call reads for some rows of its result: the property that
// lets the compiler run a chain of calls stripe by stripe (schedule/stripes.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/backends/neutron/call.h"

namespace dtr::neutron {

// A half-open range of rows.
struct RowRange {
  uint32_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
  uint32_t count() const { return empty() ? 0 : end - begin; }
  void include(RowRange other);
  bool operator==(const RowRange&) const = default;
};

// One tensor operand of a call as rows of its storage.
struct RowOperand {
  npu::Address address;
  Access access = Access::kRead;
  // Bytes from one row to the next; 0: the call reads the same bytes for every row of the result.
  uint32_t pitch = 0;
  uint32_t row_bytes = 0;  // bytes from the first byte of a row that is accessed to the last
  uint32_t rows = 0;       // rows of the whole call
  bool windowed = false;  // read through the window; otherwise row r belongs to row r of the result
};

// A call whose result is computed row by row. `operands` lists operands outside of the call's own
// constants, in the order of visit_addresses.
struct RowAccess {
  uint32_t rows = 0;  // of the result
  uint32_t kernel_rows = 1, stride = 1;
  int32_t pad = 0;
  std::vector<RowOperand> operands;

  // The rows of a windowed operand that rows `result` of the result are computed from, inside of
  // the operand. Empty if all of them are padding.
  RowRange read_for(RowRange result, uint32_t operand_rows) const;
};

// Bytes from one row of a storage to the next, by storage; 0: unknown.
using Pitches = std::vector<uint32_t>;

// Sets the pitches of storages that windows of `calls` walk through by rows. A storage that two
// windows divide differently keeps the first one's pitch; row_access then rejects the other call.
void find_pitches(std::span<const Call> calls, Pitches& pitches);

// std::nullopt if the kernel does not compute its result row by row, or if its rows are not those
// of `pitches`. Elementwise calls take the pitch of their result from `pitches`.
std::optional<RowAccess> row_access(const Kernel& kernel, const Pitches& pitches);

// The part of the call that computes rows `result`, with addresses of the whole call. Requires
// row_access(kernel).
Kernel rows_of(const Kernel& kernel, const RowAccess& access, RowRange result);

}  // namespace dtr::neutron
