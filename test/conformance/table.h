// What a run of the conformance cases says: for people, and as the page docs/conformance.md.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/result.h"
#include "test/conformance/workers.h"

namespace dtr::conformance {

// Known exceptions: why a check of a case does not hold. `says` is part of the check's text: what fails in another way is no exception.
struct Exception {
  std::string says, cause;
};
using Exceptions = std::map<std::pair<std::string, std::string>, Exception>;  // (case, check)

// {"exceptions": [{"case": "cat_001", "check": "float", "says": "…", "proof": "…", "cause": "…"}, …]}; prove_exceptions.py reads `proof`.
// Errors: kFileNotFound (missing or damaged).
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
std::string group_table(const std::vector<CaseResult>& results, const Exceptions& exceptions);
// The page docs/conformance.md, of a run of the full set: checks by group, figures by group, exceptions with their causes.
std::string page(const std::vector<CaseResult>& results, const Exceptions& exceptions);
// What of that page a run of `results` can say and another page says otherwise: lines that it lacks. Without the full set, exceptions.
std::vector<std::string> stale_lines(const std::string& page, const std::vector<CaseResult>& results, const Exceptions& exceptions,
                                     bool full_set);

}  // namespace dtr::conformance
