#include "compiler/pipeline/accuracy_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string_view>

#include "compiler/support/diagnostic.h"
#include "compiler/support/text.h"

namespace dtr {
namespace {

constexpr std::array<std::string_view, 5> kVerdicts{"start", "kept", "rejected", "measured",
                                                    "failed"};

std::string_view verdict_of(const AccuracyStep& step) {
  return kVerdicts[static_cast<size_t>(step.verdict)];
}

std::string share_text(const std::optional<double>& share) {
  return share ? fmt::format("{:.4f}", *share) : "";
}

std::string share_json(const std::optional<double>& share) {
  return share ? fmt::format("{:.6f}", *share) : "null";
}

std::string step_json(const AccuracyStep& step) {
  std::vector<std::string> options;
  for (const std::string& word : step.options) options.push_back(json_quote(word));
  return fmt::format(
      "{{\"name\": {}, \"verdict\": \"{}\", \"sqnr_db\": {:.4f}, \"accuracy\": {}, "
      "\"same_class\": {}, \"cycles\": {}, \"why\": {}, \"options\": [{}]}}",
      json_quote(step.name), verdict_of(step), step.sqnr_db, share_json(step.accuracy),
      share_json(step.same_class), step.cycles, json_quote(step.why), fmt::join(options, ", "));
}

}  // namespace

std::string decibels_text(const AccuracyStep& step) {
  return step.sqnr_db >= 99 ? "99 or more" : fmt::format("{:.1f}", step.sqnr_db);
}

std::string options_text(const AccuracyStep& step) {
  constexpr std::string_view kPlain = "-_./:";
  std::string text;
  for (const std::string& word : step.options) {
    const bool plain = !word.empty() && std::ranges::all_of(word, [&](unsigned char c) {
      return std::isalnum(c) != 0 || kPlain.find(static_cast<char>(c)) != std::string_view::npos;
    });
    if (!text.empty()) text += ' ';
    if (plain) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return text;
}

std::string judged_samples(const AccuracySummary& summary) {
  std::string text =
      fmt::format("calibrated on {} samples, judged on {}", summary.calibrated, summary.judged);
  if (summary.in_turn)
    text = fmt::format("{} samples, each judged with ranges of others, because they are few",
                       summary.judged);
  else if (!summary.held_out)
    text += " of the same, which are too few to hold some out";
  else if (summary.stream)
    text += ", the last of the stream";
  else
    text += " others, every fourth";
  if (summary.labelled > 0)
    text += fmt::format(", accuracy on {} labelled ones (float: {:.4f})", summary.labelled,
                        summary.float_accuracy.value_or(0));
  return text;
}

std::string to_text(const AccuracySummary& summary) {
  std::string text = "accuracy auto: " + judged_samples(summary);
  TextTable table({"step", "dB", "gain", "accuracy", "same class", "cycles", "", ""},
                  {false, true, true, true, true, true, false, false});
  double best = 0;
  const auto add = [&](const AccuracyStep& step, const std::string& gain,
                       std::string_view verdict) {
    table.add({step.name, decibels_text(step), gain, share_text(step.accuracy),
               share_text(step.same_class), with_thousands(step.cycles), std::string(verdict),
               step.why});
  };
  for (const AccuracyStep& step : summary.steps) {
    if (step.verdict == AccuracyStep::Verdict::kFailed) {
      table.add({step.name, "", "", "", "", "", std::string(verdict_of(step)), step.why});
      continue;
    }
    const bool first = step.verdict == AccuracyStep::Verdict::kStart;
    add(step, first ? "" : fmt::format("{:+.1f}", step.sqnr_db - best), verdict_of(step));
    if (first || step.verdict == AccuracyStep::Verdict::kKept) best = step.sqnr_db;
  }
  const std::string_view on = summary.in_turn ? "" : ", all samples";
  add(summary.start, "", fmt::format("default{}", on));
  add(summary.result, fmt::format("{:+.1f}", summary.result.sqnr_db - summary.start.sqnr_db),
      fmt::format("this program{}", on));
  text += '\n' + table.text(60);
  if (!summary.result.options.empty())
    text += fmt::format("options {}\n", options_text(summary.result));
  if (!summary.goal.empty())
    text += fmt::format("goal    {}{}: {}\n", summary.goal,
                        summary.own_goal ? ", as none is given" : "",
                        summary.met ? "reached" : "not reached");
  if (!summary.cut.empty())
    text += fmt::format("cut     {}: not everything was tried\n", summary.cut);
  return text;
}

std::string to_json(const AccuracySummary& summary) {
  std::string text = fmt::format(
      "{{\"calibrated\": {}, \"judged\": {}, \"labelled\": {}, \"held_out\": {}, \"goal\": {}, "
      "\"own_goal\": {}, \"met\": {}, \"cut\": {}, \"float_accuracy\": {},\n    \"default\": {},\n "
      "   \"result\": "
      "{},\n    \"steps\": [",
      summary.calibrated, summary.judged, summary.labelled, summary.held_out,
      summary.goal.empty() ? "null" : json_quote(summary.goal), summary.own_goal, summary.met,
      summary.cut.empty() ? "null" : json_quote(summary.cut),
      summary.float_accuracy ? fmt::format("{:.6f}", *summary.float_accuracy) : "null",
      step_json(summary.start), step_json(summary.result));
  for (size_t i = 0; i < summary.steps.size(); ++i)
    text += fmt::format("{}\n      {}", i == 0 ? "" : ",", step_json(summary.steps[i]));
  return text + "]}";
}

}  // namespace dtr
