// Writes batch norms of an export into the convolutions and linear layers beside them, as operators
// that PyTorch can train.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/frontends/pt2/export_editor.h"
#include "compiler/ir/graph.h"

namespace dtr {

// Writes batch norm `norm`, a node of the file whose layer is behind it, into weight and bias of
// node `layer`: the NPU will have the norm's operand in int8, not its result. γ and β are trained,
// mean and variance stay. `op` is the layer in a graph. A layer that takes no offsets
// (takes_offsets) gets none; the norm must not shift then.
void fold_batch_norm_behind(pt2::ExportEditor& editor, uint32_t norm, uint32_t layer, const Op& op);

// Simulates the fusion of node `norm` into node `layer` before it. Returns the name of the weight
// times γ / √(var + eps); the layer's result is divided by that factor before its bias and the
// norm. `weight` is the name of the layer's weight as it is now.
std::string simulate_fusion(pt2::ExportEditor& editor, uint32_t layer, uint32_t norm, const Op& op,
                            const std::string& weight);

}  // namespace dtr
