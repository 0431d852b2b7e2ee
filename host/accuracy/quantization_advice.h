// What to do about the operator that causes most of the outputs' error.
#pragma once

#include <string>

#include "host/accuracy/quantization_report.h"

namespace dtr {

// The outputs are good enough to need no advice from here on.
inline constexpr double kGoodOutputDecibels = 35;

// One sentence with the operator, its range and channel, and an option of `deuteron compile`; empty
// if the report has no shares or the outputs are good enough. `model`: the float graph.
std::string advice_of(const QuantizationReport& report, const Module& module, const Graph& model);

}  // namespace dtr
