// In-place operators of an export as operators that make a tensor, so that fake quantization fits
// before and behind what they write.
#pragma once

#include <string>

#include "compiler/frontends/pt2/export_editor.h"
#include "compiler/ir/graph.h"

namespace dtr {

// True if the nodes of the file that `editor` has open write to the buffer `name` as a whole only
// (copy_), and read neither it nor a view of it by an earlier name behind that. What is read there
// then is the copied tensor.
bool is_written_whole(const Module& module, const pt2::ExportEditor& editor,
                      const std::string& name);

// Writes operators that overwrite a float32 tensor, or a view of it, as PyTorch's functionalization
// does: relu_(x[:, 1:]) becomes slice_scatter(x, relu(x[:, 1:])), and what reads x or a view of it
// behind that reads the new tensor. A buffer gets one copy_ of its last value; as nothing reads it
// behind that, gradients go through the runs of a stream. A tensor that is no
// buffer, and is overwritten as a whole and read by the write's name alone, stays as it is, as does
// one with a view that has no such operator (split, unfold, as_strided, a reshape that may copy).
// `module` is as the importer made it of that file. Returns the number of writes.
size_t spell_writes(const Module& module, pt2::ExportEditor& editor);

// Writes aten.copy as expand and clone, since PyTorch has no derivative for it. Returns their
// number.
size_t spell_copies(const Module& module, pt2::ExportEditor& editor);

}  // namespace dtr
