// What the search of `--accuracy auto` did (host/accuracy/accuracy_search.h), for reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/diagnostic.h"

namespace dtr {

// A program that was tried.
struct AccuracyStep {
  enum class Verdict : uint8_t { kStart, kKept, kRejected, kMeasured, kFailed };
  std::string name;                // "equalize", "float: conv2d_3 + relu_3"
  double sqnr_db = 0;              // of the worst output, over all judged samples
  std::optional<double> accuracy;  // share of labelled samples in the right class
  // Share of judged samples in the float model's class; empty: the output does not look like
  // scores.
  std::optional<double> same_class = {};
  // The same two over all samples, each held out once; only of steps that are judged so.
  std::optional<double> folds_db = {}, folds_same_class = {};
  uint64_t cycles = 0;  // of an inference: NPU as simulated, CPU as estimated
  Verdict verdict = Verdict::kStart;
  std::string why;  // of a verdict that the numbers do not tell
  // Of the command, besides those that were given: {"--equalize", "--keep-float", "name:relu_3"}.
  std::vector<std::string> options = {};
};

struct AccuracySummary {
  size_t calibrated = 0, judged = 0, labelled = 0;  // samples
  bool held_out = false;  // programs are judged on samples that they were not calibrated on
  bool in_turn = false;   // every sample is, each with ranges of others, because there are few
  bool stream = false;    // samples are in their order, the judged ones behind the others
  std::optional<double> float_accuracy;
  std::vector<AccuracyStep> steps;   // in the order in which they were tried
  AccuracyStep start, result;        // calibrated on all samples: the default, and the program
  std::string goal;                  // "35.0 dB"; empty: none
  bool own_goal = false;             // the goal is the search's own: none was given
  bool met = true;                   // the goal, by `result`
  std::string cut;                   // what ended the search early; empty: nothing
  std::optional<Diagnostic> unlike;  // the labelled samples are unlike the calibration samples
};

// "35.2"; from 99 dB on nothing is told apart.
std::string decibels_text(const AccuracyStep& step);
// The options as a shell reads them, on one line.
std::string options_text(const AccuracyStep& step);
// On which samples programs were judged, a sentence.
std::string judged_samples(const AccuracySummary& summary);
// A table of the steps, a line a step.
std::string to_text(const AccuracySummary& summary);
// One JSON object.
std::string to_json(const AccuracySummary& summary);

}  // namespace dtr
