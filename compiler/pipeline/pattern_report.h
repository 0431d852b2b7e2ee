// Reports which backend's quantization pattern accepted each operator, why others rejected it, and
// conflicts of quantizations.
#pragma once

#include <string>

#include "compiler/pipeline/compilation.h"

namespace dtr {

// Both need a compilation that quantized its model; for a model that was quantized already they are
// empty. The text has a line for each operator that a backend rejected, then totals, then a line
// for each conflict.
std::string patterns_text(const Compilation& compilation);
// All operators: {"patterns": [{"name", "op", "module_path", "source_line", "accepted_by",
// "rejections": [{"backend", "id", "reason", "remedy"}]}], "conflicts": [{"value", "reader", "op",
// "shared"}]}.
std::string patterns_json(const Compilation& compilation);

}  // namespace dtr
