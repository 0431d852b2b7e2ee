// Which rows of its operands a kernel call reads for some rows of its result: the property that
// lets the compiler run a chain of calls stripe by stripe (schedule/stripes.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/backends/neutron/memory/footprint.h"

namespace dtr::neutron {

using RowRange = Range<uint32_t>;

// One tensor operand of a call as rows of its storage.
struct RowOperand {
  npu::Address address;
  Access access = Access::kRead;
  // Bytes from one row to the next; 0: the operand is not divided into rows of its storage: any
  // bytes of it may be read, or written, for any row of the result.
  uint32_t pitch = 0;
  uint32_t row_bytes = 0;  // bytes from the first byte of a row that is accessed to the last
  uint32_t rows = 0;       // rows of the whole call
  uint32_t step = 1;       // rows of the storage from one row of the call to the next
  bool windowed = false;  // read through the window; otherwise row r belongs to row r of the result
};

// The dimension of a window that its rows are: images of a batch, each a row; rows of an image; or,
// where an image is one row high, its columns.
enum class RowAxis : uint8_t { kBatch, kHeight, kWidth };

// A call whose result is computed row by row. `operands` lists operands outside of the call's own
// constants, in the order of visit_addresses.
struct RowAccess {
  uint32_t rows = 0;  // of the result
  uint32_t kernel_rows = 1, stride = 1;
  int32_t pad = 0;
  std::optional<npu::Resize> resize;  // whose rows are chosen by its height axis
  // Of a box, product or normalization: the loop over rows. Of these, softmax and batches: the
  // steps of that loop that are one row.
  uint32_t loop = 0, loop_steps = 1;
  RowAxis axis = RowAxis::kHeight;
  std::vector<RowOperand> operands;

  // The rows of a windowed operand that rows `result` of the result are computed from, inside of
  // the operand; where all of them are padding, the row next to it. Never empty unless `result` is.
  RowRange read_for(RowRange result, uint32_t operand_rows) const;
};

// Rows of the storage that rows `of` of the call's operand are in, and the rows of the operand that
// are among rows `of` of the storage. Requires a pitch.
RowRange storage_rows(const RowOperand& operand, RowRange of);
RowRange operand_rows(const RowOperand& operand, RowRange of);

// Bytes from one row of a storage to the next, by storage; 0: unknown.
using Pitches = std::vector<uint32_t>;

// Sets the pitches of storages that windows of `calls` walk through by rows. Of two pitches of one
// storage the smaller one is taken if it divides the other, else the first.
void find_pitches(std::span<const Call> calls, Pitches& pitches);

// std::nullopt if the kernel does not compute its result row by row. Operands whose rows are not
// those of `pitches` have no pitch. Elementwise calls, softmax, normalizations and linear layers
// take the rows of their result from `pitches` or, if it has other ones, those of an operand.
std::optional<RowAccess> row_access(const Kernel& kernel, const Pitches& pitches);

// The part of the call that computes rows `result`, with addresses of the whole call. Requires
// row_access(kernel).
Kernel rows_of(const Kernel& kernel, const RowAccess& access, RowRange result);

}  // namespace dtr::neutron
