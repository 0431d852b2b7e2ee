// `deuteron eval` without its terminal: the accuracy of a program over a data set, beside that of
// the float model.
#pragma once

#include <functional>
#include <string>

#include "compiler/support/progress.h"
#include "host/accuracy/compare.h"
#include "host/commands/inference.h"
#include "host/commands/inputs.h"
#include "host/tasks/checkpoint.h"

namespace dtr {

struct EvaluateOptions {
  ProgramInput program;
  DataInput data;
  std::string labels = "label";       // array of class numbers
  std::string output = {};            // the one that is judged, by name or number; empty: the first
  ModelInput against = {};            // float model to run on the same data
  TaskExecutor& executor;             // runs the samples
  CheckpointOptions checkpoint = {};  // `identity` is computed
  ProgressFunction progress = {};
  std::function<void(const std::string&)> note = {};  // receives sentences about the checkpoint
};

struct Score {
  size_t samples = 0, float_right = 0, program_right = 0, agree = 0;
  size_t without_class = 0;               // the program gives NaN
  size_t nan_samples = 0, first_nan = 0;  // of the float model
  Sqnr sqnr;
};

struct EvaluationResult {
  Score score;
  std::string output;  // the name of the one that is judged
  size_t outputs = 0;  // that the program has
  bool has_labels = false, has_expected = false;
  bool is_int8 = false;                   // the program
  Inference inference;                    // of one sample
  std::vector<Diagnostic> warnings = {};  // of NaN among the inputs
};

// `first`: a session of the program; other workers open others beside it. Errors: those of reading,
// binding and running; kDataMissingArray (no labels and no outputs of the float model; no output of
// that name), kDataShape, kDataDtype, kDataNotFinite.
Result<EvaluationResult> evaluate(const EvaluateOptions& options, Session& first);

std::string to_text(const EvaluationResult& evaluation);
std::string to_json(const EvaluationResult& evaluation);

}  // namespace dtr
