// `--accuracy auto`: searches the settings under which the int8 program is nearest to the float
// model.
//
// Every fourth calibration sample is held out (of a model with states: the last quarter of the
// stream). A candidate is compiled with ranges of the others, and its program runs on the held-out
// ones in the simulator: the integers are those of the device. Steps are tried one after the other
// on the best program so far, cheap ones first; what gains less than 0.1 dB (1 dB once the goal is
// reached, if it saves no cycles), loses a labelled sample or costs more than 2 % of the cycles is
// rejected. If there is a goal that these steps do not reach, operators become float on the CPU:
// those that remove most error a cycle first, until the goal is reached. If the model is small,
// each sample is then held out once, and what the program lacks of the goal is asked of it in
// addition. At the end the settings are compiled with ranges of all samples; if the default,
// compiled so, is better, the default is the result.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/ir/npz.h"
#include "compiler/pipeline/accuracy_summary.h"
#include "compiler/pipeline/compile.h"
#include "host/tasks/tasks.h"

namespace dtr {

inline constexpr double kLeastGain = 0.1;  // dB; what gains less is not better
// The goal where none is given: decibels, and with labelled data a share of the samples and fewer
// decibels, because few labels tell little of the next sample.
inline constexpr double kOwnSqnr = 35, kOwnLabelledSqnr = 30, kOwnMaxLoss = 0.005;

struct AccuracySearchOptions {
  // No goal, and operators become float until no other one removes error: for the frontier of error
  // and cycles. The last compilation is left out.
  bool frontier = false;
  std::optional<double> max_loss;  // share of labelled samples; needs them
  std::optional<double> min_sqnr;  // dB, of the worst output over all judged samples
  double seconds = 60;             // of wall time; the only thing that results depend on besides
                                   // model, data and settings
  // Labelled data (.npz): inputs, and `labels`, the array of class numbers. Empty: none. With
  // arrays, the path is a name for messages.
  std::string data;
  std::span<const NamedTensor> arrays = {};
  std::string labels = "label";
  // Compiles and judges candidates; null: this process, on the settings' threads. Workers run ahead
  // of the search: candidates that it probably tries next are judged beside the one that it needs.
  TaskExecutor* executor = nullptr;
  std::function<void(std::string_view step)> on_step = {};  // before each is tried
};

struct AccuracySearchResult {
  // Of the best program: those that were given, with the steps kept, without hooks. Samples that
  // the caller binds are bound once: the settings refer to `first`.
  CompileSettings settings;
  AccuracySummary summary;
  std::unique_ptr<Compilation> first;
};

// `settings` are the default that the result is held against; their samples must be given. Of their
// hooks, on_read and progress are called, for the first compilation alone. `source` is compiled
// many times: a path or bytes. An interrupt (SIGINT) or the end of the time ends the search with
// the best so far. Errors: those of compile_model and Session for the default; those of the
// executor; kAccuracyOptions (a
// module in memory, labels without a class for each output); kCalibrationUnused (the model comes
// quantized); those of reading and binding `data`; kDataMissingArray (no labels), kDataShape.
Result<AccuracySearchResult> search_accuracy(const ModelSource& source,
                                             const CompileSettings& settings,
                                             const AccuracySearchOptions& options);

}  // namespace dtr
