// Results of tasks in a file, so that a run that was ended goes on where it was. The file begins
// with what run it belongs to. Each result is appended as soon as it is there, by one write and
// with a checksum. What a killed process wrote incompletely is cut off when the run goes on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/tasks/tasks.h"

namespace dtr {

struct CheckpointOptions {
  std::string path;       // empty: none
  bool resume = false;    // go on with a file that is there
  uint64_t identity = 0;  // equal for runs whose results are the same: of program, data and options
};

// The results in the bytes of a checkpoint.
struct CheckpointContent {
  std::map<size_t, std::vector<std::byte>> results;  // by task
  size_t good_bytes = 0;  // of header and complete results; damage begins behind them
};

// Reads a checkpoint up to the first record that is incomplete or damaged; any bytes may be given.
// Errors, after which the file is not written to: kCheckpointDamaged (the bytes begin with no
// header), kCheckpointMismatch (with that of another run).
Result<CheckpointContent> parse_checkpoint(std::span<const std::byte> bytes, uint64_t identity,
                                           size_t tasks, const std::string& path);

// An executor that keeps results in a file, around another one, which outlives it. The file stays
// when the run is done. Of a stream all tasks run again, and nothing is kept. `note` receives one
// sentence, of what was found in the file. Errors, besides those of `executor`: kCheckpointExists
// (a file is there and is not to be resumed), kCheckpointInUse, those of parse_checkpoint,
// kFileNotWritable, kFileNotFound (of one to resume).
std::unique_ptr<TaskExecutor> with_checkpoint(TaskExecutor& executor, CheckpointOptions options,
                                              std::function<void(const std::string&)> note);

}  // namespace dtr
