// Which backend's quantization pattern took which operator, what the others said, and where quantizations met that do not agree.
#pragma once

#include <string>

#include "compiler/quantizer/convert.h"

namespace dtr {

// A line for each operator that some backend rejected, then the sums; one for each conflict.
std::string patterns_text(const ConversionReport& report);
// All operators: {"patterns": [{"name", "op", "module_path", "source_line", "accepted_by", "rejections": [{"backend", "id", "reason",
// "remedy"}]}], "conflicts": [{"value", "reader", "op", "shared"}]}.
std::string patterns_json(const ConversionReport& report);

}  // namespace dtr
