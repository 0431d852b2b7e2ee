// Replaces a part of a tensor.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// x with the indices start, start + step, … along `dim` replaced by `part`, as aten.cat of slices.
// Error: `unsupported` of the builder, for another dtype or more than 256 separate elements.
Result<ValueId> replace_slice(GraphBuilder& builder, ValueId x, ValueId part, int64_t dim,
                              int64_t start, int64_t step);

}  // namespace dtr::compositions
