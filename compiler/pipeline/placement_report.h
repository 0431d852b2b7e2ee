// Reports operators that do not run on the NPU, and the remaining transpositions.
#pragma once

#include "compiler/pipeline/report.h"

namespace dtr {

// Both need a finished compilation. A row for each operator: causes by the cycles that they and
// their followers lose, most first, each before its followers.
std::vector<RefusalRow> refusal_rows(const Compilation& compilation);
// Conversions between layouts that run on the CPU, and steps of delegates that only change a
// value's layout.
std::vector<TransposeRow> transpose_rows(const Compilation& compilation);

// The tables of `to_text(CompileReport)`; empty if they have no rows.
std::string refusals_text(const CompileReport& report);
std::string transposes_text(const CompileReport& report);
// The members "refusals" and "transposes" of the JSON documents, without braces around.
std::string refusals_json(const CompileReport& report);
std::string transposes_json(const CompileReport& report);

}  // namespace dtr
