// Values that are zero whatever the inputs are: products with a constant that is zero, as a branch
// that a model multiplies by a zero mask, and what moves, adds or bends nothing but zeros. NaN and
// infinity as the other factor are left out of account: int8 has none.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace dtr {

// By value slot.
std::vector<bool> zero_values(const Module& module, const Graph& graph);

}  // namespace dtr
