// Candidates of the search for accuracy (accuracy_search.h): settings that are compiled with ranges
// of some calibration samples, and whose programs run on others. What becomes of a candidate
// depends on its settings alone, not on those that were tried before nor on who tries it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/pipeline/accuracy_summary.h"
#include "compiler/pipeline/compile.h"
#include "host/accuracy/accuracy_search.h"
#include "host/accuracy/compare.h"
#include "host/tasks/tasks.h"

namespace dtr {

struct Candidate {
  CompileSettings settings;
  std::optional<Compilation> compilation;  // none, if a worker made it
  AccuracyStep figures;
};

class CandidateJudge {
 public:
  // `base`: the default, with which candidates share all that pack_candidate leaves out. The source
  // and the options must outlive the object.
  CandidateJudge(const ModelSource& source, const CompileSettings& base,
                 const AccuracySearchOptions& options);

  // Compiles the default on all samples, divides them, and runs the float model on those that
  // candidates are judged on. Errors: those of search_accuracy. `is_worker`: of labelled samples
  // the outputs of the float model are left out, which only the summary needs.
  Result<void> prepare(const CompileSettings& given, bool is_worker);

  const CompileSettings& base() const { return base_; }
  // The default, compiled on all samples.
  const Compilation& all() const { return *all_; }
  std::unique_ptr<Compilation> take_all() { return std::move(all_); }
  // The samples, and the accuracy of the float model.
  const AccuracySummary& known() const { return known_; }

  // A candidate's program. Errors: those of compile_model.
  Result<Compilation> compile(const CompileSettings& settings);
  // Runs the program on the held-out samples. Errors: those of Session.
  Result<AccuracyStep> judge(const Compilation& made) const;
  // Compiles a candidate and judges it; over all folds, where `known` says that samples are judged
  // in turn. `over_folds`: also the program of each other fold on the samples that it holds out, if
  // the samples can be divided so. Errors: those of `compile` and `judge`.
  Result<Candidate> make(CompileSettings settings, bool over_folds);

  // Compiles the settings with these samples and ranges of them. Errors: those of compile_model.
  Result<Compilation> compile_on(const Samples& samples, CompileSettings settings) const;

 private:
  using Key = std::tuple<bool, bool, bool>;  // equalized, rotated, without histograms
  // Samples with the outputs of the float model.
  struct Judged {
    Samples samples;
    std::vector<std::vector<Tensor>> expected;
    std::vector<int64_t> labels;  // of the first output; empty: none
  };

  // A division of the samples.
  struct Fold {
    Samples calibrated;
    Judged judged;
    std::map<Key, CalibrationResult> seen = {};
  };
  struct Tally {
    std::vector<Sqnr> outputs;  // of the float ones
    size_t same = 0, samples = 0;
    double decibels() const;  // of the worst output
    double same_class() const { return static_cast<double>(same) / static_cast<double>(samples); }
  };

  static Key key_of(const CompileSettings& settings) {
    return {settings.equalize, settings.rotate, settings.observer == QuantSpec::Observer::kMinMax};
  }
  Result<void> choose_samples();
  Fold divide(size_t part, size_t parts) const;
  Result<void> read_labelled(bool is_worker);
  Result<void> run_float(Judged& judged) const;
  Result<std::vector<std::vector<Tensor>>> run_program(const Compilation& made,
                                                       const Samples& samples,
                                                       uint64_t* cycles) const;
  Result<void> count(const Compilation& made, const Judged& judged, Tally& tally,
                     uint64_t* cycles) const;
  Result<AccuracyStep> judge(const Compilation& made, Tally& tally) const;
  Result<void> judge_folds(Candidate& candidate, Tally tally);
  Result<Compilation> compile(const CompileSettings& settings, Fold& fold) const;
  const CalibrationResult* ranges_for(const CompileSettings& settings, Fold& fold) const;
  double share(size_t right) const;

  const ModelSource& source_;
  CompileSettings base_;
  const AccuracySearchOptions& options_;
  std::unique_ptr<Compilation> all_;
  AccuracySummary known_;
  bool classes_ = false;  // the greatest element of the first output is probably a class
  Fold held_out_;         // that of the search
  std::optional<std::vector<Fold>> others_;  // the other folds, once they are needed
  std::vector<NamedTensor> read_;            // of the labelled data
  std::optional<Judged> labelled_;
};

// Candidates, judged by the workers of a pool beside each other.
class CandidatePool {
 public:
  // Starts workers that prepare a judge each. Null: the executor has none. Errors: those of
  // TaskExecutor::start.
  static Result<std::unique_ptr<CandidatePool>> start(const ModelSource& source,
                                                      const CompileSettings& base,
                                                      const AccuracySearchOptions& options);

  // The candidates that are needed next, in the order in which they probably are.
  void expect(const std::vector<CompileSettings>& likely, bool over_folds);
  // The figures of a candidate: those that are known, or of a run in which the other workers judge
  // what is expected. Errors: why it does not compile; `failure`, once there is one: those of
  // TaskPool::run, and kProcessFailed, if a worker's float_fingerprint is not `floats`.
  Result<AccuracyStep> judge(const CompileSettings& settings, bool over_folds, uint32_t floats);
  const std::optional<Diagnostic>& failure() const { return failure_; }

 private:
  using Bytes = std::vector<std::byte>;

  std::unique_ptr<TaskPool> pool_;
  std::map<Bytes, Result<AccuracyStep>> judged_;  // by pack_candidate
  std::vector<Bytes> likely_;
  std::optional<Diagnostic> failure_;
};

}  // namespace dtr
