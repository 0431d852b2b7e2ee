#include "support/diagnostic.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace dtr {
namespace {

constexpr std::array kTable{
#define DTR_DIAGNOSTIC(name, id, summary) DiagnosticInfo{DiagnosticId::name, id, summary},
#include "support/diagnostics.inc"
#undef DTR_DIAGNOSTIC
};

constexpr std::array<std::string_view, 3> kSeverityNames{"note", "warning", "error"};

// Length of the valid UTF-8 sequence at the start of `text`, or 0.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const size_t length = byte(0) < 0x80                      ? 1
                        : byte(0) >= 0xC2 && byte(0) < 0xE0 ? 2
                        : byte(0) >= 0xE0 && byte(0) < 0xF0 ? 3
                        : byte(0) >= 0xF0 && byte(0) < 0xF5 ? 4
                                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  return length;
}

}  // namespace

const DiagnosticInfo& info(DiagnosticId id) { return kTable.at(static_cast<size_t>(id)); }

const std::vector<DiagnosticInfo>& all_diagnostics() {
  static const std::vector<DiagnosticInfo> all(kTable.begin(), kTable.end());
  return all;
}

std::string to_text(const Diagnostic& diagnostic) {
  const Place& place = diagnostic.place;
  std::string text = fmt::format("{}[{}]: ", kSeverityNames.at(static_cast<size_t>(diagnostic.severity)), info(diagnostic.id).name);
  if (!place.file.empty()) text += place.file + ": ";
  if (!place.node.empty()) text += fmt::format("`{}`: ", place.node);
  text += diagnostic.reason;
  if (!place.module_path.empty() || !place.source_line.empty()) {
    text += "\n  at: ";
    text += place.module_path;
    if (!place.module_path.empty() && !place.source_line.empty()) text += ", ";
    text += place.source_line;
  }
  if (!diagnostic.fix.empty()) text += "\n  fix: " + diagnostic.fix;
  return text;
}

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const char c = text[0];
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

std::string to_json(const Diagnostic& diagnostic) {
  const Place& place = diagnostic.place;
  return fmt::format(R"({{"severity":"{}","id":"{}","reason":{},"fix":{},"file":{},"node":{},"module_path":{},"source_line":{}}})",
                     kSeverityNames.at(static_cast<size_t>(diagnostic.severity)), info(diagnostic.id).name, json_quote(diagnostic.reason),
                     json_quote(diagnostic.fix), json_quote(place.file), json_quote(place.node), json_quote(place.module_path),
                     json_quote(place.source_line));
}

void check_failed(const char* condition, const char* file, int line) {
  fmt::print(stderr, "internal error: {}:{}: check `{}` failed; this is a bug in Deuteron, please report it\n", file, line, condition);
  std::fflush(stderr);
  std::_Exit(3);
}

}  // namespace dtr
