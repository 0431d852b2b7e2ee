// Shifts of integers, which are products with powers of two, or quotients rounded down.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// The bits of x moved by `places`, which broadcast with it, towards higher ones (`left`) or lower
// ones. Places below zero or beyond the width of x leave zero, or the sign of what moves right.
// Errors: those of GraphBuilder::emit.
Result<ValueId> shift(GraphBuilder& builder, ValueId x, ValueId places, bool left);

}  // namespace dtr::compositions
