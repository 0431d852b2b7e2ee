// The order in which the search for accuracy (accuracy_search.h) tries settings, apart from how a
// program is compiled and run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/pipeline/accuracy_summary.h"
#include "compiler/pipeline/compile.h"
#include "host/accuracy/accuracy_candidates.h"
#include "host/accuracy/accuracy_search.h"

namespace dtr {

// The model whose settings are searched: it makes programs of settings and says what they are
// worth.
class SearchedModel {
 public:
  SearchedModel() = default;
  SearchedModel(const SearchedModel&) = delete;
  SearchedModel& operator=(const SearchedModel&) = delete;
  virtual ~SearchedModel() = default;

  // The default, which all other settings start from.
  virtual const CompileSettings& base() const = 0;
  // The samples, and the accuracy of the float model.
  virtual const AccuracySummary& known() const = 0;
  virtual double macs() const = 0;     // multiply-accumulates of a run
  virtual bool has_norms() const = 0;  // that a rotation can be folded into

  // What is probably made next.
  virtual void expect(const std::vector<CompileSettings>& likely, bool over_folds) = 0;
  // The program of the settings, with its figures but for name and options. `over_folds`: also with
  // each sample held out once, if the samples can be divided so. Errors: those of compile_model and
  // Session.
  virtual Result<Candidate> make(CompileSettings settings, bool over_folds) = 0;
  // The figures of the default, calibrated on all samples, and of other settings.
  virtual Result<AccuracyStep> judge_default() = 0;
  virtual Result<AccuracyStep> judge_on_all(const CompileSettings& settings) = 0;
  // Why programs cannot be made any more, as opposed to one that does not compile.
  virtual std::optional<Diagnostic> failure() const = 0;

  // Nodes of a program that can be kept in float, by name; none, if it cannot be compiled here.
  // Those that make the first outputs, all of them, and those that the report of its errors names,
  // the largest share first.
  virtual std::vector<std::string> output_nodes(Candidate& candidate) = 0;
  virtual std::vector<std::string> all_nodes(Candidate& candidate) = 0;
  virtual std::vector<std::string> nodes_by_error(Candidate& candidate) = 0;
  // Nodes that are tried in float together, the most promising first.
  virtual std::vector<std::vector<std::string>> float_choices(Candidate& candidate) = 0;
};

struct SearchedSettings {
  CompileSettings settings;
  AccuracySummary summary;
};

// Tries steps until the goal is reached, nothing else gains or the time is over, and refits the
// best to all samples. Errors: those of the default, and the model's failure.
Result<SearchedSettings> search_steps(SearchedModel& model, const AccuracySearchOptions& options);

}  // namespace dtr
