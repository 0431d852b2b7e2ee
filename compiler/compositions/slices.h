// Tensors of which a part is replaced.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// x with `part` in place of start, start + step, … along `dim`, as aten.cat of parts. Errors:
// another dtype, or more than 256 single elements.
Result<ValueId> replace_slice(GraphBuilder& builder, ValueId x, ValueId part, int64_t dim,
                              int64_t start, int64_t step);

}  // namespace dtr::compositions
