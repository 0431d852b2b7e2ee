// `deuteron explore --axis accuracy` without its terminal: what less error costs in cycles.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/npz.h"
#include "compiler/pipeline/accuracy_summary.h"
#include "host/commands/compile_options.h"
#include "host/commands/frontier_plot.h"

namespace dtr {

struct AccuracyFrontier {
  std::string model, target;
  uint32_t clock_hz = 0;
  size_t programs = 0;        // that were compiled and simulated
  std::string judged;         // on which samples, a sentence
  bool has_accuracy = false;  // labelled samples were given
  std::string cut;            // what ended the search early; empty: nothing
  // Least error last. A program that another one beats in error and cycles is left out.
  std::vector<AccuracyStep> points;
};

// Searches as `--accuracy auto` does, without a goal, and keeps the programs that no other one
// beats. `options` are those of the compilation: model, samples, target, `data`, `labels`,
// `seconds`. Errors: those of checked_settings and search_accuracy; kAccuracyOptions (no samples,
// or noise).
Result<AccuracyFrontier> explore_accuracy(const ModelSource& source, const CompileOptions& options,
                                          const FrontierPaths& files, const CompileWatch& watch,
                                          std::optional<SampleSource> samples = std::nullopt,
                                          std::span<const NamedTensor> labelled = {});

std::string to_text(const AccuracyFrontier& frontier);
std::string to_json(const AccuracyFrontier& frontier);
std::string to_svg(const AccuracyFrontier& frontier);   // decibels to the right, cycles upwards
std::string to_html(const AccuracyFrontier& frontier);  // a page with both

}  // namespace dtr
