// Layouts of all values by a minimum cut: the cheapest assignment of contiguous and channels-last
// in bytes moved, exact for two labels. Inputs of the graph keep the layout of their types, outputs
// get the one that the graph states.
#pragma once

#include "compiler/partitioner/placement.h"

namespace dtr {

struct LayoutResult {
  std::vector<OpId> conversions;  // inserted dim_order_ops._to_dim_order_copy
  int64_t bytes_moved = 0;  // cost of the cut: bytes converted, each tensor once per conversion
};

// Sets Type.layout of every op result and inserts explicit conversions; `placement` gets entries
// for them: on the backend of the ops that read the converted value if it takes the conversion,
// else on the first that does.
Result<LayoutResult> assign_layouts(Graph& graph, const Recipe& recipe, Placement& placement);

}  // namespace dtr
