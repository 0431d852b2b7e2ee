// Calibration: runs the float graph on samples and collects statistics of the elements of each
// value.
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
  bool on_noise = false;  // samples were random numbers: the ranges fit no real input
  // Hash of the float constants of the model that was run (hash_of_weights); 0: not known.
  uint64_t weights = 0;
  // By the value's name in the float graph: values that the annotation observes, and operands of
  // convolutions and linear layers.
  std::map<std::string, ValueStatistics, std::less<>> values;
  std::map<std::string, ChannelStatistics, std::less<>> channels;
  // Values that the annotation observes and that have NaN or infinity on a sample, though no output
  // has: by name the first such sample. They are not in `values` and have no range.
  std::map<std::string, size_t, std::less<>> not_finite;
  // Ops that stay float for a steep function (steep_functions.h), by the name of their result: the
  // signal-to-noise ratio in dB that what is computed from the function has in int8.
  std::map<std::string, double, std::less<>> steep;
  bool operator==(const CalibrationResult&) const = default;
};

// Whether there are statistics of all values that the group observes and that are not constant.
bool has_statistics(const Graph& graph, const QuantizationGroup& group,
                    const CalibrationResult& calibration);
// The same of all groups.
bool is_complete(const Graph& graph, const Annotation& annotation,
                 const CalibrationResult& calibration);

// Of all constants of dtype float32, in the order in which they were read.
uint64_t hash_of_weights(const ConstantPool& constants);

struct CalibrationOptions {
  unsigned threads =
      // samples that are run concurrently; 0: one for each processor. The result does not depend on
      // it.
      0;
  ProgressFunction progress = {};
};

// Observes the values that `annotation` lists. The executor may pass (N, C, H, W) to the observer
// as (N, H, W, C). Errors: kCalibrationMissing (no samples), kDataNotFinite (in the samples),
// kCalibrationNotFinite (an output has NaN, or an observed value NaN or infinity, and so has an
// output of the same sample or there is nothing else in it; names the first operator and sample),
// and those of the executor.
Result<CalibrationResult> calibrate(const Module& module, const Graph& graph,
                                    const Annotation& annotation, Executor& executor,
                                    const Samples& samples, const CalibrationOptions& options = {});

// One JSON document: {"format": "deuteron-calibration", "version": 1, "samples": n, "on_noise":
// true, "weights": "16 hexadecimal digits", "values": {name: {"min", "max", "zeros", "count",
// "exponent", "first_bin", "bins"}}, "channels": {name: {"axis", "min", "max", "mean"}},
// "not_finite": {name: sample}, "steep": {name: dB}}; the last two only if there are such values. A
// value without a histogram lacks the last three members; a value with few distinct elements has
// only
// {"elements": [ascending], "counts": […]}. Saved numbers load as the same bits.
std::string to_json(const CalibrationResult& calibration);
// Error: kFileNotWritable.
Result<void> save_calibration(const std::string& path, const CalibrationResult& calibration);
// Errors: kFileNotFound, kCalibrationInvalid. `file` names the text in messages.
Result<CalibrationResult> parse_calibration(std::string_view text, const std::string& file);
// The same from a file.
Result<CalibrationResult> load_calibration(const std::string& path);

}  // namespace dtr
