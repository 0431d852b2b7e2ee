// Determinants and inverses of small square matrices (…, n, n), n ≤ 4, by their cofactors.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// (…) and (…, n, n). Errors: those of GraphBuilder::emit; larger matrices, and others that are not
// square.
Result<ValueId> determinant(GraphBuilder& builder, ValueId matrices);
Result<ValueId> inverse(GraphBuilder& builder, ValueId matrices);

}  // namespace dtr::compositions
