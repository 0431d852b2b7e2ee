// Which backend's quantization pattern took which operator, what the others said, and where
// quantizations met that do not agree.
#pragma once

#include <string>

#include "compiler/pipeline/compilation.h"

namespace dtr {

// Of a compilation that is quantized; nothing of a model that came so.
// A line for each operator that some backend rejected, then the sums; one for each conflict.
std::string patterns_text(const Compilation& compilation);
// All operators: {"patterns": [{"name", "op", "module_path", "source_line", "accepted_by",
// "rejections": [{"backend", "id", "reason", "remedy"}]}], "conflicts": [{"value", "reader", "op",
// "shared"}]}.
std::string patterns_json(const Compilation& compilation);

}  // namespace dtr
