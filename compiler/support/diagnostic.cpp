#include "compiler/support/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "compiler/support/check_handler.h"
#include "compiler/support/encode.h"

namespace dtr {
namespace {

constexpr std::array kTable{
#define DTR_DIAGNOSTIC(name, id, summary) DiagnosticInfo{DiagnosticId::name, id, summary},
#include "compiler/support/diagnostics.inc"
#undef DTR_DIAGNOSTIC
};

constexpr std::array<std::string_view, 3> kSeverityNames{"note", "warning", "error"};

// Whether the reason may have lines: a list, or what a tool printed. Who makes it encodes the names
// in it (terminal_format, end_of_output).
bool has_list(DiagnosticId id) {
  constexpr std::array kIds{DiagnosticId::kConstantsMissing, DiagnosticId::kConverterFailed,
                            DiagnosticId::kFirmwareRun,      DiagnosticId::kNoBackend,
                            DiagnosticId::kPluginInvalid,    DiagnosticId::kPteMissingDelegate,
                            DiagnosticId::kPteMissingKernel};
  return std::ranges::find(kIds, id) != kIds.end();
}

std::atomic<CheckHandler> check_handler{nullptr};

}  // namespace

const DiagnosticInfo& info(DiagnosticId id) { return kTable.at(static_cast<size_t>(id)); }

const std::vector<DiagnosticInfo>& all_diagnostics() {
  static const std::vector<DiagnosticInfo> all(kTable.begin(), kTable.end());
  return all;
}

std::string to_text(const Diagnostic& diagnostic) {
  const Place& place = diagnostic.place;
  std::string text =
      fmt::format("{}[{}]: ", kSeverityNames.at(static_cast<size_t>(diagnostic.severity)),
                  info(diagnostic.id).name);
  if (!place.file.empty()) text += terminal_format("{}: ", place.file);
  if (!place.node.empty()) text += terminal_format("`{}`: ", place.node);
  text += has_list(diagnostic.id) ? as_terminal_lines(diagnostic.reason)
                                  : as_terminal(diagnostic.reason);
  if (!place.module_path.empty() || !place.source_line.empty())
    text += terminal_format("\n  at: {}{}{}", place.module_path,
                            place.module_path.empty() || place.source_line.empty() ? "" : ", ",
                            place.source_line);
  if (!diagnostic.fix.empty()) text += terminal_format("\n  fix: {}", diagnostic.fix);
  return text;
}

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto [length, code, is_plain] = first_character(text);
    const char c = text[0];
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (is_plain) {
      out += text.substr(0, length);
    } else if (code < 0x10000) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      const uint32_t above = code - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 | above >> 10, 0xDC00 | (above & 0x3FF));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

std::string to_json(const Diagnostic& diagnostic) {
  const Place& place = diagnostic.place;
  return fmt::format(
      R"({{"severity":"{}","id":"{}","reason":{},"fix":{},"file":{},"node":{},"module_path":{},"source_line":{}}})",
      kSeverityNames.at(static_cast<size_t>(diagnostic.severity)), info(diagnostic.id).name,
      json_quote(diagnostic.reason), json_quote(diagnostic.fix), json_quote(place.file),
      json_quote(place.node), json_quote(place.module_path), json_quote(place.source_line));
}

Diagnostic out_of_memory(std::string_view what, Place place) {
  return {.id = DiagnosticId::kOutOfMemory,
          .reason = fmt::format(
              "the machine, or a limit on this process, has no memory left for {}", what),
          .fix = "give it more memory, or smaller files",
          .place = std::move(place)};
}

void set_check_handler(CheckHandler handler) { check_handler.store(handler); }

void check_failed(const char* condition, const char* file, int line) {
  fmt::print(
      stderr,
      "internal error: {}:{}: check `{}` failed; this is a bug in Deuteron, please report it\n",
      file, line, condition);
  std::fflush(stderr);
  if (const CheckHandler handler = check_handler.load()) handler(condition, file, line);
#ifdef DTR_FUZZ
  std::abort();
#else
  std::_Exit(3);
#endif
}

}  // namespace dtr
