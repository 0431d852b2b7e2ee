// Assigns a layout, contiguous or channels-last, to every value by a minimum cut: the assignment
// that moves the fewest bytes, exact for two labels. Inputs of the graph keep the layout of their
// types; outputs get the layout that the graph states.
#pragma once

#include "compiler/partitioner/placement.h"

namespace dtr {

struct LayoutResult {
  std::vector<OpId> conversions;  // inserted dim_order_ops._to_dim_order_copy
  int64_t bytes_moved = 0;  // cost of the cut: bytes converted, each tensor once per conversion
};

// Sets Type.layout of every op result and inserts explicit conversions. Adds the conversions to
// `placement`: each runs on the backend of the ops that read the converted value if that backend
// supports it, else on the first one that does. Errors: those of Rewriter::insert, which mean an
// invalid graph.
Result<LayoutResult> assign_layouts(Graph& graph, const Recipe& recipe, Placement& placement);

}  // namespace dtr
