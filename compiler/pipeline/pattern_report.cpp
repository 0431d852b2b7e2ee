#include "compiler/pipeline/pattern_report.h"

#include <fmt/format.h>

#include <map>

#include "compiler/support/encode.h"

namespace dtr {
namespace {

std::string_view accepted_by(const PatternRow& row) {
  for (const PatternVerdict& verdict : row.verdicts)
    if (!verdict.rejected) return verdict.backend;
  return {};
}

const ConversionReport& conversion_of(const Compilation& compilation) {
  static const ConversionReport none;
  return compilation.conversion ? *compilation.conversion : none;
}

}  // namespace

std::string patterns_text(const Compilation& compilation) {
  const ConversionReport& report = conversion_of(compilation);
  struct Sums {
    size_t accepted = 0, rejected = 0;
  };
  std::map<std::string_view, Sums> sums;
  std::string text;
  for (const PatternRow& row : report.patterns)
    for (const PatternVerdict& verdict : row.verdicts) {
      Sums& of_backend = sums[verdict.backend];
      ++(verdict.rejected ? of_backend.rejected : of_backend.accepted);
      if (!verdict.rejected) continue;
      const std::string_view taker = accepted_by(row);
      text += terminal_format("note: `{}`: no pattern of {} for {}: {}; {}\n", row.place.node,
                              verdict.backend, row.op, verdict.rejected->reason,
                              taker.empty() ? std::string("it stays float")
                                            : terminal_format("{} quantizes it", taker));
    }
  for (const auto& [backend, of_backend] : sums)
    text += terminal_format("note: patterns of {}: {} operators accepted, {} rejected\n", backend,
                            of_backend.accepted, of_backend.rejected);
  for (const ConflictRow& row : report.conflicts)
    text += terminal_format(
        "note: `{}`: {} reads `{}` {}; who makes a value decides, so it is requantized there\n",
        row.reader.node, row.op, row.value,
        row.shared ? "in the quantization that it shares with its other values"
                   : "in another quantization than the one it is made in");
  return text;
}

std::string patterns_json(const Compilation& compilation) {
  const ConversionReport& report = conversion_of(compilation);
  std::string text = "{\n  \"version\": 1,\n  \"patterns\": [";
  for (const PatternRow& row : report.patterns) {
    const std::string_view taker = accepted_by(row);
    std::string rejections;
    for (const PatternVerdict& verdict : row.verdicts)
      if (verdict.rejected)
        rejections +=
            fmt::format("{}{{\"backend\": {}, \"id\": {}, \"reason\": {}, \"remedy\": {}}}",
                        rejections.empty() ? "" : ", ", json_quote(verdict.backend),
                        json_quote(verdict.rejected->id), json_quote(verdict.rejected->reason),
                        json_quote(verdict.rejected->remedy));
    text += fmt::format(
        "{}\n    {{\"name\": {}, \"op\": {}, \"module_path\": {}, \"source_line\": {}, "
        "\"accepted_by\": {}, \"rejections\": [{}]}}",
        &row == report.patterns.data() ? "" : ",", json_quote(row.place.node), json_quote(row.op),
        json_quote(row.place.module_path), json_quote(row.place.source_line),
        taker.empty() ? "null" : json_quote(taker), rejections);
  }
  text += "\n  ],\n  \"conflicts\": [";
  for (const ConflictRow& row : report.conflicts)
    text += fmt::format("{}\n    {{\"value\": {}, \"reader\": {}, \"op\": {}, \"shared\": {}}}",
                        &row == report.conflicts.data() ? "" : ",", json_quote(row.value),
                        json_quote(row.reader.node), json_quote(row.op), row.shared);
  return text + "\n  ]\n}\n";
}

}  // namespace dtr
