// What a report says about operators that do not run on the NPU, and about transpositions that
// remain.
#pragma once

#include "compiler/pipeline/report.h"

namespace dtr {

// Of a compilation that is done. One row an operator: causes by the cycles that they and their
// followers lose, most first, each before its followers.
std::vector<RefusalRow> refusal_rows(const Compilation& compilation);
// Conversions between layouts that run on the host, and steps of delegates that only bring a value
// into another order.
std::vector<TransposeRow> transpose_rows(const Compilation& compilation);

// The tables of `to_text(CompileReport)`; empty if there is nothing to say.
std::string refusals_text(const CompileReport& report);
std::string transposes_text(const CompileReport& report);
// The members "refusals" and "transposes" of the JSON documents, without braces around.
std::string refusals_json(const CompileReport& report);
std::string transposes_json(const CompileReport& report);

}  // namespace dtr
