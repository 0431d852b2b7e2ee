// Writes nodes of an export that are several operators, such as attention, gates and recurrences,
// as these operators. The export then computes the same, and fake quantization fits between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "compiler/frontends/pt2/export_editor.h"
#include "compiler/ir/graph.h"

namespace dtr {

// Of `wanted`, indices of module.sources, those that can be written so: PyTorch has each of their
// operators, and every result that is read is that of one of them. `module` is as the importer
// made it of the file that `editor` has open, before any pass.
std::set<uint32_t> spellable_nodes(const Module& module, const pt2::ExportEditor& editor,
                                   const std::set<uint32_t>& wanted);

// Writes these nodes so. Results keep their names. Constants that the file lacks, such as a causal
// mask, become buffers `quantization.NODE.constant`.
void spell_nodes(const Module& module, pt2::ExportEditor& editor, const std::set<uint32_t>& nodes);

}  // namespace dtr
