// Calibration: runs the float graph over samples and remembers what each value's elements were.
#pragma once

#include <map>
#include <string>

#include "compiler/executors/executor.h"
#include "compiler/ir/samples.h"
#include "compiler/quantizer/annotate.h"
#include "compiler/quantizer/observer.h"
#include "compiler/support/progress.h"

namespace dtr {

struct CalibrationResult {
  size_t samples = 0;
  // By the value's name in the float graph: all that the annotation observes, and those that
  // convolutions and linear layers read.
  std::map<std::string, ValueStatistics, std::less<>> values;
  std::map<std::string, ChannelStatistics, std::less<>> channels;
  bool operator==(const CalibrationResult&) const = default;
};

struct CalibrationOptions {
  unsigned threads =
      0;  // samples at once; 0: all of the machine. The result does not depend on it.
  ProgressFunction progress = {};
};

// Observes the values that `annotation` asks for. The executor may hand (N, C, H, W) to the
// observer as (N, H, W, C). Errors: kCalibrationMissing (no samples), kDataNotFinite (in the
// samples), kCalibrationNotFinite (the model makes NaN, or an infinity that is not only a result:
// names the first operator and sample), and those of the executor.
Result<CalibrationResult> calibrate(const Module& module, const Graph& graph,
                                    const Annotation& annotation, Executor& executor,
                                    const Samples& samples, const CalibrationOptions& options = {});

// One JSON document: {"format": "deuteron-calibration", "version": 1, "samples": n, "values":
// {name: {"min", "max", "zeros", "count", "exponent", "first_bin", "bins"}}, "channels": {name:
// {"axis", "min", "max", "mean"}}}; without a histogram the last three of a value are absent; of a
// value with few distinct elements there are these only: {"elements": [ascending], "counts": […]}.
// Saved numbers load as the same bits.
std::string to_json(const CalibrationResult& calibration);
Result<void> save_calibration(const std::string& path, const CalibrationResult& calibration);
// Errors: kFileNotFound, kCalibrationInvalid. `file` names the text in messages.
Result<CalibrationResult> parse_calibration(std::string_view text, const std::string& file);
Result<CalibrationResult> load_calibration(const std::string& path);

}  // namespace dtr
