#include "host/accuracy/accuracy_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "compiler/recipes/selection.h"
#include "compiler/support/interruption.h"
#include "host/accuracy/accuracy_verdicts.h"

namespace dtr {
namespace {

constexpr size_t kMostReturns = 16;  // operators that are tried in int8 again at the end

// Ends the work of this thread at a time, at an interrupt, or when the caller's work is cancelled.
class Limit {
 public:
  explicit Limit(double seconds)
      : outer_(Cancellation::current()),
        interrupt_(interrupted_),
        scope_(&own_),
        watcher_([this, end = std::chrono::steady_clock::now() +
                              std::chrono::duration<double>(seconds)](const std::stop_token& stop) {
          while (!stop.stop_requested() && !own_.cancelled()) {
            late_ = std::chrono::steady_clock::now() >= end;
            if (late_ || interrupted_.cancelled() || (outer_ != nullptr && outer_->cancelled()))
              own_.cancel();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        }) {}
  // What ended the work; rethrows if the caller's was cancelled.
  std::string reason() const {
    if (outer_ != nullptr && outer_->cancelled()) throw Cancelled();
    return interrupted_.cancelled() ? "interrupted" : late_ ? "the time is over" : "";
  }

 private:
  const Cancellation* outer_;
  Cancellation own_, interrupted_;
  InterruptScope interrupt_;  // of the caller's work
  CancellationScope scope_;
  std::atomic<bool> late_{false};
  std::jthread watcher_;  // last: it ends first
};

class StepSearch {
 public:
  StepSearch(SearchedModel& model, const AccuracySearchOptions& options)
      : model_(model), options_(options) {}

  Result<SearchedSettings> run() {
    summary_ = model_.known();
    if (summary_.in_turn) {
      DTR_ASSIGN(best_, make(model_.base(), "default"));
      summary_.start = best_->figures;
    } else {
      DTR_ASSIGN(summary_.start, model_.judge_default());
      summary_.start.name = "default";
    }
    goal_ = goal_of(options_, summary_);
    summary_.own_goal = goal_.own;
    summary_.goal = goal_.text();
    if (goal_.own) own_tries_ = own_tries(model_.macs(), summary_.judged);
    chosen_ = model_.base();
    summary_.result = summary_.start;
    if (goal_.own || !goal_.meets(summary_.start)) {
      DTR_TRY(search_within_limit());
      if (best_ && kept_ > 0 && !options_.frontier) DTR_TRY(refit_to_goal());
    } else {
      summary_.steps.push_back(summary_.start);
    }
    summary_.result.name = "result";
    summary_.met = goal_.meets(summary_.result) || summary_.goal.empty();
    return SearchedSettings{std::move(chosen_), std::move(summary_)};
  }

 private:
  using Verdict = AccuracyStep::Verdict;
  using Clock = std::chrono::steady_clock;

  // ---- candidates

  // What the command needs besides the given options for these settings.
  std::vector<std::string> added_options(const CompileSettings& settings) const {
    const CompileSettings& base = model_.base();
    std::vector<std::string> added;
    if (settings.equalize && !base.equalize) added.emplace_back("--equalize");
    if (settings.rotate && !base.rotate) added.emplace_back("--rotate");
    if (settings.rounding != base.rounding) added.insert(added.end(), {"--round-weights", "error"});
    if (settings.observer != base.observer) {
      const auto index = static_cast<size_t>(settings.observer);
      added.insert(added.end(), {"--observer", std::string(QuantSpec::kObserverNames[index])});
    }
    for (const std::string& name : settings.keep_float)
      if (std::ranges::find(base.keep_float, name) == base.keep_float.end())
        added.insert(added.end(), {"--keep-float", name});
    return added;
  }

  Result<Candidate> make(CompileSettings settings, std::string name, bool over_folds = false) {
    if (options_.on_step) options_.on_step(name);
    Result<Candidate> made = model_.make(std::move(settings), over_folds);
    if (!made) return made;
    made->figures.name = std::move(name);
    made->figures.options = added_options(made->settings);
    return made;
  }

  // Adds a row to the table, in place of the one that the same program has: it may be measured
  // alone and then be the first of several, or be tried again for another goal. What was kept
  // before keeps its row.
  void add_row(AccuracyStep row) {
    const auto sorted = [](std::vector<std::string> options) {
      std::ranges::sort(options);
      return options;
    };
    std::erase_if(summary_.steps, [&](const AccuracyStep& other) {
      if (other.verdict != Verdict::kMeasured &&
          (other.name != row.name ||
           (other.verdict != Verdict::kRejected && other.verdict != Verdict::kFailed)))
        return false;
      return sorted(other.options) == sorted(row.options);
    });
    summary_.steps.push_back(std::move(row));
  }

  // Tries a candidate; keeps it if it is better than the best so far. True if it was kept.
  bool attempt(CompileSettings settings, const std::string& name, bool may_cost,
               bool over_folds = false) {
    Result<Candidate> candidate = make(std::move(settings), name, over_folds);
    if (!candidate) {
      const std::string& reason = candidate.error().reason;  // a row holds the first of its lines
      add_row(
          {.name = name, .verdict = Verdict::kFailed, .why = reason.substr(0, reason.find('\n'))});
      return false;
    }
    AccuracyStep& step = candidate->figures;
    judge_attempt(step, goal_,
                  {.best = best_->figures, .start_cycles = start_cycles_, .flattery = flattery_},
                  may_cost);
    const bool kept = step.verdict == Verdict::kKept;
    if (kept && all_float_ && is_beaten_by_all_float(step, all_float_->figures)) {
      step.verdict = Verdict::kRejected;
      step.why = "all operators in float cost less";
      add_row(step);
      candidate = *std::exchange(all_float_, std::nullopt);
      candidate->figures.verdict = Verdict::kKept;
      candidate->figures.why.clear();
    }
    add_row(candidate->figures);
    if (kept) {
      best_ = std::move(*candidate);
      ++kept_;
    }
    return kept;
  }

  // Judges the best program with each sample held out once. False: it cannot be.
  bool judge_best_over_folds() {
    const Result<Candidate> now = make(best_->settings, "each sample held out once", true);
    if (!now) return false;
    AccuracyStep& best = best_->figures;
    best.folds_db = now->figures.folds_db;
    best.folds_same_class = now->figures.folds_same_class;
    if (best.folds_db) flattery_ = std::max(0.0, best.sqnr_db - *best.folds_db);
    return best.folds_db.has_value();
  }

  bool done() const { return goal_.reached(best_->figures); }
  // Of steps that cost nothing: without a given goal all of them are tried.
  bool enough() const { return !goal_.own && done(); }

  bool may_try() {
    if (!goal_.own) return true;
    if (own_tries_ == 0) return false;
    --own_tries_;
    return true;
  }

  double seconds_left() const {
    return options_.seconds - std::chrono::duration<double>(Clock::now() - began_).count();
  }

  Result<void> search_within_limit() {
    const Limit limit(options_.seconds);
    try {
      expect_free_steps();
      if (!best_) {
        DTR_ASSIGN(best_, make(model_.base(), "default"));
      }
      summary_.steps.push_back(best_->figures);
      start_cycles_ = best_->figures.cycles;
      held_out_db_ = best_->figures.sqnr_db;
      if (enough()) return {};
      try_free_steps();
      if (options_.frontier || !done()) try_float_operators();
      if (options_.frontier || !done()) grow_float();
      if (!options_.frontier) return_to_int8();
      try_observers_again();
      check_over_folds();
    } catch (const Cancelled&) {
      summary_.cut = limit.reason();
    }
    return failure();
  }
  Result<void> failure() const {
    std::optional<Diagnostic> why = model_.failure();
    if (why) return tl::unexpected(*std::move(why));
    return {};
  }

  // All combinations of what try_free_steps tries first, those with few steps before the others.
  void expect_free_steps() {
    std::vector<CompileSettings> likely;
    for (const unsigned steps : {1U, 2U, 3U}) {
      CompileSettings& settings = likely.emplace_back(model_.base());
      if ((steps & 1U) != 0) settings.equalize = true;
      if ((steps & 2U) != 0) settings.rounding = Rounding::kError;
    }
    model_.expect(likely, false);
  }

  // What costs no cycles.
  void try_free_steps() {
    const auto equalized = [&] {
      CompileSettings settings = best_->settings;
      settings.equalize = true;
      return attempt(std::move(settings), "equalize", false);
    };
    const bool at_first = model_.base().equalize || equalized();
    if (enough()) return;
    if (!model_.base().rotate && model_.has_norms()) {
      CompileSettings settings = best_->settings;
      settings.rotate = true;
      const bool equalized_too = settings.equalize && !model_.base().equalize;
      CompileSettings alone = settings;
      attempt(std::move(settings), "rotate", false);
      if (enough()) return;
      alone.equalize = model_.base().equalize;
      if (equalized_too) attempt(std::move(alone), "rotate without equalizing", false);
      if (enough()) return;
    }
    if (model_.base().rounding != Rounding::kError) {
      CompileSettings settings = best_->settings;
      settings.rounding = Rounding::kError;
      attempt(std::move(settings), "round weights by error", false);
      if (enough()) return;
    }
    try_observers();
    if (enough()) return;
    // What did not help weights of the default may help others.
    if (!at_first && kept_ > 0) equalized();
    try_float_outputs();
    if (goal_.own && is_small(own_tries_)) try_all_float();
  }

  // Few samples do not show what others saturate, and least of all the held-out ones: each sample
  // is held out once.
  void try_observers() {
    using Observer = QuantSpec::Observer;
    if (model_.base().observer != Observer::kHistogram) return;
    floats_at_ranges_ = best_->settings.keep_float.size();
    struct Choice {
      Observer observer;
      std::string name;
    };
    std::vector<Choice> choices{{Observer::kTail, "ranges with a fitted tail"},
                                {Observer::kMinMax, "ranges from minimum and maximum"},
                                {Observer::kHistogram, "ranges of least error"}};
    std::erase_if(
        choices, [&](const Choice& choice) { return choice.observer == best_->settings.observer; });
    std::vector<CompileSettings> likely(1 + choices.size(), best_->settings);
    for (size_t i = 0; i < choices.size(); ++i) likely[i + 1].observer = choices[i].observer;
    model_.expect(likely, true);
    if (!judge_best_over_folds()) return;
    for (const Choice& choice : choices) {
      CompileSettings settings = best_->settings;
      settings.observer = choice.observer;
      attempt(std::move(settings), choice.name, false, true);
      if (enough()) return;
    }
  }

  // Operators became float since: what is left in int8 may need room, or none.
  void try_observers_again() {
    const size_t floats = best_->settings.keep_float.size();
    if (!options_.frontier && goal_.own && is_small(own_tries_) && floats != floats_at_ranges_)
      try_observers();
  }

  // What was chosen by few samples is worse on others. Each sample is held out once, and what the
  // program lacks of the goal then is asked of it on the held-out ones beyond the goal.
  void check_over_folds() {
    if (options_.frontier || !goal_.own || kept_ == 0 || !is_small(own_tries_)) return;
    const Result<Candidate> start = make(model_.base(), "default", true);
    if (start) start_folds_db_ = start->figures.folds_db;
    constexpr int kMostChecks = 3;
    for (int i = 0; i < kMostChecks; ++i) {
      if (!judge_best_over_folds()) return;
      const std::optional<double> shortfall = shortfall_over_folds(best_->figures, goal_);
      if (!shortfall) {
        leave_room();
        break;
      }
      goal_.shortfall = *shortfall;
      const size_t before = kept_;
      if (!done()) grow_float();
      if (kept_ == before) break;
    }
  }

  // Where the goal is reached by more than it asks for, decibels are given for what no sample
  // shows: a single far element of another sample can cost more than all rounding.
  void leave_room() {
    using Observer = QuantSpec::Observer;
    constexpr double kAsFloat = 90;  // dB; nothing of it is int8
    if (model_.base().observer != Observer::kHistogram ||
        best_->settings.observer == Observer::kTail || *best_->figures.folds_db >= kAsFloat)
      return;
    CompileSettings settings = best_->settings;
    settings.observer = Observer::kTail;
    Result<Candidate> candidate = make(std::move(settings), "room beyond the samples", true);
    if (!candidate || !candidate->figures.folds_db) return;
    judge_room(candidate->figures, goal_, best_->figures, start_folds_db_);
    add_row(candidate->figures);
    if (candidate->figures.verdict == Verdict::kKept) best_ = std::move(*candidate);
  }

  // Of small layers calls cost more than products: the CPU may be faster with all of them in float.
  // Then nothing saturates on samples that calibration did not see, whatever the judged ones say.
  void try_all_float() {
    const std::vector<std::string> names = model_.all_nodes(*best_);
    if (names.empty()) return;
    CompileSettings settings = with_float(model_.base(), names);
    if (attempt(settings, "float: all operators", false) ||
        summary_.steps.back().verdict == Verdict::kFailed)
      return;
    all_float_ = Candidate{std::move(settings), std::nullopt, summary_.steps.back()};
  }

  // An output is float in the end: a small layer that makes it often costs no more in float than
  // its result costs to dequantize, and rounds nothing.
  void try_float_outputs() {
    const std::vector<std::string> names = model_.output_nodes(*best_);
    std::vector<CompileSettings> likely;
    for (const std::string& name : names) likely.push_back(with_float(best_->settings, {name}));
    model_.expect(likely, false);
    for (const std::string& name : names) {
      if (enough()) return;
      CompileSettings settings = with_float(best_->settings, {name});
      if (settings.keep_float == best_->settings.keep_float) continue;
      attempt(std::move(settings), text_of({name}), false);
    }
  }

  // ---- operators on the CPU

  struct FloatChoice {
    std::vector<std::string> names;
    double removed_per_cycle = 0;
  };

  static std::string text_of(const std::vector<std::string>& names) {
    return fmt::format("float: {}", fmt::join(names, " + "));
  }

  static CompileSettings with_float(CompileSettings settings,
                                    const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      // The prefix: otherwise all nodes of an operator of that name.
      std::string node = fmt::format("{}{}", kNodePrefix, name);
      if (std::ranges::find(settings.keep_float, node) == settings.keep_float.end())
        settings.keep_float.push_back(std::move(node));
    }
    return settings;
  }

  // The share of the signal that is error, worst first.
  static double noise(const AccuracyStep& step) { return std::pow(10, -step.sqnr_db / 10); }

  // Measures what each choice removes, then adds them, the best first, until the goal is reached.
  void try_float_operators() {
    std::vector<FloatChoice> all;
    for (std::vector<std::string>& names : model_.float_choices(*best_))
      all.push_back({std::move(names)});
    const CompileSettings settings = best_->settings;
    const AccuracyStep from = best_->figures;
    std::vector<CompileSettings> likely;
    for (const FloatChoice& choice : all) likely.push_back(with_float(settings, choice.names));
    model_.expect(likely, false);
    const size_t half = own_tries_ / 2;  // the rest is for what they add up to
    for (FloatChoice& choice : all) {
      if (goal_.own && own_tries_ <= half) break;
      if (!may_try()) break;
      Result<Candidate> candidate = make(with_float(settings, choice.names), text_of(choice.names));
      if (!candidate) continue;
      AccuracyStep step = candidate->figures;
      const double removed = noise(from) - noise(step);
      const auto cycles = static_cast<double>(step.cycles) - static_cast<double>(from.cycles);
      choice.removed_per_cycle = removed / std::max(1.0, cycles);
      step.verdict = Verdict::kMeasured;
      add_row(std::move(step));
    }
    std::ranges::stable_sort(all, std::greater<>(), &FloatChoice::removed_per_cycle);
    std::erase_if(all, [](const FloatChoice& choice) { return choice.removed_per_cycle <= 0; });
    for (size_t i = 0; i < all.size(); ++i) {
      const FloatChoice& choice = all[i];
      CompileSettings next = with_float(best_->settings, choice.names);
      if (next.keep_float == best_->settings.keep_float) continue;
      // Most of them are kept.
      std::vector<CompileSettings> chain{next};
      for (size_t k = i + 1; k < all.size(); ++k)
        chain.push_back(with_float(chain.back(), all[k].names));
      model_.expect(chain, false);
      if (!may_try()) return;
      attempt(std::move(next), text_of(choice.names), true);
      if (done()) return;
    }
  }

  // More and more operators in float, those with the largest share of the error first: alone an
  // operator gains little while its neighbours round. Until the goal is reached, or, for the
  // frontier, all are float.
  void grow_float() {
    if (!options_.frontier && summary_.goal.empty()) return;
    const std::vector<std::string> names = model_.nodes_by_error(*best_);
    struct Growth {
      std::string name;
      CompileSettings settings;
    };
    std::vector<Growth> growths;
    std::vector<CompileSettings> likely;
    for (size_t count = 1; count <= names.size();
         count = count == names.size()
                     ? count + 1
                     : std::min(names.size(), count + std::max<size_t>(1, count / 2))) {
      const std::vector<std::string> some(names.begin(),
                                          names.begin() + static_cast<ptrdiff_t>(count));
      likely.push_back(with_float(best_->settings, some));
      growths.push_back(
          {fmt::format("float: the {} operators that add most error", count), likely.back()});
    }
    model_.expect(likely, false);
    for (Growth& growth : growths) {
      if (!options_.frontier) {
        if (!may_try()) return;
        attempt(std::move(growth.settings), growth.name, true);
        if (done()) return;
      } else if (Result<Candidate> candidate = make(std::move(growth.settings), growth.name)) {
        candidate->figures.verdict = Verdict::kMeasured;
        add_row(std::move(candidate->figures));
      }
    }
  }

  // Operators that became float early may not be needed for the goal any more.
  void return_to_int8() {
    if (!done()) return;
    const size_t given = model_.base().keep_float.size();
    size_t tries = 0;
    for (size_t i = best_->settings.keep_float.size();
         i-- > given && best_->settings.keep_float.size() > given + 1 && tries < kMostReturns;) {
      CompileSettings settings = best_->settings;
      const std::string name = settings.keep_float[i];
      settings.keep_float.erase(settings.keep_float.begin() + static_cast<ptrdiff_t>(i));
      ++tries;
      if (!may_try()) return;
      Result<Candidate> candidate =
          make(std::move(settings), fmt::format("int8: {}", name.substr(kNodePrefix.size())));
      if (!candidate) continue;
      judge_return(candidate->figures, goal_, best_->figures);
      add_row(candidate->figures);
      if (candidate->figures.verdict == Verdict::kKept) best_ = std::move(*candidate);
    }
  }

  // ---- the end

  // With ranges of all samples a program may miss the decibels that it had with those of three
  // quarters. The search then goes on for as many more as it missed.
  Result<void> refit_to_goal() {
    constexpr int kMostRefits = 4;
    DTR_TRY(refit());
    for (int i = 1; i < kMostRefits && goal_.min_sqnr && summary_.cut.empty(); ++i) {
      if (goal_.meets(summary_.result) || seconds_left() <= 0) return {};
      if (summary_.result.sqnr_db >= *goal_.min_sqnr) return {};  // labels are missed, not decibels
      goal_.shortfall = shortfall_of_refit(best_->figures, summary_.result, goal_);
      const size_t before = kept_;
      const Limit limit(seconds_left());
      try {
        grow_float();
      } catch (const Cancelled&) {
        summary_.cut = limit.reason();
      }
      DTR_TRY(failure());
      if (kept_ == before) return {};
      DTR_TRY(refit());
    }
    return {};
  }

  // Ranges of all samples are better than those of three quarters: the chosen settings are compiled
  // with them, and kept unless the default is better. Where samples are judged in turn the figures
  // stay: its own would be those of samples that its ranges come from.
  Result<void> refit() {
    CompileSettings settings = best_->settings;
    AccuracyStep result = best_->figures;
    if (!model_.known().in_turn) {
      DTR_ASSIGN(result, model_.judge_on_all(settings));
    }
    result.verdict = Verdict::kStart;
    result.why.clear();
    const ResultSoFar before{
        .step = summary_.result, .held_out_db = held_out_db_, .start_folds_db = start_folds_db_};
    if (is_worse_refitted(result, best_->figures, before)) {
      if (summary_.result.options.empty())
        summary_.result.why = "the default: with ranges of all samples it is nearer";
      return {};
    }
    held_out_db_ = best_->figures.sqnr_db;
    summary_.result = std::move(result);
    summary_.result.options = added_options(settings);
    settings.samples = model_.base().samples;
    chosen_ = std::move(settings);
    return {};
  }

  SearchedModel& model_;
  const AccuracySearchOptions& options_;
  AccuracyGoal goal_;
  size_t own_tries_ = 0;  // left
  CompileSettings chosen_;
  std::optional<Candidate> best_;
  size_t floats_at_ranges_ = 0;         // operators that were float when observers were tried
  std::optional<Candidate> all_float_;  // all operators in float, if they were too expensive
  uint64_t start_cycles_ = 0;
  size_t kept_ = 0;
  double flattery_ = 0;  // dB that the best has on the held-out samples beyond those over folds
  std::optional<double> start_folds_db_;  // of the default, each sample held out once
  double held_out_db_ = 0;  // of the program that is the result so far, on held-out samples
  Clock::time_point began_ = Clock::now();
  AccuracySummary summary_;
};

}  // namespace

Result<SearchedSettings> search_steps(SearchedModel& model, const AccuracySearchOptions& options) {
  return StepSearch(model, options).run();
}

}  // namespace dtr
