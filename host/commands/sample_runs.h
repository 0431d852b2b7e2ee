// `deuteron run` without its terminal: runs of a program on samples.
#pragma once

#include <vector>

#include "compiler/ir/samples.h"
#include "host/session/session.h"
#include "host/tasks/tasks.h"

namespace dtr {

struct SampleRuns {
  std::vector<std::vector<Tensor>> outputs;  // of the first run of each sample, in their order
  RunStats stats;                            // of all runs; the last one is that of the last sample
};

// Runs the first `count` samples, each `repeat` times. `session` is the first that `executor` uses;
// a program with states takes the samples as one stream. Errors: those of Session, of the failing
// sample with the lowest number.
Result<SampleRuns> run_samples(Session& session, const Samples& samples, size_t count,
                               uint32_t repeat, TaskExecutor& executor,
                               const ProgressFunction& progress);

}  // namespace dtr
