// What a run of the conformance cases says: for people, and as the page docs/conformance.md.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/result.h"
#include "test/conformance/workers.h"

namespace dtr::conformance {

// Known exceptions: why a check of a case does not hold.
using Exceptions = std::map<std::pair<std::string, std::string>, std::string>;  // (case, check) → cause

// {"exceptions": [{"case": "cat_001", "check": "float", "cause": "…"}, …]}. Errors: kFileNotFound (missing or damaged).
Result<Exceptions> read_exceptions(const std::string& path);

struct Verdict {
  std::vector<std::string> failures;  // "cat_001 float: …": checks that fail without being a known exception
  std::vector<std::string> stale;     // exceptions that hold nothing back any more
  size_t excepted = 0;
};
Verdict judge(const std::vector<CaseResult>& results, const Exceptions& exceptions);

// Operators of ops/ops.inc that no case holds.
std::vector<std::string> missing_operators(const std::vector<CaseResult>& results);

// One line a group of cases, passed/all of every kind of check, the least distance to upstream and the most steps; then all groups.
std::string group_table(const std::vector<CaseResult>& results, bool markdown);
// The page: figures by group, distributions, exceptions with their causes, every case.
std::string page(const std::vector<CaseResult>& results, const Exceptions& exceptions);

}  // namespace dtr::conformance
