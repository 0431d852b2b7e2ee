// Diagnostics: errors, warnings and notes about the user's input. Libraries return them, tools
// print them.
//
// Every kind of diagnostic has one row in `diagnostics.inc`: a stable id that users can search for
// and scripts can test, and the sentence that explains it in `docs/diagnostics.md`, which is
// generated from that table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtr {

enum class DiagnosticId : uint16_t {
#define DTR_DIAGNOSTIC(name, id, summary) name,
#include "compiler/support/diagnostics.inc"
#undef DTR_DIAGNOSTIC
};

enum class Severity : uint8_t { kNote, kWarning, kError };

// A place in the user's input; any field may be empty.
struct Place {
  std::string file;         // path as the user gave it
  std::string node;         // name of the operator, tensor, array or archive member
  std::string module_path;  // PyTorch module, "features.3.conv"
  std::string source_line;  // "model.py:208"
  bool operator==(const Place&) const = default;
};

struct Diagnostic {
  DiagnosticId id;
  std::string reason;  // one sentence: what is wrong, with the values
  std::string fix;     // one sentence: how to fix it; may be empty
  Place place = {};
  Severity severity = Severity::kError;
};

struct DiagnosticInfo {
  DiagnosticId id;
  std::string_view name;  // stable, kebab-case: "npz-missing-array"
  std::string_view summary;
};

const DiagnosticInfo& info(DiagnosticId id);
const std::vector<DiagnosticInfo>& all_diagnostics();

// "error[npz-missing-array]: cal.npz: input `x`: reason\n  fix: …", no trailing newline.
std::string to_text(const Diagnostic& diagnostic);
// One JSON object on one line with keys severity, id, reason, fix, file, node, module_path,
// source_line.
std::string to_json(const Diagnostic& diagnostic);
// `text` as a JSON string literal, quotes included; invalid UTF-8 becomes U+FFFD.
std::string json_quote(std::string_view text);

// The diagnostic for a failed allocation (std::bad_alloc) in `what` ("`deuteron compile`"), with
// its input at `place`.
Diagnostic out_of_memory(std::string_view what, Place place);

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace dtr

// Checks an invariant of our own code, never of the input. A violation prints file and line and
// ends the process with exit code 3, or calls the handler that the host of the library has set
// (compiler/support/check_handler.h). Enabled in all builds.
#define DTR_CHECK(condition)                               \
  do {                                                     \
    if (!(condition)) [[unlikely]]                         \
      ::dtr::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)
