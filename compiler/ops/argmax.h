// The loops of aten.argmax and aten.argmin.
#pragma once

#include "compiler/ops/define.h"

namespace dtr::ops {

// The contiguous operand as (outer, count, inner): the result has one index for each pair of outer
// and inner.
struct Compared {
  int64_t outer = 1, count = 1, inner = 1;
};
Compared compared(const OpView& view);

}  // namespace dtr::ops
