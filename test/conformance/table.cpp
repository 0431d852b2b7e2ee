#include "test/conformance/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <sstream>

#include "compiler/ir/op_def.h"
#include "test/conformance/attribution.h"

namespace dtr::conformance {
namespace {

// Kinds of checks, as columns.
constexpr std::array<std::string_view, 8> kColumns = {
    "float", "quantized", "equal", "cycles", "attribution", "layout", "neutron_ir", "placement"};
constexpr size_t kNeutronIr = 6;
static_assert(kColumns[kNeutronIr] == "neutron_ir");

size_t column_of(const std::string& check) {
  for (size_t i = 0; i < kColumns.size(); ++i)
    if (check.starts_with(kColumns[i])) return i;
  return kColumns.size();
}

// Checks by how they ended.
struct Counts {
  size_t passed = 0, failed = 0, refused = 0, not_compared = 0;

  void add(State state) {
    ++(state == State::kPassed        ? passed
       : state == State::kRefused     ? refused
       : state == State::kNotCompared ? not_compared
                                      : failed);
  }
  size_t all() const { return passed + failed + refused + not_compared; }
  // "55/63, 8 refused".
  std::string text() const {
    if (all() == 0) return "-";
    return fmt::format("{}/{}{}{}", passed, all(),
                       refused == 0 ? "" : fmt::format(", {} refused", refused),
                       not_compared == 0 ? "" : fmt::format(", {} not compared", not_compared));
  }
};

// Sums of a group of cases. Figures leave out the known exceptions.
struct Row {
  size_t cases = 0, good_cases = 0;
  std::array<Counts, kColumns.size()> counts = {};
  double least_gain = 1e9, most_steps = -1, most_mean = -1, elements = 0, different = 0, ties = 0;

  void add(const CaseResult& result, const Exceptions& exceptions) {
    ++cases;
    good_cases += std::all_of(result.checks.begin(), result.checks.end(),
                              [](const Check& check) { return check.passed(); })
                      ? 1
                      : 0;
    for (const Check& check : result.checks) {
      const size_t column = column_of(check.name);
      if (column == kColumns.size()) continue;
      counts[column].add(check.state);
      if (!check.figures.contains("outputs") || exceptions.contains({result.name, check.name}))
        continue;
      for (const nlohmann::json& output : check.figures["outputs"]) {
        if (output.contains("sqnr_db"))
          least_gain = std::min(least_gain, output["sqnr_db"].get<double>() -
                                                output["upstream_sqnr_db"].get<double>());
        if (output.contains("max_steps")) {
          most_steps = std::max(most_steps, output["max_steps"].get<double>());
          most_mean = std::max(most_mean, output["mean_steps"].get<double>());
          elements += output["elements"].get<double>();
          different += output["different"].get<double>();
          ties += output["ties"].get<double>();
        }
      }
    }
  }

  std::vector<std::string> checks() const {
    std::vector<std::string> cells = {fmt::format("{}/{}", good_cases, cases)};
    for (const Counts& column : counts) cells.push_back(column.text());
    return cells;
  }
  std::vector<std::string> figures() const {
    return {least_gain > 1e8 ? "-" : fmt::format("{:+.1f}", least_gain),
            most_steps < 0 ? "-" : fmt::format("{:.4g}", most_steps),
            most_mean < 0 ? "-" : fmt::format("{:.4f}", most_mean),
            elements == 0 ? "-" : fmt::format("{:.2f}", different / elements * 100),
            elements == 0 ? "-" : fmt::format("{:.2f}", ties / elements * 100)};
  }
};

// Rows by group, the last one "all".
std::vector<std::pair<std::string, Row>> rows_of(const std::vector<CaseResult>& results,
                                                 const Exceptions& exceptions) {
  std::map<std::string, Row> groups;
  Row all;
  for (const CaseResult& result : results) {
    groups[result.group()].add(result, exceptions);
    all.add(result, exceptions);
  }
  std::vector<std::pair<std::string, Row>> rows(groups.begin(), groups.end());
  rows.emplace_back("all", all);
  return rows;
}

std::vector<std::string> check_heads() {
  std::vector<std::string> heads = {"cases"};
  heads.insert(heads.end(), kColumns.begin(), kColumns.end());
  return heads;
}
const std::vector<std::string> kFigureHeads = {"least dB", "max steps", "mean steps", "% differ",
                                               "% ties"};

std::string markdown_row(const std::string& name, const std::vector<std::string>& cells) {
  return fmt::format("| {} | {} |\n", name, fmt::join(cells, " | "));
}

std::string markdown_head(const std::string& name, const std::vector<std::string>& cells) {
  std::string text = markdown_row(name, cells) + "|---|";
  for (size_t i = 0; i < cells.size(); ++i) text += "---:|";
  return text + "\n";
}

// Of the check "cycles".
std::string cycles_sentence(const std::vector<CaseResult>& results) {
  double total = 0, on_operators = 0, least = 1;
  std::map<std::string, double> rest;
  for (const CaseResult& result : results)
    for (const Check& check : result.checks) {
      if (!check.figures.contains("on_operators")) continue;
      const double all = check.figures["cycles"].get<double>(),
                   placed = check.figures["on_operators"].get<double>();
      total += all, on_operators += placed;
      if (placed > 0) least = std::min(least, placed / all);
      for (const auto& [kind, cycles] : check.figures["rest"].items())
        rest[kind] += cycles.get<double>();
    }
  if (total == 0) return "";
  std::string text = fmt::format(
      "\nOf the cycles of all programs {:.3f} % are traced to a source operator, of one at least "
      "{:.2f} %",
      on_operators / total * 100, least * 100);
  for (const auto& [kind, cycles] : rest)
    text += fmt::format("; {:.3f} %: {}", cycles / total * 100, kind);
  return text + ".\n";
}

// Of the Neutron IR: how much of it is compared at all.
std::string neutron_ir_sentence(const Row& all) {
  const Counts& counts = all.counts[kNeutronIr];
  return fmt::format(
      "\nOf {} files of Neutron IR {} are compiled, run and equal; {} are not equal, {} are "
      "refused and {} not compared, as named below.\n",
      counts.all(), counts.passed, counts.failed, counts.refused, counts.not_compared);
}

std::string exception_rows(const Exceptions& exceptions, State state) {
  std::string text;
  for (const auto& [key, exception] : exceptions)
    if (exception.state == state)
      text += fmt::format("| `{}` | {} | {} | {} |\n", key.first, key.second, exception.says,
                          exception.cause);
  return text;
}

std::string exception_table(const Exceptions& exceptions, State state) {
  const std::string rows = exception_rows(exceptions, state);
  return rows.empty()
             ? "None.\n"
             : "| case | check | what the check says | cause |\n|---|---|---|---|\n" + rows;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

Result<Exceptions> read_exceptions(const std::string& path) {
  std::ifstream file(path);
  const nlohmann::json document = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  Exceptions exceptions;
  for (const auto& [list, state] :
       {std::pair("exceptions", State::kFailed), std::pair("refused", State::kRefused),
        std::pair("not compared", State::kNotCompared)}) {
    if (!document.is_object() || !document.contains(list))
      return fail(DiagnosticId::kFileNotFound, fmt::format("no list \"{}\"", list),
                  "give --exceptions FILE", {.file = path});
    for (const nlohmann::json& entry : document[list]) {
      const std::string says = entry.value("says", "");  // an empty one would be part of any text
      if (says.empty())
        return fail(DiagnosticId::kFileNotFound, "an exception says nothing", {}, {.file = path});
      exceptions[{entry.value("case", ""), entry.value("check", "")}] = {
          .state = state, .says = says, .cause = entry.value("cause", "")};
    }
  }
  return exceptions;
}

Verdict judge(const std::vector<CaseResult>& results, const Exceptions& exceptions) {
  Verdict verdict;
  for (const CaseResult& result : results) {
    std::set<std::string> failing;
    for (const Check& check : result.checks) {
      if (check.passed()) {
        ++verdict.passed;
        continue;
      }
      failing.insert(check.name);
      const auto known = exceptions.find({result.name, check.name});
      if (known != exceptions.end() && known->second.state == check.state &&
          check.text.find(known->second.says) != std::string::npos) {
        ++(check.state == State::kRefused       ? verdict.refused
           : check.state == State::kNotCompared ? verdict.not_compared
                                                : verdict.excepted);
      } else {
        verdict.failures.push_back(fmt::format("{} {}: {}: {}", result.name, check.name,
                                               name(check.state), one_line(check.text)));
      }
    }
    for (const auto& [key, exception] : exceptions)
      if (key.first == result.name && !failing.contains(key.second))
        verdict.stale.push_back(key.first + " " + key.second);
  }
  return verdict;
}

std::vector<std::string> missing_operators(const std::vector<CaseResult>& results) {
  std::set<std::string> missing;
  // Operators that only TensorFlow Lite has are in no .pt2: LiteRT is their judge
  // (test/data/litert/make_detections.py). Those of plug-ins: test/lit/cli/plugins.test. `lookup`
  // is made by a pass alone: test/lit/passes/fold_lookups.ir, test/data/kernels/moving.json.
  for (const OpDef* op : all_ops())
    if (!op->name.starts_with("tflite.") && op->name != "deuteron.custom" && op->name != "lookup")
      missing.emplace(op->name);
  for (const CaseResult& result : results)
    for (const Check& check : result.checks)
      if (check.name == "operators")
        for (const nlohmann::json& name : check.figures["names"])
          missing.erase(name.get<std::string>());
  return {missing.begin(), missing.end()};
}

std::string group_table(const std::vector<CaseResult>& results, const Exceptions& exceptions) {
  std::string text;
  const auto add = [&](const std::string& name, std::vector<std::string> cells,
                       const std::vector<std::string>& more) {
    cells.insert(cells.end(), more.begin(), more.end());
    text += fmt::format("{:<32}", name);
    for (const std::string& cell : cells) text += fmt::format(" {:>10}", cell);
    text += "\n";
  };
  add("group", check_heads(), kFigureHeads);
  for (const auto& [name, row] : rows_of(results, exceptions))
    add(name, row.checks(), row.figures());
  return text;
}

std::string page(const std::vector<CaseResult>& results, const Exceptions& exceptions) {
  const auto rows = rows_of(results, exceptions);
  std::string text = fmt::format(R"(# Conformance

<!-- Written by `make conformance` from a run of the full set; test/conformance/exceptions.json holds the exceptions. -->

{} cases through the whole compiler and the simulated NPU: those of the full set (names in `test/conformance/cases.txt`, small ones of each group
committed in `test/data/conformance`), exported with PyTorch from the graphs that upstream's NXP backend is tested with, and our own,
`own_*`, for operators that those do not hold. `make test` runs all of them where the full set is there, the committed ones elsewhere, and
fails if a check fails, if an operator of docs/operators.md is in no case, or if this page is not what the run says.

## Checks

Passed of all; what is refused or has nothing to compare with has not passed. Every check that has not passed is named below, with its
cause. The cases are compiled with every operator forced to the NPU that it can run (`weigh_costs = false`, as `--force-on all`): by default a
program leaves to the CPU what is faster there.

| check | what has to hold |
|---|---|
| float | The float model, calibrated and compiled, against PyTorch's float output: at most 1 dB below upstream's own quantized output; at least 30 dB where that is below 25 dB, and in `own_*`. |
| quantized | The quantized model compiled as it is, against PyTorch's evaluation: at most one step for each operator that computes on the way, {} steps on average. An element whose real result, in double precision, is half-way between two codes may be either: PyTorch rounds such ties to even, the integer specification away from zero. |
| equal | The simulated program equals the integer reference, both models. |
| cycles | At least 99 % of a run's cycles lie on operators of the model, and with the rest they are all of them (docs/profiling.md), both models. |
| attribution | {} |
| layout | With inputs in the other layout: equal results, cycles within 1 %, both models. |
| neutron_ir | Upstream's Neutron IR compiled and run: every element equal to what TFLite's reference kernels compute. |
| placement | Nothing that upstream delegates is left to the CPU, both models. |

)",
                                 results.size(), kMeanSteps, kAttributionRule);
  text += markdown_head("group", check_heads());
  for (const auto& [name, row] : rows) text += markdown_row(name, row.checks());
  text += neutron_ir_sentence(rows.back().second) + R"(
## Figures

The worst of each group, without the exceptions. Least dB: SQNR of the float model minus that of upstream's quantized output (own cases: minus
30 dB). Steps: of the quantized model against PyTorch, at one element and on average over an output, ties apart. % differ: elements of those outputs
that differ at all; % ties: those of them whose real result is a tie.

)" + markdown_head("group", kFigureHeads);
  for (const auto& [name, row] : rows) text += markdown_row(name, row.figures());
  return text + cycles_sentence(results) + R"(
## Exceptions

`test/conformance/prove_exceptions.py` proves each cause with PyTorch. An exception holds only while the check fails in the way that is
said here; one that passes has to leave the list.

)" + exception_table(exceptions, State::kFailed) +
         R"(
## Refused

What the compiler does not take, with its error. A refusal that is not named here, or that gives another reason, is a failure.

)" + exception_table(exceptions, State::kRefused) +
         R"(
## Not compared

Compiled, but nothing says what the result should be.

)" + exception_table(exceptions, State::kNotCompared);
}

std::vector<std::string> stale_lines(const std::string& page,
                                     const std::vector<CaseResult>& results,
                                     const Exceptions& exceptions, bool full_set) {
  std::vector<std::string> stale;
  const auto lines_of = [](const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  };
  std::string wanted;
  if (full_set) {
    wanted = conformance::page(results, exceptions);
  } else {
    for (const State state : {State::kFailed, State::kRefused, State::kNotCompared})
      wanted += exception_rows(exceptions, state);
  }
  const std::vector<std::string> ours = lines_of(wanted), theirs = lines_of(page);
  const std::set<std::string> known(ours.begin(), ours.end()), said(theirs.begin(), theirs.end());
  for (const std::string& line : ours)
    if (!said.contains(line)) stale.push_back("lacks: " + line);
  for (const std::string& line : theirs)
    if (!known.contains(line) && (full_set || line.starts_with("| `")))
      stale.push_back("should not say: " + line);
  return stale;
}

}  // namespace dtr::conformance
