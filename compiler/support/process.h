// Other programs, run to their end.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace dtr {

struct ProcessResult {
  int exit_code = 0;  // −1: ended by a signal, or by us after the time limit
  bool timed_out = false;
  std::string output;  // standard output and error, as they came
};

// Runs `arguments[0]`, looked up in PATH, in `folder`, without input. Errors: kFirmwareRun, if it
// is not there.
Result<ProcessResult> run_process(const std::vector<std::string>& arguments,
                                  const std::string& folder, std::chrono::seconds limit);

// The last 2,000 bytes of what a program printed, to stand behind the reason of a diagnostic (":"
// and each line behind a bar), encoded for a terminal; empty if it printed nothing.
std::string end_of_output(std::string_view output);

}  // namespace dtr
