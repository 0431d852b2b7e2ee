#include "test/conformance/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "ir/op_def.h"

namespace dtr::conformance {
namespace {

// Kinds of checks, as columns.
constexpr std::array<std::string_view, 6> kColumns = {"float", "quantized", "equal", "layout", "neutron_ir", "placement"};

size_t column_of(const std::string& check) {
  for (size_t i = 0; i < kColumns.size(); ++i)
    if (check.starts_with(kColumns[i])) return i;
  return kColumns.size();
}

// Sums of a group of cases.
struct Row {
  size_t cases = 0, good_cases = 0;
  std::array<size_t, kColumns.size()> passed = {}, all = {};
  double least_gain = 1e9, most_steps = -1, most_mean = -1;

  void add(const CaseResult& result) {
    ++cases;
    good_cases += std::all_of(result.checks.begin(), result.checks.end(), [](const Check& check) { return check.passed; }) ? 1 : 0;
    for (const Check& check : result.checks) {
      const size_t column = column_of(check.name);
      if (column == kColumns.size()) continue;
      ++all[column];
      passed[column] += check.passed ? 1 : 0;
      if (!check.figures.contains("outputs")) continue;
      for (const nlohmann::json& output : check.figures["outputs"]) {
        if (output.contains("sqnr_db"))
          least_gain = std::min(least_gain, output["sqnr_db"].get<double>() - output["upstream_sqnr_db"].get<double>());
        if (output.contains("max_steps")) {
          most_steps = std::max(most_steps, output["max_steps"].get<double>());
          most_mean = std::max(most_mean, output["mean_steps"].get<double>());
        }
      }
    }
  }

  std::vector<std::string> cells(const std::string& name) const {
    std::vector<std::string> cells = {name, fmt::format("{}/{}", good_cases, cases)};
    for (size_t i = 0; i < kColumns.size(); ++i) cells.push_back(all[i] == 0 ? "-" : fmt::format("{}/{}", passed[i], all[i]));
    cells.push_back(least_gain > 1e8 ? "-" : fmt::format("{:+.1f}", least_gain));
    cells.push_back(most_steps < 0 ? "-" : fmt::format("{:.4g}", most_steps));
    cells.push_back(most_mean < 0 ? "-" : fmt::format("{:.4f}", most_mean));
    return cells;
  }
};

std::string line(const std::vector<std::string>& cells, bool markdown) {
  std::string text = markdown ? "|" : "";
  for (size_t i = 0; i < cells.size(); ++i)
    text += markdown ? fmt::format(" {} |", cells[i]) : i == 0 ? fmt::format("{:<32}", cells[i]) : fmt::format(" {:>10}", cells[i]);
  return text + "\n";
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

Result<Exceptions> read_exceptions(const std::string& path) {
  std::ifstream file(path);
  const nlohmann::json document = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("exceptions"))
    return fail(DiagnosticId::kFileNotFound, "no list of exceptions", "give --exceptions FILE", {.file = path});
  Exceptions exceptions;
  for (const nlohmann::json& entry : document["exceptions"])
    exceptions[{entry.value("case", ""), entry.value("check", "")}] = entry.value("cause", "");
  return exceptions;
}

Verdict judge(const std::vector<CaseResult>& results, const Exceptions& exceptions) {
  Verdict verdict;
  for (const CaseResult& result : results) {
    std::set<std::string> failing;
    for (const Check& check : result.checks) {
      if (check.passed) continue;
      failing.insert(check.name);
      if (exceptions.contains({result.name, check.name})) {
        ++verdict.excepted;
      } else {
        verdict.failures.push_back(fmt::format("{} {}: {}", result.name, check.name, one_line(check.text)));
      }
    }
    for (const auto& [key, cause] : exceptions)
      if (key.first == result.name && !failing.contains(key.second)) verdict.stale.push_back(key.first + " " + key.second);
  }
  return verdict;
}

std::vector<std::string> missing_operators(const std::vector<CaseResult>& results) {
  std::set<std::string> missing;
  for (const OpDef* op : all_ops()) missing.emplace(op->name);
  for (const CaseResult& result : results)
    for (const Check& check : result.checks)
      if (check.name == "operators")
        for (const nlohmann::json& name : check.figures["names"]) missing.erase(name.get<std::string>());
  return {missing.begin(), missing.end()};
}

std::string group_table(const std::vector<CaseResult>& results, bool markdown) {
  std::vector<std::string> header = {"group", "cases"};
  header.insert(header.end(), kColumns.begin(), kColumns.end());
  header.insert(header.end(), {"least dB", "max steps", "mean steps"});
  std::string text = line(header, markdown);
  if (markdown)
    text += "|---|" + [&] {
      std::string rule;
      for (size_t i = 1; i < header.size(); ++i) rule += "---:|";
      return rule;
    }() + "\n";
  std::map<std::string, Row> groups;
  Row all;
  for (const CaseResult& result : results) {
    groups[result.group()].add(result);
    all.add(result);
  }
  for (const auto& [name, row] : groups) text += line(row.cells(name), markdown);
  return text + line(all.cells("all"), markdown);
}

std::string page(const std::vector<CaseResult>& results, const Exceptions& exceptions) {
  std::string text = fmt::format("{} cases; {} exceptions.\n\n", results.size(), exceptions.size()) + group_table(results, true);
  text += "\n## Exceptions\n\n";
  if (exceptions.empty()) return text + "None.\n";
  text += "| case | check | what happens | cause |\n|---|---|---|---|\n";
  for (const auto& [key, cause] : exceptions) {
    std::string what = "not run";
    for (const CaseResult& result : results)
      for (const Check& check : result.checks)
        if (result.name == key.first && check.name == key.second) what = check.passed ? "passes" : one_line(check.text);
    text += fmt::format("| {} | {} | {} | {} |\n", key.first, key.second, what, cause);
  }
  return text;
}

}  // namespace dtr::conformance
