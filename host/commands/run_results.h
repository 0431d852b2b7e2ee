// `deuteron run` without its terminal: outputs, warnings and figures of runs.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/npz.h"
#include "compiler/ir/samples.h"
#include "host/session/session.h"

namespace dtr {

// The outputs of each sample as one array an output, `output_0`, …: samples are along a new first
// axis; a batch axis of 1 is that axis. At least one sample.
std::vector<NamedTensor> stacked(const std::vector<std::vector<Tensor>>& by_sample);

// One warning (kRunInputNan) for each input that holds NaN in one of the first `count` samples,
// because quantizing converts NaN to an ordinary number. `file` names the data in messages.
std::vector<Diagnostic> nan_warnings(const Graph& signature, const Samples& samples, size_t count,
                                     const std::string& file);

// Error: kRunInput, if samples are to be repeated and the program has states: each run depends on
// those before it.
Result<void> check_repeat(const Session& session, uint32_t repeat);

// The kernel or delegate of each step of the program.
std::vector<std::string> step_names(const PteFile& pte_file);
// The cycles and the time of one inference, memory touched and simulation time of runs over so many
// samples.
std::string stats_json(const PteFile& pte_file, const RunStats& stats, size_t samples);

}  // namespace dtr
