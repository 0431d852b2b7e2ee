// Whether a program leaves to the CPU what upstream delegates.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compiler/pipeline/report.h"
#include "compiler/support/result.h"
#include "test/conformance/check.h"

namespace dtr::conformance {

struct PlacementReport {
  std::string model;  // "float", "quantized"
  CompileReport report;
};

// Compares by kind of operator: of each kind no more operators run on the CPU than upstream keeps
// there. Quantize, dequantize, views and changes of the dimension order do not count. An empty
// path: nothing is kept. The text names the operators and why they are not on the NPU.
Result<void> judge_placement(const std::filesystem::path& upstream,
                             const std::vector<PlacementReport>& reports, Check& check);

}  // namespace dtr::conformance
