// Writes parts of an export as other operators that compute the same, so that fake quantization
// fits between those that the target will quantize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "compiler/frontends/pt2/export_editor.h"
#include "compiler/ir/graph.h"

namespace dtr {

// Nodes that are several operators, such as attention, gates and recurrences, as these. Of
// `wanted`, indices of module.sources, and of products with a parameter, which are linear layers
// then, those that can be written so: PyTorch has each of their operators, and every result that is
// read is that of one of them. `module` is as the importer made it of the file that `editor` has
// open, before any pass.
std::set<uint32_t> spellable_nodes(const Module& module, const pt2::ExportEditor& editor,
                                   const std::set<uint32_t>& wanted);

// Writes these nodes so. Results keep their names. Constants that the file lacks, such as a causal
// mask, become buffers `quantization.NODE.constant`; those of one number become operators.
void spell_nodes(const Module& module, pt2::ExportEditor& editor, const std::set<uint32_t>& nodes);

// Writes normalizations, softmaxes and activations that the file computes step by step, and that
// recognition_pipeline finds, as the operators that they are. Changes `module`, which is as
// parse_pt2 made it. `merge`: also those that compute a step twice; parameters of equal values
// could then be taken for one, so the others come first. Returns their number, and in `notes` the
// normalizations that have no such form. Errors: those of the passes.
Result<size_t> spell_recognized(Module& module, pt2::ExportEditor& editor, bool merge,
                                std::vector<std::string>& notes);

// Writes the masks that masks_pipeline finds directly in front of the softmaxes that they are for:
// scores are then quantized without what excludes some of them. Changes `module`, which is as the
// importer made it. Returns the number of softmaxes. Errors: those of the passes.
Result<size_t> spell_masks(Module& module, pt2::ExportEditor& editor);

}  // namespace dtr
