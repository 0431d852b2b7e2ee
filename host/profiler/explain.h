// Explains in words why an operator costs its cycles, and what would make it cheaper.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "host/profiler/profile.h"
#include "host/simulator/array_calls.h"

namespace dtr {

struct Explanation {
  std::string costs;                   // one sentence
  std::vector<std::string> because;    // sentences, most cycles first
  std::vector<std::string> to_change;  // what would make it cheaper; empty if nothing is known
};

// The calls of the MAC array, by instruction of the program and command of its microcode.
using AdvisedCalls = std::map<std::pair<int32_t, int32_t>, simulator::ArrayCall>;

// `pte_file`: the program, for shapes; may be null. The row must have sources.
Explanation explain(const Profile& profile, const ProfileRow& row, const PteFile* pte_file,
                    const AdvisedCalls& advised = {});

// Explains up to `most` rows whose name, operator or module contains `name`, most cycles first.
std::string explain_text(const Profile& profile, const PteFile* pte_file,
                         const AdvisedCalls& advised, const std::string& name, size_t most);

}  // namespace dtr
