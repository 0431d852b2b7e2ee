// Targets as JSON files: `--target my.json` compiles for a machine that has no row in target.cpp.
// docs/targets.md lists the fields. A program for such a machine carries the same text
// (compiler/program/machine.h).
#pragma once

#include <string>
#include <string_view>

#include "compiler/support/result.h"
#include "compiler/targets/target.h"

namespace dtr {

// Whether an argument of --target is the path of a file: it ends in ".json" or has a slash.
bool is_target_file(std::string_view argument);

// Reads a target and checks every field. The description lives until the process ends; equal files
// share one. A file with the name of a row of target.cpp is that row, and must have its values.
// Errors: kFileNotFound; kTargetInvalid, with the field, its value and the values that it may have.
Result<const TargetDescription*> read_target(const std::string& path);
// The same from text; `file` names it in messages. Error: kTargetInvalid.
Result<const TargetDescription*> parse_target(std::string_view text, const std::string& file);
// The same, of a file whose name may be that of a row with other values: a program that was
// compiled before the row existed has the machine in itself. Error: kTargetInvalid.
Result<const TargetDescription*> parse_target_of_program(std::string_view text,
                                                         const std::string& file);

// The target as such a file. parse_target returns an equal target, whose text is the same byte for
// byte. Published runs are not part of it.
std::string to_json(const TargetDescription& target);

// A Markdown table of all fields: values that each may have, and its meaning.
std::string target_fields_markdown();

}  // namespace dtr
