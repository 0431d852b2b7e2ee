// Looks for a program without the NPU that takes fewer cycles than the one with it: a small model
// may cost the host more in starts of calls than its operators cost the CPU.
#pragma once

#include <optional>

#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/report.h"
#include "compiler/support/diagnostic.h"

namespace dtr {

// The warning kCpuIsCheaper, with the cycles of both programs and the option that makes the other
// one; std::nullopt if none takes at least 5 % fewer, if the user decided on the placement
// (keep_off, force_on, constraints of the recipe), or if the cycles of the program are unknown.
// `source`, no module in memory, and `settings` are those of `compiled`, `report` its report.
//
// Compiles the model again, for the CPU alone, if the operators by themselves take fewer cycles
// there. Programs that are much faster with the NPU thus cost no compilation. Errors: none; a
// program that cannot be compiled is none that is cheaper.
std::optional<Diagnostic> cheaper_on_cpu(const ModelSource& source, const CompileSettings& settings,
                                         const Compilation& compiled, const CompileReport& report);

}  // namespace dtr
