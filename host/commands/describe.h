// Files and programs as text: `deuteron inspect` and `deuteron explain` without their terminal.
#pragma once

#include <string>

#include "compiler/program/reader.h"
#include "host/session/session.h"

namespace dtr {

// A model, a program, a tensor file, a trace or arrays, by content. Errors: those of reading;
// kTraceProgram (records of a device), kModelUnknown.
Result<std::string> describe_file(const std::string& path);
// A program with its microcode, which is listed for the machine that it was compiled for. A program
// for one that is not known can still be looked at.
std::string describe(const PteFile& pte_file);

// Why operators cost what they cost, and what would make them cheaper: those with `name` in their
// name, module or kernel, at most `most` of them, those with the most cycles. Errors:
// kPteDebugMap, kNodeUnknown, those of running.
Result<std::string> explain_program(Session& session, const std::string& name, size_t most);

}  // namespace dtr
