// The rules of the search for accuracy on figures that are chosen by hand, one figure at a time on
// either side of each limit.
#include "host/accuracy/accuracy_verdicts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "host/accuracy/accuracy_search.h"

namespace dtr {
namespace {

using Verdict = AccuracyStep::Verdict;

// The verdict of a step as one text.
std::string told(const AccuracyStep& step) {
  return (step.verdict == Verdict::kKept ? "kept" : "rejected") +
         (step.why.empty() ? "" : ": " + step.why);
}

// Of a step that is held against `best` where the default has 1000 cycles.
std::string attempted(AccuracyStep step, const AccuracyStep& best, const AccuracyGoal& goal = {},
                      bool may_cost = false, double flattery = 0) {
  judge_attempt(step, goal, {.best = best, .start_cycles = 1000, .flattery = flattery}, may_cost);
  return told(step);
}

constexpr double kHalfOfTwoSamples = 0.5;

TEST(AccuracyGoal, NoneIsNeverMet) {
  EXPECT_FALSE(AccuracyGoal{}.meets({.sqnr_db = 99}));
  EXPECT_EQ(AccuracyGoal{}.text(), "");
}

TEST(AccuracyGoal, TakesTheLossThatIsAllowed) {
  const AccuracyGoal goal{.max_loss = 0.01, .float_accuracy = 0.8};
  EXPECT_TRUE(goal.meets({.accuracy = 0.79}));
  EXPECT_FALSE(goal.meets({.accuracy = 0.7899}));
  EXPECT_FALSE(goal.meets({.sqnr_db = 99})) << "without labelled samples nothing is known";
  EXPECT_EQ(goal.text(), "at most 1.00 points below the float model's accuracy");
  const AccuracyGoal both{.max_loss = 0.01, .min_sqnr = 30, .float_accuracy = 0.8};
  EXPECT_TRUE(both.meets({.sqnr_db = 30, .accuracy = 0.8}));
  EXPECT_FALSE(both.meets({.sqnr_db = 29.9, .accuracy = 0.8}));
  EXPECT_FALSE(both.meets({.sqnr_db = 30, .accuracy = 0.7}));
  EXPECT_EQ(both.text(), "at most 1.00 points below the float model's accuracy and 30.0 dB");
}

// The shortfall is asked of the search, not of the result.
TEST(AccuracyGoal, IsReachedBeyondItsShortfall) {
  const AccuracyGoal goal{.min_sqnr = 35, .shortfall = 3};
  EXPECT_TRUE(goal.meets({.sqnr_db = 35}));
  EXPECT_FALSE(goal.reached({.sqnr_db = 37.9}));
  EXPECT_TRUE(goal.reached({.sqnr_db = 38}));
  EXPECT_EQ(goal.text(), "35.0 dB");
}

TEST(AccuracyGoal, IsTheSearchsOwnWhereNoneIsGiven) {
  const AccuracyGoal own = goal_of({}, {.judged = 16});
  EXPECT_TRUE(own.own);
  EXPECT_EQ(own.min_sqnr, 35);
  EXPECT_FALSE(own.max_loss);
  EXPECT_EQ(own.shortfall, 0);
  EXPECT_EQ(goal_of({}, {.judged = 15}).shortfall, 3) << "few samples";

  const AccuracyGoal labelled = goal_of({}, {.judged = 16, .float_accuracy = 0.9});
  EXPECT_EQ(labelled.min_sqnr, 30);
  EXPECT_EQ(labelled.max_loss, 0.005);

  const AccuracyGoal given = goal_of({.min_sqnr = 50}, {.judged = 1, .float_accuracy = 0.9});
  EXPECT_FALSE(given.own);
  EXPECT_EQ(given.min_sqnr, 50);
  EXPECT_FALSE(given.max_loss);
  EXPECT_EQ(given.shortfall, 0);
  const AccuracyGoal loss = goal_of({.max_loss = 0.02}, {.judged = 1, .float_accuracy = 0.9});
  EXPECT_FALSE(loss.own || loss.min_sqnr);
  EXPECT_TRUE(loss.meets({.accuracy = 0.88}));
  EXPECT_FALSE(goal_of({.frontier = true}, {}).own);
  EXPECT_FALSE(goal_of({.frontier = true}, {}).min_sqnr);
}

// 2e10 multiply-accumulates, at least 8 and at most 400 programs; small from 40 on.
TEST(AccuracyTries, AreBoundedByTheModel) {
  EXPECT_EQ(own_tries(1e6, 200), 100u);
  EXPECT_EQ(own_tries(1e6, 2000), 10u);
  EXPECT_EQ(own_tries(1e9, 32), 8u);
  EXPECT_EQ(own_tries(1, 0), 400u);
  EXPECT_TRUE(is_small(own_tries(1e6, 500)));
  EXPECT_FALSE(is_small(own_tries(1e6, 501)));
}

TEST(AccuracyAttempt, GainsATenthOfADecibel) {
  const AccuracyStep best{.sqnr_db = 32, .cycles = 1000};
  EXPECT_EQ(attempted({.sqnr_db = 32.125, .cycles = 1000}, best), "kept");
  EXPECT_EQ(attempted({.sqnr_db = 32.0625, .cycles = 1000}, best),
            "rejected: gains less than 0.1 dB");
}

// Once the own goal is reached a decibel is worth a step, or the cycles that it saves.
TEST(AccuracyAttempt, GainsADecibelOnceTheOwnGoalIsReached) {
  const AccuracyStep best{.sqnr_db = 36, .cycles = 1000};
  const AccuracyGoal own{.min_sqnr = 35, .own = true}, given{.min_sqnr = 35};
  EXPECT_EQ(attempted({.sqnr_db = 36.5, .cycles = 1000}, best, own),
            "rejected: gains less than 1.0 dB");
  EXPECT_EQ(attempted({.sqnr_db = 37, .cycles = 1000}, best, own), "kept");
  EXPECT_EQ(attempted({.sqnr_db = 36.5, .cycles = 999}, best, own), "kept");
  EXPECT_EQ(attempted({.sqnr_db = 36, .cycles = 999}, best, own),
            "rejected: gains less than 0.1 dB");
  EXPECT_EQ(attempted({.sqnr_db = 36.5, .cycles = 1000}, best, given), "kept");
  const AccuracyGoal beyond{.min_sqnr = 35, .own = true, .shortfall = 2};
  EXPECT_EQ(attempted({.sqnr_db = 36.5, .cycles = 1000}, best, beyond), "kept");
}

TEST(AccuracyAttempt, LosesNoLabelledSample) {
  const AccuracyStep best{.sqnr_db = 20, .accuracy = 0.75, .cycles = 1000};
  EXPECT_EQ(attempted({.sqnr_db = 40, .accuracy = 0.7, .cycles = 1000}, best),
            "rejected: loses accuracy");
  EXPECT_EQ(attempted({.sqnr_db = 40, .accuracy = 0.75, .cycles = 1000}, best), "kept");
}

TEST(AccuracyAttempt, ChangesAClassForADecibelOnly) {
  const AccuracyStep best{.sqnr_db = 20, .same_class = 1.0, .cycles = 1000};
  EXPECT_EQ(attempted({.sqnr_db = 20.5, .same_class = kHalfOfTwoSamples, .cycles = 1000}, best),
            "rejected: changes more classes");
  EXPECT_EQ(attempted({.sqnr_db = 21, .same_class = kHalfOfTwoSamples, .cycles = 1000}, best),
            "kept");
}

// Two of 100 cycles: of the default, and of the best once the own goal is reached.
TEST(AccuracyAttempt, CostsTwoPercentAtMost) {
  const AccuracyStep best{.sqnr_db = 30, .cycles = 900};
  EXPECT_EQ(attempted({.sqnr_db = 40, .cycles = 1020}, best), "kept");
  EXPECT_EQ(attempted({.sqnr_db = 40, .cycles = 1021}, best), "rejected: costs too many cycles");
  EXPECT_EQ(attempted({.sqnr_db = 40, .cycles = 5000}, best, {}, true), "kept");
  const AccuracyGoal own{.min_sqnr = 30, .own = true};
  EXPECT_EQ(attempted({.sqnr_db = 40, .cycles = 918}, best, own), "kept");
  EXPECT_EQ(attempted({.sqnr_db = 40, .cycles = 919}, best, own),
            "rejected: costs too many cycles");
}

// Where no goal is given: 64 times the default; of classes 4 times, 16 where the best may be below
// 30 dB on other samples; any price below 20 dB.
TEST(AccuracyAttempt, CostsNoMoreThanTheOwnGoalIsWorth) {
  const AccuracyGoal own{.min_sqnr = 35, .own = true}, given{.min_sqnr = 35};
  const auto costs = [&](uint64_t cycles, double best_db, std::optional<double> same_class,
                         const AccuracyGoal& goal, double flattery = 0) {
    return attempted({.sqnr_db = 90, .same_class = same_class, .cycles = cycles},
                     {.sqnr_db = best_db, .same_class = same_class, .cycles = 1000}, goal, true,
                     flattery);
  };
  EXPECT_EQ(costs(64000, 34, {}, own), "kept");
  EXPECT_EQ(costs(64001, 34, {}, own), "rejected: costs more than 64 times the default");
  EXPECT_EQ(costs(64001, 34, {}, given), "kept");
  EXPECT_EQ(costs(64001, 19.9, {}, own), "kept");
  EXPECT_EQ(costs(64001, 20, {}, own), "rejected: costs more than 64 times the default");
  EXPECT_EQ(costs(4000, 30, 1, own), "kept");
  EXPECT_EQ(costs(4001, 30, 1, own), "rejected: costs more than 4 times the default");
  EXPECT_EQ(costs(4001, 29.9, 1, own), "kept");
  EXPECT_EQ(costs(16000, 34, 1, own, 4.5), "kept");
  EXPECT_EQ(costs(16001, 34, 1, own, 4.5), "rejected: costs more than 16 times the default");
  EXPECT_EQ(costs(16000, 34, 1, own, 4), "rejected: costs more than 4 times the default");
}

// Where both are judged over folds, the held-out samples alone do not count.
TEST(AccuracyAttempt, CountsFoldsWhereBothHaveThem) {
  const AccuracyStep best{
      .sqnr_db = 40, .same_class = 1, .folds_db = 30, .folds_same_class = 0.875, .cycles = 1000};
  AccuracyStep step{.sqnr_db = 38,
                    .same_class = 0.5,
                    .folds_db = 30.5,
                    .folds_same_class = 0.875,
                    .cycles = 1000};
  EXPECT_EQ(attempted(step, best), "kept: each held out once: 30.0 -> 30.5 dB");
  step.folds_same_class = 0.75;
  EXPECT_EQ(attempted(step, best),
            "rejected: each held out once: 30.0 -> 30.5 dB; changes more classes");
  step.folds_db = 30;
  EXPECT_EQ(attempted(step, best),
            "rejected: each held out once: 30.0 -> 30.0 dB; gains less than 0.1 dB");
  step.folds_db.reset();
  step.folds_same_class.reset();
  EXPECT_EQ(attempted(step, best), "rejected: gains less than 0.1 dB");
}

TEST(AccuracyAllFloat, BeatsWhatCostsAsMuchAndHasLess) {
  const AccuracyStep all{.sqnr_db = 90, .cycles = 1500};
  EXPECT_TRUE(is_beaten_by_all_float({.sqnr_db = 89, .cycles = 1500}, all));
  EXPECT_FALSE(is_beaten_by_all_float({.sqnr_db = 89, .cycles = 1499}, all));
  EXPECT_FALSE(is_beaten_by_all_float({.sqnr_db = 90, .cycles = 1500}, all));
}

// A decibel above the goal on the held-out samples and over folds, nothing below the default over
// folds, and nothing that the best has.
TEST(AccuracyRoom, IsLeftOnlyWhereTheGoalAllowsIt) {
  const AccuracyGoal goal{.min_sqnr = 35, .own = true};
  const AccuracyStep best{
      .sqnr_db = 45, .accuracy = 0.75, .same_class = 0.75, .folds_db = 44, .cycles = 1000};
  const AccuracyStep good{
      .sqnr_db = 36, .accuracy = 0.75, .same_class = 0.75, .folds_db = 36, .cycles = 1000};
  const auto room = [&](std::optional<double> start_folds_db, const auto& change) {
    AccuracyStep step = good;
    change(step);
    judge_room(step, goal, best, start_folds_db);
    return told(step);
  };
  const std::string yes = "kept: the goal allows it", no = "rejected: the goal does not allow it";
  EXPECT_EQ(room({}, [](AccuracyStep&) {}), yes);
  EXPECT_EQ(room({}, [](AccuracyStep& step) { step.sqnr_db = 35.9; }), no);
  EXPECT_EQ(room({}, [](AccuracyStep& step) { step.folds_db = 35.9; }), no);
  EXPECT_EQ(room({}, [](AccuracyStep& step) { step.cycles = 1001; }), no);
  EXPECT_EQ(room({}, [](AccuracyStep& step) { step.accuracy = 0.7; }), no);
  EXPECT_EQ(room({}, [](AccuracyStep& step) { step.same_class = 0.7; }), no);
  EXPECT_EQ(room(36, [](AccuracyStep&) {}), yes);
  EXPECT_EQ(room(36.1, [](AccuracyStep&) {}), no);
}

TEST(AccuracyReturn, SavesCyclesThatTheGoalDoesNotNeed) {
  const AccuracyGoal goal{.min_sqnr = 35, .shortfall = 2};
  const AccuracyStep best{.sqnr_db = 50, .same_class = 1, .cycles = 1000};
  const auto returned = [&](AccuracyStep step) {
    judge_return(step, goal, best);
    return told(step);
  };
  EXPECT_EQ(returned({.sqnr_db = 37, .same_class = 1, .cycles = 999}), "kept: saves cycles");
  EXPECT_EQ(returned({.sqnr_db = 36.9, .same_class = 1, .cycles = 999}),
            "rejected: the goal needs it");
  EXPECT_EQ(returned({.sqnr_db = 37, .same_class = 0.9, .cycles = 999}),
            "rejected: the goal needs it");
  EXPECT_EQ(returned({.sqnr_db = 60, .same_class = 1, .cycles = 1000}),
            "rejected: saves no cycles");
}

// 38 dB on the held-out samples are 33 over folds: 2 dB are missing, so that 40 are asked for.
TEST(AccuracyFolds, WhatIsMissingIsAskedForBeyondTheGoal) {
  AccuracyGoal goal{.min_sqnr = 35, .own = true};
  EXPECT_EQ(shortfall_over_folds({.sqnr_db = 38, .folds_db = 33}, goal), 5);
  EXPECT_EQ(shortfall_over_folds({.sqnr_db = 38, .folds_db = 35}, goal), std::nullopt);
  goal.shortfall = 6;
  EXPECT_EQ(shortfall_over_folds({.sqnr_db = 38, .folds_db = 33}, goal), 6) << "never less";
}

// 47 dB with ranges of three quarters, 44 with those of all where 45 are wanted: 3 are lost again,
// and half a decibel is added.
TEST(AccuracyRefit, WhatRangesOfAllSamplesLoseIsAskedFor) {
  AccuracyGoal goal{.min_sqnr = 45};
  EXPECT_EQ(shortfall_of_refit({.sqnr_db = 47}, {.sqnr_db = 44}, goal), 3.5);
  goal.shortfall = 4;  // 49 dB were asked for, and the best program has only 47
  EXPECT_EQ(shortfall_of_refit({.sqnr_db = 47}, {.sqnr_db = 44}, goal), 5.5);
}

TEST(AccuracyRefit, IsHeldAgainstTheResultSoFar) {
  const AccuracyStep start{.sqnr_db = 40, .accuracy = 0.75};
  const auto is_worse = [&](const AccuracyStep& step, const AccuracyStep& best,
                            std::optional<double> start_folds_db = {}) {
    return is_worse_refitted(step, best,
                             {.step = start, .held_out_db = 36, .start_folds_db = start_folds_db});
  };
  // What is lost with ranges of all samples may be gained on those that were held out.
  EXPECT_FALSE(is_worse({.sqnr_db = 38}, {.sqnr_db = 38}));
  EXPECT_TRUE(is_worse({.sqnr_db = 37.9}, {.sqnr_db = 38}));
  EXPECT_FALSE(is_worse({.sqnr_db = 42}, {.sqnr_db = 34}));
  EXPECT_TRUE(is_worse({.sqnr_db = 41.9}, {.sqnr_db = 34}));
  EXPECT_TRUE(is_worse({.sqnr_db = 60, .accuracy = 0.7}, {.sqnr_db = 60}));
  EXPECT_FALSE(is_worse({.sqnr_db = 60, .accuracy = 0.75}, {.sqnr_db = 60}));
  EXPECT_TRUE(is_worse({.sqnr_db = 60}, {.sqnr_db = 60, .folds_db = 34.9}, 35));
  EXPECT_FALSE(is_worse({.sqnr_db = 60}, {.sqnr_db = 60, .folds_db = 35}, 35));
  EXPECT_FALSE(is_worse({.sqnr_db = 60}, {.sqnr_db = 60}, 35)) << "not judged over folds";
  // All samples, each held out once, tell more than the part that the search chose by.
  EXPECT_FALSE(is_worse({.sqnr_db = 38}, {.sqnr_db = 33, .folds_db = 37}, 35));
  EXPECT_TRUE(is_worse({.sqnr_db = 38}, {.sqnr_db = 60, .folds_db = 36.9}, 35));
}

}  // namespace
}  // namespace dtr
