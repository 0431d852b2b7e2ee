// aten.amin: the least element over the dimensions `dim` (all if empty).
#include "compiler/ops/reduction.h"

namespace dtr::ops {

constinit const OpDef kAmin =
    extreme_op<false>("aten.amin", "the least element over the dimensions `dim`");

}  // namespace dtr::ops
