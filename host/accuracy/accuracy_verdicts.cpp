#include "host/accuracy/accuracy_verdicts.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/accuracy/accuracy_search.h"

namespace dtr {
namespace {

constexpr double kMostCycles = 1.02;  // of a step that is not asked for by a goal
// Of the default's cycles: what a program may cost that no given goal asks for.
// Where the greatest output is a class, decibels are not all that counts.
constexpr double kMostPrice = 64, kMostPriceOfScores = 4, kMostPriceOfDoubtful = 16;
// dB, below which classes near each other change.
constexpr double kSafeScores = 30;
constexpr double kUsable = 20;  // dB, below which any price is paid
// dB that the search asks for beyond its own goal, where it judges on few samples.
constexpr double kMargin = 3;
constexpr size_t kFewJudged = 16;
constexpr double kWorthALoss = 1;  // dB that a step gains once the own goal is reached
// Multiply-accumulates of all runs of programs with operators in float that no given goal asks for,
// and how many of these programs there are at least and at most: the time of a search that a user
// did not bound is bounded by the model, not by the clock.
constexpr double kOwnWork = 2e10;
constexpr size_t kLeastOwnTries = 8, kMostOwnTries = 400;
constexpr size_t kSmallTries = 40;
constexpr double kClearGain = 1;      // dB, for which a judged sample may change its class
constexpr double kRefitMargin = 0.5;  // dB

double most_price(const AccuracyStep& step, const Standing& standing) {
  if (!step.same_class) return kMostPrice;
  return standing.best.sqnr_db - standing.flattery < kSafeScores ? kMostPriceOfDoubtful
                                                                 : kMostPriceOfScores;
}

void set_verdict(AccuracyStep& step, bool kept) {
  step.verdict = kept ? AccuracyStep::Verdict::kKept : AccuracyStep::Verdict::kRejected;
}

}  // namespace

bool AccuracyGoal::meets(const AccuracyStep& step) const {
  if (!max_loss && !min_sqnr) return false;
  const bool loses =
      max_loss && (!step.accuracy || *float_accuracy - *step.accuracy > *max_loss + 1e-9);
  return !loses && (!min_sqnr || step.sqnr_db >= *min_sqnr);
}

bool AccuracyGoal::reached(const AccuracyStep& step) const {
  return meets(step) && (!min_sqnr || step.sqnr_db >= *min_sqnr + shortfall);
}

std::string AccuracyGoal::text() const {
  std::string decibels = min_sqnr ? fmt::format("{:.1f} dB", *min_sqnr) : "";
  if (!max_loss) return decibels;
  return fmt::format("at most {:.2f} points below the float model's accuracy{}{}", 100 * *max_loss,
                     min_sqnr ? " and " : "", decibels);
}

AccuracyGoal goal_of(const AccuracySearchOptions& options, const AccuracySummary& known) {
  AccuracyGoal goal{.max_loss = options.max_loss,
                    .min_sqnr = options.min_sqnr,
                    .float_accuracy = known.float_accuracy};
  goal.own = !options.frontier && !options.max_loss && !options.min_sqnr;
  if (!goal.own) return goal;
  if (known.float_accuracy) goal.max_loss = kOwnMaxLoss;
  goal.min_sqnr = known.float_accuracy ? kOwnLabelledSqnr : kOwnSqnr;
  if (known.judged < kFewJudged) goal.shortfall = kMargin;
  return goal;
}

size_t own_tries(double macs, size_t judged) {
  const double tries = kOwnWork / (macs * static_cast<double>(std::max<size_t>(1, judged)));
  return static_cast<size_t>(
      std::clamp(tries, static_cast<double>(kLeastOwnTries), static_cast<double>(kMostOwnTries)));
}

bool is_small(size_t own_tries) { return own_tries >= kSmallTries; }

void judge_attempt(AccuracyStep& step, const AccuracyGoal& goal, const Standing& standing,
                   bool may_cost) {
  const AccuracyStep& best = standing.best;
  const auto cycles = static_cast<double>(step.cycles);
  const auto start_cycles = static_cast<double>(standing.start_cycles);
  const bool reached = goal.own && goal.reached(best);
  const double most_cycles =
      (reached ? static_cast<double>(best.cycles) : start_cycles) * kMostCycles;
  const bool saves = step.cycles < best.cycles;
  const double least_gain = reached && !saves ? kWorthALoss : kLeastGain;
  const bool by_folds = step.folds_db && best.folds_db;
  const double gain = by_folds ? *step.folds_db - *best.folds_db : step.sqnr_db - best.sqnr_db;
  const bool changes_classes = by_folds && step.folds_same_class
                                   ? *step.folds_same_class < *best.folds_same_class
                                   : step.same_class && *step.same_class < *best.same_class;
  if (gain < least_gain) {
    step.why = fmt::format("gains less than {:.1f} dB", least_gain);
  } else if (step.accuracy && *step.accuracy < *best.accuracy) {
    step.why = "loses accuracy";
  } else if (changes_classes && gain < kClearGain) {
    step.why = "changes more classes";
  } else if (!may_cost && cycles > most_cycles) {
    step.why = "costs too many cycles";
  } else if (goal.own && best.sqnr_db >= kUsable &&
             cycles > start_cycles * most_price(step, standing)) {
    step.why = fmt::format("costs more than {:.0f} times the default", most_price(step, standing));
  }
  set_verdict(step, step.why.empty());
  if (by_folds)
    step.why = fmt::format("each held out once: {:.1f} -> {:.1f} dB{}{}", *best.folds_db,
                           *step.folds_db, step.why.empty() ? "" : "; ", step.why);
}

void judge_room(AccuracyStep& step, const AccuracyGoal& goal, const AccuracyStep& best,
                std::optional<double> start_folds_db) {
  const bool kept = std::min(*step.folds_db, step.sqnr_db) >= *goal.min_sqnr + kWorthALoss &&
                    (!start_folds_db || *step.folds_db >= *start_folds_db) &&
                    step.cycles <= best.cycles &&
                    (!step.accuracy || *step.accuracy >= *best.accuracy) &&
                    (!step.same_class || *step.same_class >= *best.same_class);
  set_verdict(step, kept);
  step.why = kept ? "the goal allows it" : "the goal does not allow it";
}

void judge_return(AccuracyStep& step, const AccuracyGoal& goal, const AccuracyStep& best) {
  const bool saves = step.cycles < best.cycles;
  const bool kept =
      saves && goal.reached(step) && !(step.same_class && *step.same_class < *best.same_class);
  set_verdict(step, kept);
  step.why = kept ? "saves cycles" : saves ? "the goal needs it" : "saves no cycles";
}

bool is_beaten_by_all_float(const AccuracyStep& step, const AccuracyStep& all_float) {
  return step.cycles >= all_float.cycles && all_float.sqnr_db > step.sqnr_db;
}

std::optional<double> shortfall_over_folds(const AccuracyStep& best, const AccuracyGoal& goal) {
  const double missing = *goal.min_sqnr - *best.folds_db;
  if (missing <= 0) return {};
  return std::max(goal.shortfall, best.sqnr_db - *goal.min_sqnr + missing);
}

// What the best program loses with ranges of all samples, the next one will lose too.
double shortfall_of_refit(const AccuracyStep& best, const AccuracyStep& result,
                          const AccuracyGoal& goal) {
  return std::max(goal.shortfall + *goal.min_sqnr, best.sqnr_db) - result.sqnr_db + kRefitMargin;
}

bool is_worse_refitted(const AccuracyStep& step, const AccuracyStep& best,
                       const ResultSoFar& than) {
  const double gain = step.sqnr_db - than.step.sqnr_db;
  const bool over_folds = than.start_folds_db && best.folds_db;
  const double held_out_gain =
      over_folds ? *best.folds_db - *than.start_folds_db : best.sqnr_db - than.held_out_db;
  return gain + held_out_gain < 0 || (over_folds && held_out_gain < 0) ||
         (step.accuracy && *step.accuracy < *than.step.accuracy);
}

}  // namespace dtr
