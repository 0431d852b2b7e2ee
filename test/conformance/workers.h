// Runs cases in processes of their own, several at once: a crash of one is a line of text, not the
// end of the run.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "test/conformance/check.h"

namespace dtr::conformance {

struct CaseResult {
  std::string name;  // of the folder: "cat_001"
  double seconds = 0;
  std::vector<Check> checks;

  // "cat" of "cat_001".
  std::string group() const { return name.substr(0, name.rfind('_')); }
};

struct WorkerOptions {
  unsigned jobs = 0;       // processes at once; 0: as many as the machine has threads
  unsigned seconds = 120;  // a case that takes longer is stopped
  const TargetDescription* target = find_target("imxrt700");
};

// Calls `done` for every case, in the order in which they end. A case that ends without its last
// word (crash, time limit) has a check named "crash" with what it printed to standard error. The
// caller has one thread.
void run_cases(const std::vector<std::filesystem::path>& cases, const WorkerOptions& options,
               const std::function<void(const CaseResult&)>& done);

nlohmann::json to_json(const CaseResult& result);
CaseResult case_from_json(const nlohmann::json& object);

}  // namespace dtr::conformance
