// aten.amax: the greatest element over the dimensions `dim` (all if empty).
#include "compiler/ops/reduction.h"

namespace dtr::ops {

constinit const OpDef kAmax =
    extreme_op<true>("aten.amax", "the greatest element over the dimensions `dim`");

}  // namespace dtr::ops
