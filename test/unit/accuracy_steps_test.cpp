// The order of the search for accuracy on a model that is made up: a program's figures are a
// formula of its settings, so that each test knows by hand which program the search has to find.
#include "host/accuracy/accuracy_steps.h"

#include <gtest/gtest.h>

#include <functional>

#include "compiler/support/interruption.h"
#include "compiler/support/text.h"

namespace dtr {
namespace {

using Observer = QuantSpec::Observer;
using Verdict = AccuracyStep::Verdict;
using Names = std::vector<std::string>;

bool is_float(const CompileSettings& settings, std::string_view name) {
  return std::ranges::find(settings.keep_float, "name:" + std::string(name)) !=
         settings.keep_float.end();
}

class MadeUpModel final : public SearchedModel {
 public:
  // Of a program whose ranges are of three quarters of the samples, over folds too.
  std::function<AccuracyStep(const CompileSettings&)> figures;
  // dB that ranges of all samples change.
  std::function<double(const CompileSettings&)> refitted = [](const CompileSettings&) { return 0; };
  std::function<bool(const CompileSettings&)> compiles = [](const CompileSettings&) {
    return true;
  };
  AccuracySummary samples{.judged = 32, .held_out = true};
  double work = 1000;
  Names outputs, all, by_error;
  std::vector<Names> choices;
  std::optional<Diagnostic> broken;
  size_t made = 0;

  const CompileSettings& base() const override { return base_; }
  const AccuracySummary& known() const override { return samples; }
  double macs() const override { return work; }
  bool has_norms() const override { return false; }
  void expect(const std::vector<CompileSettings>& /*likely*/, bool /*over_folds*/) override {}
  Result<Candidate> make(CompileSettings settings, bool over_folds) override {
    ++made;
    if (!compiles(settings)) return fail(DiagnosticId::kAccuracyOptions, "too large\nby far");
    AccuracyStep step = figures(settings);
    if (!over_folds) step.folds_db.reset();
    return Candidate{std::move(settings), std::nullopt, std::move(step)};
  }
  Result<AccuracyStep> judge_default() override { return judge_on_all(base_); }
  Result<AccuracyStep> judge_on_all(const CompileSettings& settings) override {
    AccuracyStep step = figures(settings);
    step.sqnr_db += refitted(settings);
    step.folds_db.reset();
    return step;
  }
  std::optional<Diagnostic> failure() const override { return broken; }
  Names output_nodes(Candidate& /*candidate*/) override { return outputs; }
  Names all_nodes(Candidate& /*candidate*/) override { return all; }
  Names nodes_by_error(Candidate& /*candidate*/) override { return by_error; }
  std::vector<Names> float_choices(Candidate& /*candidate*/) override { return choices; }

 private:
  CompileSettings base_;
};

struct Found {
  CompileSettings settings;
  AccuracySummary summary;

  // "kept gains 2 dB" of each step of this name.
  Names verdicts(std::string_view name) const {
    Names texts;
    for (const AccuracyStep& step : summary.steps) {
      if (step.name != name) continue;
      const char* const names[] = {"start", "kept", "rejected", "measured", "failed"};
      texts.push_back(names[static_cast<size_t>(step.verdict)] +
                      (step.why.empty() ? "" : ": " + step.why));
    }
    return texts;
  }
  Names steps() const {
    Names names;
    for (const AccuracyStep& step : summary.steps) names.push_back(step.name);
    return names;
  }
};

Found search(MadeUpModel& model, AccuracySearchOptions options = {}) {
  options.seconds = 600;
  Result<SearchedSettings> found = search_steps(model, options);
  EXPECT_TRUE(found) << to_text(found.error());
  if (!found) return {};
  return {std::move(found->settings), std::move(found->summary)};
}

// ---- steps that cost nothing

// Without a goal all of them are tried; with one nothing behind it is.
TEST(AccuracySteps, FreeOnesEndAtAGivenGoal) {
  MadeUpModel model;
  model.figures = [](const CompileSettings& settings) {
    return AccuracyStep{.sqnr_db = 36.0 + (settings.equalize ? 4 : 0), .cycles = 1000};
  };
  const Found own = search(model);
  EXPECT_EQ(own.steps(), (Names{"default", "equalize", "round weights by error"}));
  EXPECT_TRUE(own.settings.equalize);
  EXPECT_EQ(own.summary.result.options, Names{"--equalize"});
  EXPECT_TRUE(own.summary.met && own.summary.own_goal);

  EXPECT_EQ(search(model, {.min_sqnr = 38}).steps(), (Names{"default", "equalize"}));
  model.made = 0;
  EXPECT_EQ(search(model, {.min_sqnr = 36}).steps(), Names{"default"});
  EXPECT_EQ(model.made, 0u) << "the default meets the goal";
}

// Equalization is tried again once something else was kept.
TEST(AccuracySteps, EqualizationMayHelpOtherWeights) {
  MadeUpModel model;
  model.figures = [](const CompileSettings& settings) {
    const bool rounded = settings.rounding == Rounding::kError;
    return AccuracyStep{.sqnr_db = 30.0 + (rounded ? (settings.equalize ? 9 : 3) : 0),
                        .cycles = 1000};
  };
  const Found found = search(model);
  EXPECT_EQ(found.verdicts("equalize"), (Names{"rejected: gains less than 0.1 dB", "kept"}));
  EXPECT_EQ(found.summary.result.options, (Names{"--equalize", "--round-weights", "error"}));
}

// ---- observers

// In int8 a tail loses 2 dB; once `conv` is float, it gains 2.
AccuracyStep with_tail(const CompileSettings& settings) {
  const bool kept = is_float(settings, "conv"), tail = settings.observer == Observer::kTail;
  const double decibels = (kept ? 40 : 20) + (tail ? (kept ? 2 : -2) : 0);
  return {.sqnr_db = decibels, .folds_db = decibels, .cycles = kept ? 1900U : 1000U};
}

TEST(AccuracySteps, ObserversAreTriedAgainBehindFloats) {
  MadeUpModel model;
  model.figures = with_tail;
  model.choices = {{"conv"}};
  const Found found = search(model);
  EXPECT_EQ(found.verdicts("ranges with a fitted tail"),
            (Names{"rejected: each held out once: 20.0 -> 18.0 dB; gains less than 0.1 dB",
                   "kept: each held out once: 40.0 -> 42.0 dB"}));
  EXPECT_EQ(found.summary.result.options,
            (Names{"--observer", "tail", "--keep-float", "name:conv"}));
  EXPECT_EQ(found.summary.result.sqnr_db, 42);

  // Not where nothing became float, nor for a given goal, nor of a model that is large.
  MadeUpModel same;
  same.figures = with_tail;
  EXPECT_EQ(search(same).verdicts("ranges with a fitted tail").size(), 1u);
  EXPECT_EQ(search(model, {.min_sqnr = 35}).verdicts("ranges with a fitted tail").size(), 1u);
  model.work = 1e9;
  EXPECT_EQ(search(model).verdicts("ranges with a fitted tail").size(), 1u);
}

// ---- all operators in float

// `conv` in float costs more than all in float, which has more decibels: the search takes that.
TEST(AccuracySteps, NothingCostsMoreThanAllInFloat) {
  MadeUpModel model;
  model.all = {"conv", "add"};
  model.choices = {{"conv"}};
  uint64_t all_cycles = 1500;
  model.figures = [&](const CompileSettings& settings) {
    if (is_float(settings, "conv") && is_float(settings, "add"))
      return AccuracyStep{.sqnr_db = 90, .cycles = all_cycles};
    if (is_float(settings, "conv")) return AccuracyStep{.sqnr_db = 40, .cycles = 2000};
    return AccuracyStep{.sqnr_db = 20, .cycles = 1000};
  };
  const Found found = search(model);
  EXPECT_EQ(found.verdicts("float: all operators"), Names{"kept"});
  EXPECT_EQ(found.verdicts("float: conv"), Names{"rejected: all operators in float cost less"});
  EXPECT_EQ(found.summary.result.sqnr_db, 90);
  EXPECT_EQ(found.settings.keep_float, (Names{"name:conv", "name:add"}));

  all_cycles = 2001;
  const Found cheaper = search(model);
  EXPECT_EQ(cheaper.verdicts("float: conv"), Names{"kept"});
  EXPECT_EQ(cheaper.settings.keep_float, Names{"name:conv"});

  // Two of 100 cycles more than the default are worth it at once.
  all_cycles = 1020;
  EXPECT_EQ(search(model).verdicts("float: all operators"), Names{"kept"});
  // A model that is large is not run in float on the CPU.
  model.work = 1e9;
  EXPECT_TRUE(search(model).verdicts("float: all operators").empty());
}

// ---- operators in float for a goal

// What removes most error a cycle comes first: `b` halves it for 10 cycles, `a` removes it for
// 5000.
TEST(AccuracySteps, FloatsAreTakenByErrorACycle) {
  MadeUpModel model;
  model.choices = {{"a"}, {"b"}, {"c"}};
  model.figures = [](const CompileSettings& settings) {
    AccuracyStep step{.sqnr_db = 20, .cycles = 1000};
    if (is_float(settings, "a")) step.sqnr_db += 10, step.cycles += 5000;
    if (is_float(settings, "b")) step.sqnr_db += 3, step.cycles += 10;
    if (is_float(settings, "c")) step.sqnr_db -= 1;
    return step;
  };
  const Found found = search(model, {.min_sqnr = 25});
  // Each program has one row: `b` was measured before it was the first of two, and `a` alone is
  // what is left in the end.
  EXPECT_EQ(found.steps(), (Names{"default", "equalize", "round weights by error", "float: c",
                                  "float: b", "float: a", "int8: a", "int8: b"}));
  EXPECT_EQ(found.verdicts("float: a"), Names{"kept"});
  EXPECT_EQ(found.verdicts("float: b"), Names{"kept"});
  EXPECT_EQ(found.verdicts("float: c"), Names{"measured"});
  // The goal needs `a` alone; `b`, the first that was taken, is tried in int8 behind it.
  EXPECT_EQ(found.verdicts("int8: a"), Names{"rejected: the goal needs it"});
  EXPECT_EQ(found.verdicts("int8: b"), Names{"kept: saves cycles"});
  EXPECT_EQ(found.settings.keep_float, Names{"name:a"});
}

// More and more operators at once: 1, 2, 3, 4, 6, 9 and all 11. `i`, the ninth, is needed.
TEST(AccuracySteps, GrowthEndsAtTheGoalOrAtAllOperators) {
  MadeUpModel model;
  model.by_error = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"};
  model.figures = [](const CompileSettings& settings) {
    return AccuracyStep{.sqnr_db = 20 + static_cast<double>(settings.keep_float.size()) +
                                   (is_float(settings, "i") ? 30 : 0),
                        .cycles = 1000 + settings.keep_float.size()};
  };
  Names growths;
  for (const std::string& name : search(model, {.min_sqnr = 50}).steps())
    if (name.ends_with("that add most error")) growths.push_back(name.substr(11, 2));
  EXPECT_EQ(growths, (Names{"1 ", "2 ", "3 ", "4 ", "6 ", "9 "}));

  // The frontier goes on to all of them, and takes none.
  const Found frontier = search(model, {.frontier = true});
  EXPECT_EQ(frontier.verdicts("float: the 11 operators that add most error"), Names{"measured"});
  EXPECT_TRUE(frontier.settings.keep_float.empty());
}

// A search for its own goal that may try eight programs measures four, of which the first kept one
// takes the row, and adds at most four.
TEST(AccuracySteps, HalfOfTheTriesAreForWhatAddsUp) {
  MadeUpModel model;
  model.work = 1e9;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) model.choices.push_back({name});
  model.by_error = {"a", "b", "c", "d", "e", "f"};
  model.figures = [](const CompileSettings& settings) {
    const size_t floats = settings.keep_float.size();
    return AccuracyStep{.sqnr_db = 20 + 0.5 * static_cast<double>(floats),
                        .cycles = 1000 + 10 * floats};
  };
  const Found found = search(model);
  size_t measured = 0, kept = 0;
  for (const AccuracyStep& step : found.summary.steps) {
    measured += step.verdict == Verdict::kMeasured ? 1 : 0;
    kept += step.verdict == Verdict::kKept ? 1 : 0;
  }
  EXPECT_EQ(measured, 3u);
  EXPECT_EQ(kept, 4u);
  EXPECT_FALSE(found.summary.met);
}

// ---- the end over folds

// Each operator in float gains 1 dB, and over folds every program has 4 dB less. Equalized it has
// 37 and 33 dB: 2 are missing, so that 39 are asked for, which two operators give.
TEST(AccuracySteps, EndIsJudgedOverFolds) {
  MadeUpModel model;
  model.by_error = {"a", "b", "c", "d"};
  double flattery = 4;
  model.figures = [&](const CompileSettings& settings) {
    const double decibels = 32 + (settings.equalize ? 5 : 0) +
                            static_cast<double>(settings.keep_float.size()) -
                            (settings.observer == Observer::kHistogram ? 0 : 10);
    return AccuracyStep{.sqnr_db = decibels, .folds_db = decibels - flattery, .cycles = 1000};
  };
  const Found found = search(model);
  EXPECT_EQ(found.settings.keep_float, (Names{"name:a", "name:b"}));
  EXPECT_EQ(found.summary.result.sqnr_db, 39);
  // Over folds it has the goal, and a program with room does not.
  EXPECT_EQ(found.verdicts("room beyond the samples"),
            Names{"rejected: the goal does not allow it"});

  flattery = 2;
  EXPECT_TRUE(search(model).settings.keep_float.empty());
  flattery = 4;
  EXPECT_TRUE(search(model, {.min_sqnr = 35}).settings.keep_float.empty()) << "of a given goal";
}

// Equalized the model has 50 dB; with a tail 40, by which the goal allows room.
TEST(AccuracySteps, RoomIsLeftAboveTheDefaultsFolds) {
  MadeUpModel model;
  double default_folds = 30;
  model.figures = [&](const CompileSettings& settings) {
    if (!settings.equalize) {
      const double lost = settings.observer == Observer::kHistogram ? 0 : 9;
      return AccuracyStep{.sqnr_db = 30, .folds_db = default_folds - lost, .cycles = 1000};
    }
    const double decibels = settings.observer == Observer::kHistogram ? 50
                            : settings.observer == Observer::kTail    ? 40
                                                                      : 45;
    return AccuracyStep{.sqnr_db = decibels, .folds_db = decibels, .cycles = 1000};
  };
  const Found found = search(model);
  EXPECT_EQ(found.verdicts("room beyond the samples"), Names{"kept: the goal allows it"});
  EXPECT_EQ(found.settings.observer, Observer::kTail);
  EXPECT_EQ(found.summary.result.options, (Names{"--equalize", "--observer", "tail"}));

  default_folds = 41;
  EXPECT_EQ(search(model).verdicts("room beyond the samples"),
            Names{"rejected: the goal does not allow it"});
  EXPECT_EQ(search(model).settings.observer, Observer::kHistogram);
}

// ---- the end with ranges of all samples

// 45 dB with ranges of three quarters are 43 with those of all. 47.5 are then asked for, which
// needs `b`.
TEST(AccuracySteps, GoesOnForWhatRangesOfAllSamplesLose) {
  MadeUpModel model;
  model.choices = {{"a"}};
  model.by_error = {"a", "b"};
  model.figures = [](const CompileSettings& settings) {
    return AccuracyStep{
        .sqnr_db = 30.0 + (is_float(settings, "a") ? 15 : 0) + (is_float(settings, "b") ? 3 : 0),
        .cycles = 1000 + 10 * settings.keep_float.size()};
  };
  model.refitted = [](const CompileSettings& settings) {
    return settings.keep_float.empty() ? 0 : -2;
  };
  const Found found = search(model, {.min_sqnr = 45});
  EXPECT_EQ(found.settings.keep_float, (Names{"name:a", "name:b"}));
  EXPECT_EQ(found.summary.result.sqnr_db, 46);
  EXPECT_TRUE(found.summary.met);
}

TEST(AccuracySteps, DefaultStaysWhereItIsNearerWithAllSamples) {
  MadeUpModel model;
  model.figures = [](const CompileSettings& settings) {
    return AccuracyStep{.sqnr_db = settings.equalize ? 42.0 : 40.0, .cycles = 1000};
  };
  model.refitted = [](const CompileSettings& settings) { return settings.equalize ? -5 : 0; };
  const Found found = search(model);
  EXPECT_EQ(found.verdicts("equalize"), Names{"kept"});
  EXPECT_FALSE(found.settings.equalize);
  EXPECT_EQ(found.summary.result.why, "the default: with ranges of all samples it is nearer");
  EXPECT_EQ(found.summary.result.sqnr_db, 40);
}

// Where samples are judged in turn, the figures are those of the held-out ones.
TEST(AccuracySteps, SamplesInTurnKeepTheirFigures) {
  MadeUpModel model;
  model.samples.in_turn = true;
  model.figures = [](const CompileSettings& settings) {
    return AccuracyStep{.sqnr_db = settings.equalize ? 42.0 : 40.0, .cycles = 1000};
  };
  model.refitted = [](const CompileSettings&) { return 50; };
  const Found found = search(model);
  EXPECT_EQ(found.summary.start.sqnr_db, 40);
  EXPECT_EQ(found.summary.result.sqnr_db, 42);
}

// ---- what does not go on

TEST(AccuracySteps, WhatDoesNotCompileIsARow) {
  MadeUpModel model;
  model.figures = [](const CompileSettings&) {
    return AccuracyStep{.sqnr_db = 20, .cycles = 1000};
  };
  model.compiles = [](const CompileSettings& settings) { return !settings.equalize; };
  EXPECT_EQ(search(model).verdicts("equalize"), Names{"failed: too large"});

  model.compiles = [](const CompileSettings&) { return false; };
  EXPECT_FALSE(search_steps(model, {.seconds = 600})) << "the default has to compile";

  model.compiles = [](const CompileSettings&) { return true; };
  model.broken = Diagnostic{.id = DiagnosticId::kProcessFailed, .reason = "a worker is lost"};
  const Result<SearchedSettings> lost = search_steps(model, {.seconds = 600});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().id, DiagnosticId::kProcessFailed);
}

// The work of a candidate notices the end of the time, as compilations do.
TEST(AccuracySteps, TimeEndsTheSearchWithTheBestSoFar) {
  MadeUpModel model;
  model.figures = [](const CompileSettings& settings) {
    if (settings.rounding == Rounding::kError)
      while (true) check_cancelled();
    return AccuracyStep{.sqnr_db = settings.equalize ? 32.0 : 30.0, .cycles = 1000};
  };
  const Result<SearchedSettings> found = search_steps(model, {.seconds = 0.05});
  ASSERT_TRUE(found) << to_text(found.error());
  EXPECT_EQ(found->summary.cut, "the time is over");
  EXPECT_TRUE(found->settings.equalize);
  EXPECT_FALSE(found->summary.met);
}

}  // namespace
}  // namespace dtr
