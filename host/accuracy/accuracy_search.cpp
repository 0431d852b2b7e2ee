#include "host/accuracy/accuracy_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "compiler/ops/ops.h"
#include "compiler/recipes/selection.h"
#include "compiler/support/interruption.h"
#include "host/accuracy/accuracy_candidates.h"
#include "host/accuracy/cheap_chains.h"
#include "host/accuracy/quantization_report.h"
#include "host/accuracy/search_tasks.h"

namespace dtr {
namespace {

using Clock = std::chrono::steady_clock;
using Verdict = AccuracyStep::Verdict;

constexpr double kMostCycles = 1.02;   // of a step that is not asked for by a goal
constexpr size_t kMostOutputs = 4;     // whose operators are tried in float
constexpr size_t kMostSensitive = 12;  // operators whose sensitivity is measured
constexpr size_t kMostChains = 4;      // chains of cheap operators whose sensitivity is measured
constexpr size_t kMostReturns = 16;    // operators that are tried in int8 again at the end
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
constexpr size_t kSmallTries = 40;  // of a model that is run in float on the CPU without waiting
constexpr double kClearGain = 1;    // dB, for which a judged sample may change its class

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
      : options_(options),
        judge_(source, settings, options),
        own_goal_(!options.frontier && !options.max_loss && !options.min_sqnr),
        max_loss_(options.max_loss),
        min_sqnr_(options.min_sqnr) {}

  Result<AccuracySearchResult> run(const ModelSource& source, const CompileSettings& given) {
    DTR_ASSIGN(pool_, CandidatePool::start(source, given, options_));
    DTR_TRY(judge_.prepare(given, false));
    const Compilation& all = judge_.all();
    floats_ = float_fingerprint(all);
    summary_ = judge_.known();
    if (judge_.known().in_turn) {
      DTR_ASSIGN(best_, make(judge_.base(), "default"));
      summary_.start = best_->figures;
    } else {
      DTR_ASSIGN(summary_.start, judge_.judge(all, "default"));
    }
    if (own_goal_) set_own_goal();
    describe_goal();
    CompileSettings chosen = judge_.base();
    summary_.result = summary_.start;
    if (own_goal_ || !meets(summary_.start)) {
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
  void set_own_goal() {
    count_own_tries();
    const bool labelled = summary_.float_accuracy.has_value();
    if (labelled) max_loss_ = kOwnMaxLoss;
    min_sqnr_ = labelled ? kOwnLabelledSqnr : kOwnSqnr;
    summary_.own_goal = true;
    if (judge_.known().judged < kFewJudged) shortfall_ = kMargin;
  }
  void describe_goal() {
    if (min_sqnr_) summary_.goal = fmt::format("{:.1f} dB", *min_sqnr_);
    if (!max_loss_) return;
    const std::string loss =
        fmt::format("at most {:.2f} points below the float model's accuracy", 100 * *max_loss_);
    summary_.goal = min_sqnr_ ? loss + " and " + summary_.goal : loss;
  }
  // Whether nothing more is asked for; never without a goal.
  bool meets(const AccuracyStep& step) const {
    if (!max_loss_ && !min_sqnr_) return false;
    const bool loses = max_loss_ && (!step.accuracy ||
                                     *summary_.float_accuracy - *step.accuracy > *max_loss_ + 1e-9);
    return !loses && (!min_sqnr_ || step.sqnr_db >= *min_sqnr_);
  }

  // ---- candidates

  // What the command needs besides the given options for these settings.
  std::vector<std::string> added_options(const CompileSettings& settings) const {
    const CompileSettings& base = judge_.base();
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

  // Compiles and judges a candidate, or has it judged.
  Result<Candidate> make(CompileSettings settings, std::string name, bool over_folds = false) {
    if (options_.on_step) options_.on_step(name);
    Result<Candidate> made = [&]() -> Result<Candidate> {
      if (pool_ == nullptr) return judge_.make(std::move(settings), name, over_folds);
      DTR_ASSIGN(AccuracyStep figures, pool_->judge(settings, over_folds, floats_));
      return Candidate{std::move(settings), std::nullopt, std::move(figures)};
    }();
    if (!made) return made;
    made->figures.name = std::move(name);
    made->figures.options = added_options(made->settings);
    return made;
  }

  // What is probably tried next.
  void expect(const std::vector<CompileSettings>& likely, bool over_folds = false) {
    if (pool_ != nullptr) pool_->expect(likely, over_folds);
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
  bool attempt(CompileSettings settings, const std::string& name, bool may_cost,
               bool over_folds = false) {
    Result<Candidate> candidate = make(std::move(settings), name, over_folds);
    if (!candidate) {
      const std::string& reason = candidate.error().reason;  // a row holds the first of its lines
      summary_.steps.push_back(
          {.name = name, .verdict = Verdict::kFailed, .why = reason.substr(0, reason.find('\n'))});
      return false;
    }
    AccuracyStep& step = candidate->figures;
    const AccuracyStep& best = best_->figures;
    const bool reached = own_goal_ && done();
    const double least = static_cast<double>(reached ? best.cycles : start_cycles_) * kMostCycles;
    step.verdict = Verdict::kRejected;
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
    } else if (!may_cost && static_cast<double>(step.cycles) > least) {
      step.why = "costs too many cycles";
    } else if (own_goal_ && best.sqnr_db >= kUsable &&
               static_cast<double>(step.cycles) >
                   static_cast<double>(start_cycles_) * most_price(step)) {
      step.why = fmt::format("costs more than {:.0f} times the default", most_price(step));
    } else {
      step.verdict = Verdict::kKept;
    }
    if (by_folds)
      step.why = fmt::format("each held out once: {:.1f} -> {:.1f} dB{}{}", *best.folds_db,
                             *step.folds_db, step.why.empty() ? "" : "; ", step.why);
    const bool kept = step.verdict == Verdict::kKept;
    if (kept && all_float_ && step.cycles >= all_float_->figures.cycles &&
        all_float_->figures.sqnr_db > step.sqnr_db) {
      step.verdict = Verdict::kRejected;
      step.why = "all operators in float cost less";
      summary_.steps.push_back(step);
      candidate = *std::exchange(all_float_, std::nullopt);
      candidate->figures.verdict = Verdict::kKept;
      candidate->figures.why.clear();
    }
    summary_.steps.push_back(candidate->figures);
    if (kept) {
      best_ = std::move(*candidate);
      ++kept_;
    }
    return kept;
  }

  double most_price(const AccuracyStep& step) const {
    if (!step.same_class) return kMostPrice;
    return best_->figures.sqnr_db - flattery_ < kSafeScores ? kMostPriceOfDoubtful
                                                            : kMostPriceOfScores;
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

  bool done() const {
    return meets(best_->figures) &&
           (shortfall_ == 0 || best_->figures.sqnr_db >= *min_sqnr_ + shortfall_);
  }
  // Of steps that cost nothing: without a given goal all of them are tried.
  bool enough() const { return !own_goal_ && done(); }

  // How many programs with operators in float the search may try for its own goal.
  void count_own_tries() {
    double macs = 1;
    const Graph& graph = judge_.all().as_read;
    for (const OpId id : graph.ops())
      if (graph.op(id).def->macs != nullptr)
        macs += static_cast<double>(graph.op(id).def->macs(BoundOpView(graph, id)));
    const double tries =
        kOwnWork / (macs * static_cast<double>(std::max<size_t>(1, judge_.known().judged)));
    own_tries_ = static_cast<size_t>(
        std::clamp(tries, static_cast<double>(kLeastOwnTries), static_cast<double>(kMostOwnTries)));
  }
  bool may_try() {
    if (!own_goal_) return true;
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
        DTR_ASSIGN(best_, make(judge_.base(), "default"));
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
    return pool_failure();
  }
  Result<void> pool_failure() const {
    if (pool_ != nullptr && pool_->failure()) return tl::unexpected(*pool_->failure());
    return {};
  }

  static bool has_norms(const Compilation& made) {
    if (!made.conversion) return false;
    const Graph& graph = made.conversion->float_graph;
    for (const OpId id : graph.ops())
      if (graph.op(id).def == &ops::kLayerNorm || graph.op(id).def == &ops::kRmsNorm) return true;
    return false;
  }

  // All combinations of what try_free_steps tries first, those with few steps before the others.
  void expect_free_steps() {
    std::vector<CompileSettings> likely;
    for (const unsigned steps : {1U, 2U, 3U}) {
      CompileSettings& settings = likely.emplace_back(judge_.base());
      if ((steps & 1U) != 0) settings.equalize = true;
      if ((steps & 2U) != 0) settings.rounding = Rounding::kError;
    }
    expect(likely);
  }

  // What costs no cycles.
  void try_free_steps() {
    const auto equalized = [&] {
      CompileSettings settings = best_->settings;
      settings.equalize = true;
      return attempt(std::move(settings), "equalize", false);
    };
    const bool at_first = judge_.base().equalize || equalized();
    if (enough()) return;
    if (!judge_.base().rotate && has_norms(judge_.all())) {
      CompileSettings settings = best_->settings;
      settings.rotate = true;
      const bool equalized_too = settings.equalize && !judge_.base().equalize;
      CompileSettings alone = settings;
      attempt(std::move(settings), "rotate", false);
      if (enough()) return;
      alone.equalize = judge_.base().equalize;
      if (equalized_too) attempt(std::move(alone), "rotate without equalizing", false);
      if (enough()) return;
    }
    if (judge_.base().rounding != Rounding::kError) {
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
    if (own_goal_ && own_tries_ >= kSmallTries) try_all_float();
  }

  // Few samples do not show what others saturate, and least of all the held-out ones: each sample
  // is held out once.
  void try_observers() {
    using Observer = QuantSpec::Observer;
    if (judge_.base().observer != Observer::kHistogram) return;
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
    expect(likely, true);
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
    if (!options_.frontier && own_goal_ && own_tries_ >= kSmallTries && floats != floats_at_ranges_)
      try_observers();
  }

  // What was chosen by few samples is worse on others. Each sample is held out once, and what the
  // program lacks of the goal then is asked of it on the held-out ones beyond the goal.
  void check_over_folds() {
    if (options_.frontier || !own_goal_ || kept_ == 0 || own_tries_ < kSmallTries) return;
    const Result<Candidate> start = make(judge_.base(), "default", true);
    if (start) start_folds_db_ = start->figures.folds_db;
    constexpr int kMostChecks = 3;
    for (int i = 0; i < kMostChecks; ++i) {
      if (!judge_best_over_folds()) return;
      const double missing = *min_sqnr_ - *best_->figures.folds_db;
      if (missing <= 0) {
        leave_room();
        break;
      }
      shortfall_ = std::max(shortfall_, best_->figures.sqnr_db - *min_sqnr_ + missing);
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
    if (judge_.base().observer != Observer::kHistogram ||
        best_->settings.observer == Observer::kTail || *best_->figures.folds_db >= kAsFloat)
      return;
    CompileSettings settings = best_->settings;
    settings.observer = Observer::kTail;
    Result<Candidate> candidate = make(std::move(settings), "room beyond the samples", true);
    if (!candidate || !candidate->figures.folds_db) return;
    AccuracyStep& step = candidate->figures;
    const bool kept = std::min(*step.folds_db, step.sqnr_db) >= *min_sqnr_ + kWorthALoss &&
                      (!start_folds_db_ || *step.folds_db >= *start_folds_db_) &&
                      step.cycles <= best_->figures.cycles &&
                      (!step.accuracy || *step.accuracy >= *best_->figures.accuracy) &&
                      (!step.same_class || *step.same_class >= *best_->figures.same_class);
    step.verdict = kept ? Verdict::kKept : Verdict::kRejected;
    step.why = kept ? "the goal allows it" : "the goal does not allow it";
    summary_.steps.push_back(step);
    if (kept) best_ = std::move(*candidate);
  }

  // Of small layers calls cost more than products: the CPU may be faster with all of them in float.
  // Then nothing saturates on samples that calibration did not see, whatever the judged ones say.
  void try_all_float() {
    const Compilation* const best = best_compilation();
    if (best == nullptr) return;
    const Graph& graph = best->conversion->float_graph;
    std::vector<std::string> names;
    for (const OpId id : graph.ops()) {
      std::string name = place_of(best->module, graph, id).node;
      if (!name.empty() && std::ranges::find(names, name) == names.end())
        names.push_back(std::move(name));
    }
    CompileSettings settings = with_float(judge_.base(), names);
    if (attempt(settings, "float: all operators", false) ||
        summary_.steps.back().verdict == Verdict::kFailed)
      return;
    all_float_ = Candidate{std::move(settings), std::nullopt, summary_.steps.back()};
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
    expect(likely);
    for (const std::string& name : names) {
      if (name.empty() || enough()) continue;
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
    for (std::vector<std::string>& names : cheap_chains(module, graph, *report, kMostChains))
      found.push_back({std::move(names)});
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
    expect(likely);
    const size_t half = own_tries_ / 2;  // the rest is for what they add up to
    for (FloatChoice& choice : all) {
      if (own_goal_ && own_tries_ <= half) break;
      if (!may_try()) break;
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
      expect(chain);
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
    expect(likely);
    for (Growth& growth : growths) {
      if (!options_.frontier) {
        if (!may_try()) return;
        attempt(std::move(growth.settings), growth.name, true);
        if (done()) return;
      } else if (Result<Candidate> candidate = make(std::move(growth.settings), growth.name)) {
        candidate->figures.verdict = Verdict::kMeasured;
        summary_.steps.push_back(std::move(candidate->figures));
      }
    }
  }

  // Operators that became float early may not be needed for the goal any more.
  void return_to_int8() {
    if (!done()) return;
    const size_t given = judge_.base().keep_float.size();
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
      AccuracyStep& step = candidate->figures;
      const bool kept = step.cycles < best_->figures.cycles && meets(step) &&
                        (shortfall_ == 0 || step.sqnr_db >= *min_sqnr_ + shortfall_) &&
                        !(step.same_class && *step.same_class < *best_->figures.same_class);
      step.verdict = kept ? Verdict::kKept : Verdict::kRejected;
      step.why = kept                                  ? "saves cycles"
                 : step.cycles < best_->figures.cycles ? "the goal needs it"
                                                       : "saves no cycles";
      summary_.steps.push_back(step);
      if (kept) best_ = std::move(*candidate);
    }
  }

  // ---- the end

  // With ranges of all samples a program may miss the decibels that it had with those of three
  // quarters. The search then goes on for as many more as it missed.
  Result<void> refit_to_goal(const Samples& samples, CompileSettings& chosen) {
    constexpr int kMostRefits = 4;
    constexpr double kBeyond = 0.5;  // dB
    DTR_TRY(refit(samples, chosen));
    for (int i = 1; i < kMostRefits && min_sqnr_ && summary_.cut.empty(); ++i) {
      if (meets(summary_.result) || seconds_left() <= 0) return {};
      if (summary_.result.sqnr_db >= *min_sqnr_) return {};  // labels are missed, not decibels
      // What the best program loses with ranges of all samples, the next one will lose too.
      shortfall_ = std::max(shortfall_ + *min_sqnr_, best_->figures.sqnr_db) -
                   summary_.result.sqnr_db + kBeyond;
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
  // with them, and kept unless the default is better. Where samples are judged in
  // turn the figures stay: its own would be those of samples that its ranges come from.
  Result<void> refit(const Samples& samples, CompileSettings& chosen) {
    CompileSettings settings = best_->settings;
    AccuracyStep result = best_->figures;
    if (!judge_.known().in_turn) {
      DTR_ASSIGN(const Compilation made, judge_.compile_on(samples, settings));
      DTR_ASSIGN(result, judge_.judge(made, "result"));
    }
    result.verdict = Verdict::kStart;
    result.why.clear();
    // Than the default, or what was compiled so before: by what these ranges give on samples that
    // they come from, and by what was seen on samples that were held out, which alone shows what
    // others saturate.
    const double gain = result.sqnr_db - summary_.result.sqnr_db,
                 held_out_gain = best_->figures.sqnr_db - held_out_db_;
    const bool worse = gain + held_out_gain < 0 ||
                       (start_folds_db_ && best_->figures.folds_db &&
                        *best_->figures.folds_db < *start_folds_db_) ||
                       (result.accuracy && *result.accuracy < *summary_.result.accuracy);
    if (worse) {
      if (summary_.result.options.empty())
        summary_.result.why = "the default: with ranges of all samples it is nearer";
      return {};
    }
    held_out_db_ = best_->figures.sqnr_db;
    summary_.result = std::move(result);
    summary_.result.options = added_options(settings);
    settings.samples = judge_.base().samples;
    chosen = std::move(settings);
    return {};
  }

  const AccuracySearchOptions& options_;
  CandidateJudge judge_;
  bool own_goal_;         // none is given
  size_t own_tries_ = 0;  // left
  std::optional<double> max_loss_, min_sqnr_;
  std::unique_ptr<CandidatePool> pool_;  // null: candidates are made here
  uint32_t floats_ = 0;
  std::optional<Candidate> best_;
  size_t floats_at_ranges_ = 0;         // operators that were float when observers were tried
  std::optional<Candidate> all_float_;  // all operators in float, if they were too expensive
  uint64_t start_cycles_ = 0;
  size_t kept_ = 0;
  double flattery_ = 0;   // dB that the best has on the held-out samples beyond those over folds
  double shortfall_ = 0;  // dB beyond the goal that the search asks for
  std::optional<double> start_folds_db_;  // of the default, each sample held out once
  double held_out_db_ = 0;  // of the program that is the result so far, on held-out samples
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
