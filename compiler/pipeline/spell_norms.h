// Writes functions of the channels of a layer's operand into its weight and bias, as operators of
// an export that PyTorch can train.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "compiler/frontends/pt2/export_editor.h"
#include "compiler/ir/graph.h"

namespace dtr {

// x[c] · factor[c] + offset[c] over the channels of a layer's operand: the names of two tensors in
// the file; empty: 1, 0.
struct OperandAffine {
  std::string factor, offset;
};

// Makes layer(x), node `layer` of the file, layer(affine(x)): its weight becomes W · factor and its
// bias b + W · offset, added over all weights of an output. `op` is that layer in a graph. The
// node's weight is an argument of that name; a layer that takes no offsets (takes_offsets) must get
// none.
void fold_into_layer(pt2::ExportEditor& editor, uint32_t layer, const Op& op,
                     const OperandAffine& affine);

// Writes weight and bias of layer and RMS normalizations into the layers that read them:
// linear(norm(x) · g + b) becomes linear(norm(x)) with the weight W · g and the bias W b + c. The
// pass fold_norm_parameters computes them after training; so training sees the norm's result as
// int8 will hold it, and still trains g and b. `module` is as parse_trainable_pt2 made it of the
// file that `editor` has open. Returns the number of normalizations.
size_t spell_norms(const Module& module, pt2::ExportEditor& editor);

}  // namespace dtr
