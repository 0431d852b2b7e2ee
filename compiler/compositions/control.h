// Branches and loops as straight-line graphs, for any importer.
#pragma once

#include <functional>
#include <vector>

#include "compiler/ir/builder.h"

namespace dtr::compositions {

constexpr int64_t kMostLoopSteps = 4096;  // that a loop is unrolled to

// One result of two branches that were both computed: `taken` where the bool `condition`, of one
// element, is true, else `other`. Errors: `unsupported` if their shapes differ; those of emit.
Result<ValueId> select_branch(GraphBuilder& builder, ValueId condition, ValueId taken,
                              ValueId other);

// A stack of values of one shape along a new dimension. Errors: `unsupported` if there is none;
// those of concatenate.
Result<ValueId> stack(GraphBuilder& builder, std::vector<ValueId> values, int64_t dim);

// x[index] along `dim`, without that dimension. Errors: those of slice and view.
Result<ValueId> element(GraphBuilder& builder, ValueId x, int64_t dim, int64_t index);

}  // namespace dtr::compositions
