// Writes to the buffers of an export, so that fake quantization fits before and behind them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/frontends/pt2/export_editor.h"
#include "compiler/ir/graph.h"

namespace dtr {

// The nodes that write to the buffer `name` of the file that `editor` has open, in order.
// std::nullopt if one writes to a view of it, or if the buffer is read again by its own name or
// through a view behind a write: a copy of its content then is another tensor than it.
std::optional<std::vector<uint32_t>> direct_writes(const Module& module,
                                                   const pt2::ExportEditor& editor,
                                                   const std::string& name);

// Writes in-place operators on float buffers as operators that make a tensor, and a copy of it to
// the buffer: index_put_(b, …) becomes copy_(b, index_put(b, …)). Training then sees the buffer as
// int8 will hold it. Buffers without direct_writes stay as they are. Returns the number of nodes.
size_t spell_states(const Module& module, pt2::ExportEditor& editor);

}  // namespace dtr
