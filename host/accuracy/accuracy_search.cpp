#include "host/accuracy/accuracy_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "compiler/recipes/selection.h"
#include "compiler/support/interruption.h"
#include "host/accuracy/accuracy_candidates.h"
#include "host/accuracy/quantization_report.h"
#include "host/accuracy/search_tasks.h"

namespace dtr {
namespace {

using Clock = std::chrono::steady_clock;
using Verdict = AccuracyStep::Verdict;

constexpr double kMostCycles = 1.02;   // of a step that is not asked for by a goal
constexpr size_t kMostOutputs = 4;     // whose operators are tried in float
constexpr size_t kMostSensitive = 12;  // operators whose sensitivity is measured

// Ends the work of this thread at a time, at an interrupt, or when the caller's work is cancelled.
class Limit {
 public:
  explicit Limit(double seconds)
      : outer_(Cancellation::current()),
        interrupt_(interrupted_),
        scope_(&own_),
        watcher_([this, end = Clock::now() +
                              std::chrono::duration<double>(seconds)](const std::stop_token& stop) {
          while (!stop.stop_requested() && !own_.cancelled()) {
            late_ = Clock::now() >= end;
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

class Search {
 public:
  Search(const ModelSource& source, const CompileSettings& settings,
         const AccuracySearchOptions& options)
      : options_(options), judge_(source, settings, options) {}

  Result<AccuracySearchResult> run(const ModelSource& source, const CompileSettings& given) {
    DTR_ASSIGN(pool_, CandidatePool::start(source, given, options_));
    DTR_TRY(judge_.prepare(given, false));
    const Compilation& all = judge_.all();
    floats_ = float_fingerprint(all);
    summary_ = judge_.known();
    DTR_ASSIGN(summary_.start, judge_.judge(all, "default"));
    describe_goal();
    CompileSettings chosen = judge_.base();
    summary_.result = summary_.start;
    if (!meets(summary_.start)) {
      DTR_TRY(search_within_limit());
      if (best_ && kept_ > 0 && !options_.frontier) DTR_TRY(refit_to_goal(*all.samples(), chosen));
    } else {
      summary_.steps.push_back(summary_.start);
    }
    summary_.result.name = "result";
    summary_.met = meets(summary_.result) || summary_.goal.empty();
    return AccuracySearchResult{std::move(chosen), std::move(summary_), judge_.take_all()};
  }

 private:
  void describe_goal() {
    if (options_.min_sqnr) summary_.goal = fmt::format("{:.1f} dB", *options_.min_sqnr);
    if (options_.max_loss)
      summary_.goal = fmt::format("at most {:.2f} points below the float model's accuracy",
                                  100 * *options_.max_loss);
  }
  // Whether nothing more is asked for; never without a goal.
  bool meets(const AccuracyStep& step) const {
    if (options_.max_loss)
      return step.accuracy &&
             *summary_.float_accuracy - *step.accuracy <= *options_.max_loss + 1e-9;
    return options_.min_sqnr && step.sqnr_db >= *options_.min_sqnr;
  }

  // ---- candidates

  // What the command needs besides the given options for these settings.
  std::vector<std::string> added_options(const CompileSettings& settings) const {
    const CompileSettings& base = judge_.base();
    std::vector<std::string> added;
    if (settings.equalize && !base.equalize) added.emplace_back("--equalize");
    if (settings.rounding != base.rounding) added.insert(added.end(), {"--round-weights", "error"});
    if (settings.observer != base.observer) added.insert(added.end(), {"--observer", "min-max"});
    for (const std::string& name : settings.keep_float)
      if (std::ranges::find(base.keep_float, name) == base.keep_float.end())
        added.insert(added.end(), {"--keep-float", name});
    return added;
  }

  // Compiles and judges a candidate, or has it judged.
  Result<Candidate> make(CompileSettings settings, std::string name) {
    if (options_.on_step) options_.on_step(name);
    Result<Candidate> made = [&]() -> Result<Candidate> {
      if (pool_ == nullptr) return judge_.make(std::move(settings), name);
      DTR_ASSIGN(AccuracyStep figures, pool_->judge(settings, floats_));
      return Candidate{std::move(settings), std::nullopt, std::move(figures)};
    }();
    if (!made) return made;
    made->figures.name = std::move(name);
    made->figures.options = added_options(made->settings);
    return made;
  }

  // What is probably tried next.
  void expect(std::vector<CompileSettings> likely) {
    if (pool_ != nullptr) pool_->expect(std::move(likely));
  }

  // The best candidate, compiled here. Null: it cannot be.
  const Compilation* best_compilation() {
    if (!best_->compilation) {
      Result<Compilation> made = judge_.compile(best_->settings);
      if (!made) return nullptr;
      best_->compilation = std::move(*made);
    }
    return &*best_->compilation;
  }

  // Tries a candidate; keeps it if it is better than the best so far. True if it was kept.
  bool attempt(CompileSettings settings, const std::string& name, bool may_cost) {
    Result<Candidate> candidate = make(std::move(settings), name);
    if (!candidate) {
      summary_.steps.push_back(
          {.name = name, .verdict = Verdict::kFailed, .why = candidate.error().reason});
      return false;
    }
    AccuracyStep& step = candidate->figures;
    const AccuracyStep& best = best_->figures;
    const double least = static_cast<double>(start_cycles_) * kMostCycles;
    step.verdict = Verdict::kRejected;
    if (step.sqnr_db < best.sqnr_db + kLeastGain) {
      step.why = "gains less than 0.1 dB";
    } else if (step.accuracy && *step.accuracy < *best.accuracy) {
      step.why = "loses accuracy";
    } else if (!may_cost && static_cast<double>(step.cycles) > least) {
      step.why = "costs too many cycles";
    } else {
      step.verdict = Verdict::kKept;
    }
    const bool kept = step.verdict == Verdict::kKept;
    summary_.steps.push_back(step);
    if (kept) {
      best_ = std::move(*candidate);
      ++kept_;
    }
    return kept;
  }

  bool done() const {
    return meets(best_->figures) &&
           (shortfall_ == 0 || best_->figures.sqnr_db >= *options_.min_sqnr + shortfall_);
  }

  double seconds_left() const {
    return options_.seconds - std::chrono::duration<double>(Clock::now() - began_).count();
  }

  Result<void> search_within_limit() {
    const Limit limit(options_.seconds);
    try {
      expect_free_steps();
      DTR_ASSIGN(best_, make(judge_.base(), "default"));
      summary_.steps.push_back(best_->figures);
      start_cycles_ = best_->figures.cycles;
      if (done()) return {};
      try_free_steps();
      if (!done() && (options_.frontier || !summary_.goal.empty())) try_float_operators();
      if (options_.frontier || !done()) grow_float();
    } catch (const Cancelled&) {
      summary_.cut = limit.reason();
    }
    return pool_failure();
  }
  Result<void> pool_failure() const {
    if (pool_ != nullptr && pool_->failure()) return tl::unexpected(*pool_->failure());
    return {};
  }

  // All combinations of what try_free_steps tries first, those with few steps before the others.
  void expect_free_steps() {
    std::vector<CompileSettings> likely;
    for (const unsigned steps : {1U, 2U, 4U, 3U, 5U, 6U, 7U}) {
      CompileSettings& settings = likely.emplace_back(judge_.base());
      if ((steps & 1U) != 0) settings.equalize = true;
      if ((steps & 2U) != 0) settings.rounding = Rounding::kError;
      if ((steps & 4U) != 0) settings.observer = QuantSpec::Observer::kMinMax;
    }
    expect(std::move(likely));
  }

  // What costs no cycles.
  void try_free_steps() {
    const auto equalized = [&] {
      CompileSettings settings = best_->settings;
      settings.equalize = true;
      return attempt(std::move(settings), "equalize", false);
    };
    const bool at_first = judge_.base().equalize || equalized();
    if (done()) return;
    if (judge_.base().rounding != Rounding::kError) {
      CompileSettings settings = best_->settings;
      settings.rounding = Rounding::kError;
      attempt(std::move(settings), "round weights by error", false);
      if (done()) return;
    }
    if (judge_.base().observer != QuantSpec::Observer::kMinMax) {
      CompileSettings settings = best_->settings;
      settings.observer = QuantSpec::Observer::kMinMax;
      attempt(std::move(settings), "ranges from minimum and maximum", false);
      if (done()) return;
    }
    // What did not help weights of the default may help others.
    if (!at_first && kept_ > 0) equalized();
    try_float_outputs();
  }

  // An output is float in the end: a small layer that makes it often costs no more in float than
  // its result costs to dequantize, and rounds nothing.
  void try_float_outputs() {
    const Compilation* const best = best_compilation();
    if (best == nullptr) return;
    const Graph& graph = best->conversion->float_graph;
    std::vector<std::string> names;
    for (size_t k = 0; k < std::min(graph.user_output_count(), kMostOutputs); ++k)
      if (const OpId producer = graph.producer(graph.outputs()[k]); producer.valid())
        names.push_back(place_of(best->module, graph, producer).node);
    std::vector<CompileSettings> likely;
    for (const std::string& name : names)
      if (!name.empty()) likely.push_back(with_float(best_->settings, {name}));
    expect(std::move(likely));
    for (const std::string& name : names) {
      if (name.empty() || done()) continue;
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

  // Each of the operators that add most error, alone and with its readers: what an operator rounds
  // at its end stays rounded as long as an int8 operator reads it.
  std::vector<FloatChoice> choices() {
    std::vector<FloatChoice> found;
    const Compilation* const best = best_compilation();
    if (best == nullptr) return found;
    const auto report = report_quantization(*best);
    if (!report) return found;
    const Graph& graph = best->conversion->float_graph;
    const Module& module = best->module;
    for (const ErrorRow& row : report->operators) {
      if (found.size() >= 2 * kMostSensitive) break;
      if (row.name.empty() || row.op == "quantize" || row.op == "dequantize") continue;
      std::vector<std::string> names{row.name};
      if (std::ranges::any_of(found, [&](const FloatChoice& c) { return c.names == names; }))
        continue;
      found.push_back({names});
      for (const OpId id : graph.ops()) {
        if (place_of(module, graph, id).node != row.name) continue;
        for (const ValueId result : graph.op(id).results)
          for (const Use& use : graph.value(result).uses) {
            const std::string reader = place_of(module, graph, use.op).node;
            if (!reader.empty() && std::ranges::find(names, reader) == names.end())
              names.push_back(reader);
          }
      }
      if (names.size() > 1) found.push_back({std::move(names)});
    }
    return found;
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
    std::vector<FloatChoice> all = choices();
    const CompileSettings settings = best_->settings;
    const AccuracyStep from = best_->figures;
    std::vector<CompileSettings> likely;
    for (const FloatChoice& choice : all) likely.push_back(with_float(settings, choice.names));
    expect(std::move(likely));
    for (FloatChoice& choice : all) {
      Result<Candidate> candidate = make(with_float(settings, choice.names), text_of(choice.names));
      if (!candidate) continue;
      AccuracyStep step = candidate->figures;
      const double removed = noise(from) - noise(step);
      const auto cycles = static_cast<double>(step.cycles) - static_cast<double>(from.cycles);
      choice.removed_per_cycle = removed / std::max(1.0, cycles);
      step.verdict = Verdict::kMeasured;
      summary_.steps.push_back(std::move(step));
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
      expect(std::move(chain));
      attempt(std::move(next), text_of(choice.names), true);
      if (done()) return;
    }
  }

  // More and more operators in float, those with the largest share of the error first: alone an
  // operator gains little while its neighbours round. Until the goal is reached, or, for the
  // frontier, all are float.
  void grow_float() {
    if (!options_.frontier && summary_.goal.empty()) return;
    const Compilation* const best = best_compilation();
    if (best == nullptr) return;
    const auto report = report_quantization(*best);
    if (!report) return;
    std::vector<std::string> names;
    for (const ErrorRow& row : report->operators)
      if (!row.name.empty() && std::ranges::find(names, row.name) == names.end())
        names.push_back(row.name);
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
    expect(std::move(likely));
    for (Growth& growth : growths) {
      if (!options_.frontier) {
        attempt(std::move(growth.settings), growth.name, true);
        if (done()) return;
      } else if (Result<Candidate> candidate = make(std::move(growth.settings), growth.name)) {
        candidate->figures.verdict = Verdict::kMeasured;
        summary_.steps.push_back(std::move(candidate->figures));
      }
    }
  }

  // ---- the end

  // With ranges of all samples a program may miss the decibels that it had with those of three
  // quarters. The search then goes on for as many more as it missed.
  Result<void> refit_to_goal(const Samples& samples, CompileSettings& chosen) {
    constexpr int kMostRefits = 4;
    constexpr double kMargin = 0.5;  // dB
    DTR_TRY(refit(samples, chosen));
    for (int i = 1; i < kMostRefits && options_.min_sqnr && summary_.cut.empty(); ++i) {
      if (meets(summary_.result) || seconds_left() <= 0) return {};
      shortfall_ += *options_.min_sqnr - summary_.result.sqnr_db + kMargin;
      const size_t before = kept_;
      const Limit limit(seconds_left());
      try {
        grow_float();
      } catch (const Cancelled&) {
        summary_.cut = limit.reason();
      }
      DTR_TRY(pool_failure());
      if (kept_ == before) return {};
      DTR_TRY(refit(samples, chosen));
    }
    return {};
  }

  // Ranges of all samples are better than those of three quarters: the chosen settings are compiled
  // with them, and kept unless the default, compiled so, is better.
  Result<void> refit(const Samples& samples, CompileSettings& chosen) {
    CompileSettings settings = best_->settings;
    DTR_ASSIGN(const Compilation made, judge_.compile_on(samples, settings));
    DTR_ASSIGN(AccuracyStep result, judge_.judge(made, "result"));
    // Than the default, or what was compiled so before.
    const bool worse = result.sqnr_db < summary_.result.sqnr_db ||
                       (result.accuracy && *result.accuracy < *summary_.result.accuracy);
    if (worse) {
      if (summary_.result.options.empty())
        summary_.result.why = "the default: with ranges of all samples it is nearer";
      return {};
    }
    summary_.result = std::move(result);
    summary_.result.options = added_options(settings);
    settings.samples = judge_.base().samples;
    chosen = std::move(settings);
    return {};
  }

  const AccuracySearchOptions& options_;
  CandidateJudge judge_;
  std::unique_ptr<CandidatePool> pool_;  // null: candidates are made here
  uint32_t floats_ = 0;
  std::optional<Candidate> best_;
  uint64_t start_cycles_ = 0;
  size_t kept_ = 0;
  double shortfall_ = 0;  // dB beyond the goal that the search asks for
  Clock::time_point began_ = Clock::now();
  AccuracySummary summary_;
};

}  // namespace

Result<AccuracySearchResult> search_accuracy(const ModelSource& source,
                                             const CompileSettings& settings,
                                             const AccuracySearchOptions& options) {
  if (std::holds_alternative<Module>(source))
    return fail(DiagnosticId::kAccuracyOptions,
                "a search compiles the model many times, and a module in memory only once",
                "give the model's file or its bytes");
  return Search(source, settings, options).run(source, settings);
}

}  // namespace dtr
