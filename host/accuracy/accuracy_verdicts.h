// When the search for accuracy (accuracy_search.h) keeps a program, and what it asks for: the rules
// alone, on figures, whoever measured them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "compiler/pipeline/accuracy_summary.h"

namespace dtr {

struct AccuracySearchOptions;

struct AccuracyGoal {
  std::optional<double> max_loss = {};        // share of the labelled samples
  std::optional<double> min_sqnr = {};        // dB
  std::optional<double> float_accuracy = {};  // of the float model on the labelled samples
  bool own = false;                           // the search's own: none is given
  double shortfall = 0;                       // dB that the search asks for beyond min_sqnr

  // Whether a program has what is asked for; never without a goal.
  bool meets(const AccuracyStep& step) const;
  // The same with the shortfall: whether the search may end with it.
  bool reached(const AccuracyStep& step) const;
  // "at most 0.50 points below the float model's accuracy and 30.0 dB"; empty: no goal.
  std::string text() const;
};

// The given goal. If none is given and no frontier is asked for: the search's own, which asks for
// more than it says where the judged samples are few.
AccuracyGoal goal_of(const AccuracySearchOptions& options, const AccuracySummary& known);

// How many programs with operators in float a search may try for its own goal, of a model with so
// many multiply-accumulates a run.
size_t own_tries(double macs, size_t judged);
// Whether they are so many that the model is run in float on the CPU without waiting.
bool is_small(size_t own_tries);

// What a program is held against.
struct Standing {
  const AccuracyStep& best;   // so far
  uint64_t start_cycles = 0;  // of the default
  // dB that the best has on the held-out samples beyond those over folds.
  double flattery = 0;
};

// Each sets the verdict of a program, kept or rejected, and why.

// Whether it is better than the best so far. `may_cost`: a goal pays for its cycles.
void judge_attempt(AccuracyStep& step, const AccuracyGoal& goal, const Standing& standing,
                   bool may_cost);
// Where the goal is reached by more than it asks for: whether the program with room beyond the
// samples still has it. Both are judged over folds, and so is the default, if it could be.
void judge_room(AccuracyStep& step, const AccuracyGoal& goal, const AccuracyStep& best,
                std::optional<double> start_folds_db);
// Whether an operator in int8 again saves cycles that the goal does not need.
void judge_return(AccuracyStep& step, const AccuracyGoal& goal, const AccuracyStep& best);

// True if all operators in float cost no more than the program and have more decibels.
bool is_beaten_by_all_float(const AccuracyStep& step, const AccuracyStep& all_float);

// dB beyond the goal that a program needs on the held-out samples to reach the goal over folds;
// empty: it reaches it.
std::optional<double> shortfall_over_folds(const AccuracyStep& best, const AccuracyGoal& goal);
// The same, to reach the goal with ranges of all samples, where `result` is what `best` is then.
double shortfall_of_refit(const AccuracyStep& best, const AccuracyStep& result,
                          const AccuracyGoal& goal);

// The result so far: the default, or what was compiled with ranges of all samples before.
struct ResultSoFar {
  const AccuracyStep& step;
  double held_out_db = 0;                // of its settings on the held-out samples
  std::optional<double> start_folds_db;  // of the default, each sample held out once
};
// True if `best`, which is `step` with ranges of all samples, is worse: by what these ranges give
// on samples that they come from, and by what was seen on samples that were held out, which alone
// shows what others saturate: all of them once where both were judged so, for the part that the
// search judges on is what it chose by.
bool is_worse_refitted(const AccuracyStep& step, const AccuracyStep& best, const ResultSoFar& than);

}  // namespace dtr
