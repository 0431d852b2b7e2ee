// Runs other programs and waits for their end.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace dtr {

struct ProcessResult {
  int exit_code = 0;  // −1: ended by a signal, or killed at the time limit
  bool timed_out = false;
  std::string output;  // standard output and error, interleaved
};

// Runs `arguments[0]`, found through PATH, in `folder`, without input. Its temporary files are
// there too, so that what it leaves when it is killed is removed with the folder; in `.`, they are
// where the environment says. Error: kFirmwareRun if it does not exist.
Result<ProcessResult> run_process(const std::vector<std::string>& arguments,
                                  const std::string& folder, std::chrono::seconds limit);

// The last 2,000 bytes of a program's output, encoded for a terminal, to append to the reason of a
// diagnostic (":" and each line after a bar); empty if there is no output.
std::string end_of_output(std::string_view output);

}  // namespace dtr
