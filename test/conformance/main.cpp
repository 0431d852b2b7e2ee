// deuteron-conformance: every case of a folder, judged as docs/conformance.md says.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "compiler/support/output_file.h"
#include "host/commands/compile_options.h"
#include "test/conformance/table.h"

namespace {

using namespace dtr;
using namespace dtr::conformance;

enum ExitCode : int { kGood = 0, kFailed = 1, kUsage = 2 };

struct Options {
  std::string data, filter = ".", results, json, markdown, check, exceptions;
  unsigned jobs = 0, seconds = 120;
  bool list = false, resume = false;
  std::string target = "imxrt700";
};

constexpr const char* kCommitted = DTR_SOURCE "/test/data/conformance";

// Folder of the full set if it is there, else of the committed cases.
std::filesystem::path default_data() {
  const char* shared = std::getenv("DEUTERON_SHARED");
  if (shared != nullptr && std::filesystem::exists(std::filesystem::path(shared) / "conformance"))
    return std::filesystem::path(shared) / "conformance";
  return kCommitted;
}

// The cases of `data`, and our own, which are only among the committed ones.
std::vector<std::filesystem::path> find_cases(const std::filesystem::path& data,
                                              const std::regex& filter) {
  std::map<std::string, std::filesystem::path> cases;
  std::error_code missing;
  for (const std::filesystem::path& from : {std::filesystem::path(kCommitted), data})
    for (const auto& entry : std::filesystem::directory_iterator(from, missing)) {
      const std::string name = entry.path().filename();
      if ((from == data || name.starts_with("own_")) &&
          std::filesystem::exists(entry.path() / "float.pt2") && std::regex_search(name, filter))
        cases[name] = entry.path();
    }
  std::vector<std::filesystem::path> folders;
  for (auto& [name, folder] : cases) folders.push_back(std::move(folder));
  return folders;
}

// Results of an earlier run that was ended, a line of JSON a case; a last line that is incomplete
// does not count.
std::vector<CaseResult> read_results(const std::string& path) {
  std::vector<CaseResult> results;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
        object.is_object())
      results.push_back(case_from_json(object));
  return results;
}

std::vector<CaseResult> run(const Options& options, const TargetDescription& target,
                            std::vector<std::filesystem::path> cases) {
  std::vector<CaseResult> results;
  if (options.resume) {
    std::set<std::string> wanted;
    for (const auto& folder : cases) wanted.insert(folder.filename());
    for (CaseResult& result : read_results(options.results))
      if (wanted.erase(result.name) > 0) results.push_back(std::move(result));
    std::erase_if(cases, [&](const auto& folder) { return !wanted.contains(folder.filename()); });
  }
  std::ofstream file;
  if (!options.results.empty())
    file.open(options.results, options.resume ? std::ios::app : std::ios::trunc);
  run_cases(cases, {.jobs = options.jobs, .seconds = options.seconds, .target = &target},
            [&](const CaseResult& result) {
              if (file.is_open())
                file << to_json(result).dump(-1, ' ', false,
                                             nlohmann::json::error_handler_t::replace)
                     << std::endl;
              results.push_back(result);
            });
  std::sort(results.begin(), results.end(),
            [](const CaseResult& a, const CaseResult& b) { return a.name < b.name; });
  return results;
}

// Cases of the full set: a line each in cases.txt.
struct FullSet {
  size_t count = 0, ran = 0;
  bool complete() const { return ran == count; }
};

FullSet full_set(const std::vector<CaseResult>& results) {
  std::set<std::string> names;
  for (const CaseResult& result : results) names.insert(result.name);
  FullSet set;
  std::ifstream file(DTR_SOURCE "/test/conformance/cases.txt");
  for (std::string line; std::getline(file, line); ++set.count)
    set.ran += names.contains(line) ? 1 : 0;
  return set;
}

int report(const Options& options, const std::vector<CaseResult>& results,
           const Exceptions& exceptions) {
  Verdict verdict = judge(results, exceptions);
  const FullSet set = full_set(results);
  if (!options.check.empty()) {
    std::stringstream text;
    text << std::ifstream(options.check).rdbuf();
    for (const std::string& line : stale_lines(text.str(), results, exceptions, set.complete()))
      verdict.failures.push_back(
          fmt::format("{} is out of date, run `make conformance` with the full set; it {}",
                      options.check, line));
  }
  if (options.filter == Options().filter)
    for (const std::string& op : missing_operators(results))
      verdict.failures.push_back(fmt::format("operators: no case holds {}", op));
  for (const std::string& failure : verdict.failures) fmt::print("FAIL {}\n", failure);
  for (const std::string& stale : verdict.stale)
    fmt::print("PASS {}: no exception any more, take it off the list\n", stale);
  if (!results.empty()) fmt::print("{}", group_table(results, exceptions));
  fmt::print(
      "{} of {} cases, {} of our own, {} checks passed, {} failures, {} known exceptions, {} "
      "refused and {} not compared as known\n",
      set.ran, set.count, results.size() - set.ran, verdict.passed, verdict.failures.size(),
      verdict.excepted, verdict.refused, verdict.not_compared);
  if (options.filter == Options().filter &&
      !set.complete())  // for the line behind ctest's summary (scripts/not_run)
    fmt::print("NOT RUN: {} of {} conformance cases (no DEUTERON_SHARED)\n", set.count - set.ran,
               set.count + results.size() - set.ran);
  if (!options.markdown.empty() && !set.complete())
    fmt::print("{} is written from the full set (DEUTERON_SHARED)\n", options.markdown);
  nlohmann::json all = nlohmann::json::array();
  for (const CaseResult& result : results) all.push_back(to_json(result));
  for (const auto& [path, text] :
       {std::pair(options.json,
                  all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"),
        std::pair(set.complete() ? options.markdown : std::string(), page(results, exceptions))})
    if (!path.empty())
      if (const Result<void> written = write_file(path, text); !written) {
        fmt::print(stderr, "{}\n", to_text(written.error()));
        return kFailed;
      }
  return verdict.failures.empty() && verdict.stale.empty() && !results.empty() ? kGood : kFailed;
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  options.data = default_data();
  options.exceptions = DTR_SOURCE "/test/conformance/exceptions.json";
  CLI::App app(
      "Compiles and runs conformance cases and holds them against PyTorch, upstream and TFLite's "
      "reference kernels.",
      "deuteron-conformance");
  app.add_option("--data", options.data,
                 "Folder of cases; default: DEUTERON_SHARED/conformance, else the committed ones")
      ->check(CLI::ExistingDirectory);
  app.add_option("--filter", options.filter,
                 "Only cases whose name matches this regular expression, for example '^cat_'");
  app.add_option("--jobs", options.jobs, "Cases at once (0: all threads)");
  app.add_option("--seconds", options.seconds, "Time limit of a case")->capture_default_str();
  CLI::Option* results = app.add_option("--results", options.results,
                                        "Write a line of JSON here as soon as a case is done");
  app.add_flag("--resume", options.resume, "Do not run again what --results already holds")
      ->needs(results);
  app.add_option("--json", options.json, "Write all results as one JSON document");
  app.add_option("--markdown", options.markdown,
                 "Write the page docs/conformance.md, if the full set runs");
  app.add_option("--check", options.check, "Fail if this page says something else than the run")
      ->check(CLI::ExistingFile);
  app.add_option("--exceptions", options.exceptions, "Known exceptions (JSON)");
  app.add_option("--target", options.target, "Target, or a target file")->capture_default_str();
  app.add_flag("--list", options.list, "Only list the cases");
  try {
    app.parse(argc, argv);
    const std::vector<std::filesystem::path> cases =
        find_cases(options.data, std::regex(options.filter));
    if (options.list) {
      for (const auto& folder : cases) fmt::print("{}\n", folder.filename().string());
      return kGood;
    }
    const Result<Exceptions> exceptions = read_exceptions(options.exceptions);
    if (!exceptions) {
      fmt::print(stderr, "{}\n", to_text(exceptions.error()));
      return kUsage;
    }
    const Result<const TargetDescription*> target = resolve_target(options.target);
    if (!target) {
      fmt::print(stderr, "{}\n", to_text(target.error()));
      return kUsage;
    }
    return report(options, run(options, **target, cases), *exceptions);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kGood : kUsage;
  } catch (const std::regex_error& error) {
    fmt::print(stderr, "--filter: {}\n", error.what());
    return kUsage;
  }
} catch (const std::exception& error) {  // of the standard library: no memory, say
  std::fprintf(stderr, "deuteron-conformance: %s\n", error.what());
  return kFailed;
}
