// What a run of the conformance cases says: for people, and as the page docs/conformance.md.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/support/result.h"
#include "test/conformance/workers.h"

namespace dtr::conformance {

// A known exception: that a check of a case fails, is refused or has nothing to compare with, and
// why. `says` is part of the check's text: what ends in another way is no exception.
struct Exception {
  State state = State::kFailed;
  std::string says, cause;
};
using Exceptions = std::map<std::pair<std::string, std::string>, Exception>;  // (case, check)

// {"exceptions": [{"case": "cat_001", "check": "float", "says": "…", "proof": "…", "cause": "…"},
// …], "refused": [{"case": "conv_136", "check": "neutron_ir_0", "says": "…", "cause": "…"}, …],
// "not compared": […]}; prove_exceptions.py reads `proof`. Errors: kFileNotFound (missing or
// damaged).
Result<Exceptions> read_exceptions(const std::string& path);

struct Verdict {
  std::vector<std::string>
      failures;  // "cat_001 float: …": checks that have not passed without being a known exception
  std::vector<std::string> stale;  // exceptions that hold nothing back any more
  size_t passed = 0;               // checks, as the next ones
  size_t excepted = 0;             // failed, as is known
  size_t refused = 0, not_compared = 0;
};
Verdict judge(const std::vector<CaseResult>& results, const Exceptions& exceptions);

// Operators of compiler/ops that no case holds.
std::vector<std::string> missing_operators(const std::vector<CaseResult>& results);

// One line a group of cases, passed/all of every kind of check, the least distance to upstream and
// the most steps; then all groups.
std::string group_table(const std::vector<CaseResult>& results, const Exceptions& exceptions);
// The page docs/conformance.md, of a run of the full set: checks by group, figures by group,
// exceptions with their causes.
std::string page(const std::vector<CaseResult>& results, const Exceptions& exceptions);
// What of that page a run of `results` can say and another page says otherwise: lines that it lacks
// or should not have. The full set says every line of the page, others the exceptions.
std::vector<std::string> stale_lines(const std::string& page,
                                     const std::vector<CaseResult>& results,
                                     const Exceptions& exceptions, bool full_set);

}  // namespace dtr::conformance
