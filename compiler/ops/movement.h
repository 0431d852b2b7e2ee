// Helpers for operators that move data.
#pragma once

#include "compiler/ops/define.h"

namespace dtr::ops {

// Checks that the result has the quantization of operand 0, which must not be per channel. Error:
// kIrInvalid.
Result<void> check_moves(const OpView& view);

// Completes the definition of an op that copies elements of any type, with one evaluation for all.
constexpr OpDef moving_op(Evaluation evaluate, OpDef def) {
  def.traits |= kMovesData;
  return with_one_evaluation(evaluate, def);
}

// A verified aten.slice.Tensor: `count` elements along `dim`, `step` apart, from `start` on; all in
// [0, extent].
struct Slice {
  size_t dim = 0;
  int64_t start = 0, count = 0, step = 1;
};
Slice slice_of(const OpView& view);

}  // namespace dtr::ops
