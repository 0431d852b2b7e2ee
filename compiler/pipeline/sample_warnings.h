// Warnings about samples on which ranges were chosen: what makes good ranges unlikely, before
// anybody looks at an accuracy.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/pipeline/compilation.h"
#include "compiler/pipeline/report.h"

namespace dtr {

// Fewer samples than this draw a warning; and no sample is held out of fewer.
inline constexpr size_t kFewSamples = 8;

// Of a float model that was calibrated on real samples:
//   kCalibrationPicked      a note: not all samples of the data were taken
//   kCalibrationFew         fewer than kFewSamples
//   kCalibrationConstant    a float input has one value everywhere, or all samples are equal
//   kCalibrationIndex       an index is outside of its dimension, on any sample, or on up to 8
//                           if layers with weights compute it; of models that come quantized, too
//   kCalibrationUnprepared  on up to 8 samples, the operand of the model's first batch norm has, in
//                           the median channel, more than 4 times or less than a quarter of the
//                           standard deviation that the batch norm stored in training, or a mean
//                           more than 4 deviations from the stored one. Batch norms that were never
//                           trained (mean 0 and variance 1 in all channels) are not asked.
// Errors: those of executors.
Result<std::vector<Diagnostic>> sample_warnings(const Compilation& compilation);

// kCalibrationUnlike, if `others` (from `file`) are unlike the calibration samples: more than 1 %
// of the elements of an input are outside of the calibrated range, or their standard deviation is
// less than 1/8 of the calibrated one.
std::optional<Diagnostic> warn_of_unlike_samples(const Graph& graph, const Samples& calibrated,
                                                 const Samples& others, const std::string& file);

// That an output of an int8 program is far from the float model's on calibration samples, if it has
// less than kLowAccuracyDecibels: the check of `compile` refuses only what is hardly more than
// zeros. None on noise, which says nothing of accuracy, and from `accepted` decibels on.
std::optional<Diagnostic> accuracy_warning(const OutputCheck& check, std::optional<double> accepted,
                                           const std::string& file);

}  // namespace dtr
