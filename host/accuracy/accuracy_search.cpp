#include "host/accuracy/accuracy_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "compiler/executors/onednn_executor.h"
#include "compiler/pipeline/sample_warnings.h"
#include "compiler/recipes/selection.h"
#include "compiler/support/interruption.h"
#include "compiler/support/thread_pool.h"
#include "host/accuracy/check.h"
#include "host/accuracy/compare.h"
#include "host/accuracy/labels.h"
#include "host/accuracy/quantization_report.h"
#include "host/session/session.h"

namespace dtr {
namespace {

using Clock = std::chrono::steady_clock;
using Verdict = AccuracyStep::Verdict;

constexpr double kMostCycles = 1.02;   // of a step that is not asked for by a goal
constexpr size_t kHeldOut = 4;         // every fourth
constexpr size_t kMostJudged = 32;     // held-out samples that are run
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

// Samples with the outputs of the float model.
struct Judged {
  Samples samples;
  std::vector<std::vector<Tensor>> expected;
  std::vector<int64_t> labels;  // of the first output; empty: none
};

struct Candidate {
  CompileSettings settings;
  Compilation compilation;
  AccuracyStep figures;
};

class Search {
 public:
  Search(const ModelSource& source, const CompileSettings& settings,
         const AccuracySearchOptions& options)
      : source_(source), base_(settings), options_(options) {
    base_.on_read = {};
    base_.on_quantized = {};
    base_.after_step = {};
    base_.passes = {};
    base_.progress = {};
  }

  Result<AccuracySearchResult> run(const CompileSettings& given) {
    // The default on all samples: its module and samples serve the whole search.
    CompileSettings first = base_;
    first.on_read = given.on_read;
    first.progress = given.progress;
    DTR_ASSIGN(Compilation compiled, compile_model(source_copy(), first));
    auto kept = std::make_unique<Compilation>(std::move(compiled));
    const Compilation& all = *kept;
    if (all.came_quantized)
      return fail(DiagnosticId::kCalibrationUnused,
                  "the model comes quantized: there is nothing to search for",
                  "give the float model that it was made from, or leave the search away",
                  {.file = all.module.file});
    if (all.samples() == nullptr)
      return fail(
          DiagnosticId::kAccuracyOptions, "programs are judged on samples and there are none",
          "give samples of real inputs with --calibrate DATA.npz", {.file = all.module.file});
    DTR_TRY(choose_samples(all));
    DTR_TRY(read_labelled(all));
    DTR_ASSIGN(summary_.start, judge(all, "default"));
    describe_goal();
    CompileSettings chosen = base_;
    if (std::holds_alternative<SampleBinding>(base_.samples))
      base_.samples = SampleBinding([&all](const Graph& graph) -> Result<PickedSamples> {
        PickedSamples picked = pick_samples(graph, *all.samples(), all.samples()->size());
        picked.there = all.samples_there;
        picked.every = all.samples_every;
        return picked;
      });
    chosen.samples = base_.samples;
    summary_.result = summary_.start;
    if (!meets(summary_.start)) {
      DTR_TRY(search_within_limit());
      if (best_ && kept_ > 0 && !options_.frontier) DTR_TRY(refit_to_goal(*all.samples(), chosen));
    } else {
      summary_.steps.push_back(summary_.start);
    }
    summary_.result.name = "result";
    summary_.met = meets(summary_.result) || summary_.goal.empty();
    return AccuracySearchResult{std::move(chosen), std::move(summary_), std::move(kept)};
  }

 private:
  ModelSource source_copy() const {
    if (const auto* path = std::get_if<std::string>(&source_)) return *path;
    return std::get<ModelBytes>(source_);
  }

  // ---- data

  Result<void> choose_samples(const Compilation& all) {
    const Samples& samples = *all.samples();
    std::vector<size_t> calibrated, judged;
    summary_.stream = all.as_read.state_count() > 0;
    summary_.held_out = samples.size() >= kFewSamples;
    for (size_t i = 0; i < samples.size(); ++i) {
      const bool held = summary_.stream ? i >= samples.size() - samples.size() / kHeldOut
                                        : i % kHeldOut == kHeldOut - 1;
      if (!held || !summary_.held_out) calibrated.push_back(i);
      if (held || !summary_.held_out) judged.push_back(i);
    }
    if (judged.size() > kMostJudged) {
      std::vector<size_t> some;
      for (size_t i = 0; i < kMostJudged; ++i)
        some.push_back(judged[summary_.stream ? i : i * judged.size() / kMostJudged]);
      judged = std::move(some);
    }
    summary_.calibrated = calibrated.size();
    summary_.judged = judged.size();
    calibrated_ = samples.choose(std::move(calibrated));
    judged_.samples = samples.choose(std::move(judged));
    return run_float(all, judged_);
  }

  Result<void> read_labelled(const Compilation& all) {
    if (options_.data.empty() && options_.arrays.empty()) return {};
    const Place place{.file = options_.data, .node = options_.labels};
    if (options_.arrays.empty()) {
      DTR_ASSIGN(read_, read_tensors(options_.data, [&](std::string_view array) {
                   return array == options_.labels || Samples::is_input_array(all.as_read, array);
                 }));
    }
    const std::span<const NamedTensor> arrays =
        options_.arrays.empty() ? std::span<const NamedTensor>(read_) : options_.arrays;
    labelled_.emplace();
    DTR_ASSIGN(labelled_->samples, Samples::bind(all.as_read, arrays, options_.data));
    const auto labels = std::ranges::find(arrays, options_.labels, &NamedTensor::name);
    if (labels == arrays.end())
      return tl::unexpected(
          no_labels(options_.labels, options_.arrays, options_.data,
                    "name the array of class numbers with --labels, or leave --data away"));
    DTR_ASSIGN(labelled_->labels, class_numbers(labels->tensor, labelled_->samples.size(), place));
    DTR_TRY(run_float(all, *labelled_));
    const auto classes = static_cast<size_t>(all.as_read.type(all.as_read.outputs()[0]).elements());
    DTR_TRY(check_labels(labelled_->labels, classes, place));
    summary_.unlike =
        warn_of_unlike_samples(all.as_read, *all.samples(), labelled_->samples, options_.data);
    summary_.labelled = labelled_->labels.size();
    size_t right = 0;
    for (size_t i = 0; i < labelled_->labels.size(); ++i)
      right += is_right(labelled_->expected[i][0], labelled_->labels[i]) ? 1 : 0;
    summary_.float_accuracy = share(right);
    return {};
  }

  double share(size_t right) const {
    return static_cast<double>(right) / static_cast<double>(labelled_->labels.size());
  }
  static bool is_right(const Tensor& output, int64_t label) {
    const auto values = output.values<float>();
    return !values.empty() && std::ranges::none_of(values, [](float x) { return std::isnan(x); }) &&
           static_cast<int64_t>(argmax(values)) == label;
  }

  Result<void> run_float(const Compilation& all, Judged& judged) const {
    DTR_ASSIGN(const std::unique_ptr<Executor> executor,
               make_model_executor(all.module, all.as_read));
    std::vector<Result<std::vector<Tensor>>> results(judged.samples.size());
    parallel_for(results.size(), summary_.stream ? 1 : base_.threads,
                 [&](size_t i) { results[i] = executor->run(judged.samples.inputs(i)); });
    for (Result<std::vector<Tensor>>& result : results) {
      DTR_TRY(result);
      judged.expected.push_back(std::move(*result));
    }
    return {};
  }

  // ---- judging

  // Outputs of the program on all samples, as real values; the cycles of the first.
  Result<std::vector<std::vector<Tensor>>> run_program(const Compilation& made,
                                                       const Samples& samples,
                                                       uint64_t* cycles) const {
    const Graph& compiled = made.module.forward();
    const unsigned threads = base_.threads == 0 ? default_threads() : base_.threads;
    const size_t chunks = summary_.stream ? 1 : std::min<size_t>(threads, samples.size());
    std::vector<std::vector<Tensor>> outputs(samples.size());
    std::vector<Result<void>> results(chunks);
    RunStats stats;
    parallel_for(chunks, threads, [&](size_t chunk) {
      results[chunk] = [&]() -> Result<void> {
        DTR_ASSIGN(const std::unique_ptr<Session> session,
                   Session::borrow(made.pte(), made.module.file, simulator::best_kernel_set(),
                                   made.tensor_file()));
        for (size_t i = chunk; i < samples.size(); i += chunks) {
          const std::vector<Tensor> inputs =
              program_inputs(session->signature(), compiled, samples.inputs(i));
          std::vector<TensorView> views;
          for (const Tensor& input : inputs) views.push_back(input.view());
          DTR_ASSIGN(const std::vector<Tensor> own, session->run(views, i == 0 ? &stats : nullptr));
          for (size_t k = 0; k < own.size(); ++k)
            outputs[i].push_back(real_values(own[k].view(), compiled.type(compiled.outputs()[k])));
        }
        return {};
      }();
    });
    for (Result<void>& result : results) DTR_TRY(result);
    if (cycles != nullptr)
      *cycles = stats.total_cycles + planned_cost(made.emitted, made.memory, 0).kernel_cycles;
    return outputs;
  }

  Result<AccuracyStep> judge(const Compilation& made, std::string name) const {
    AccuracyStep step{.name = std::move(name), .sqnr_db = 99};
    DTR_ASSIGN(const auto outputs, run_program(made, judged_.samples, &step.cycles));
    for (size_t k = 0; k < made.as_read.user_output_count(); ++k) {
      const Type& type = made.as_read.type(made.as_read.outputs()[k]);
      if (type.dtype != DType::kFloat32) continue;  // an index is right or wrong
      Sqnr sqnr;
      for (size_t i = 0; i < outputs.size(); ++i)
        sqnr.add(judged_.expected[i][k].view(), outputs[i][k].view());
      step.sqnr_db = std::min(step.sqnr_db, sqnr.decibels());
    }
    if (!labelled_) return step;
    DTR_ASSIGN(const auto labelled, run_program(made, labelled_->samples, nullptr));
    size_t right = 0;
    for (size_t i = 0; i < labelled.size(); ++i)
      right += is_right(labelled[i][0], labelled_->labels[i]) ? 1 : 0;
    step.accuracy = share(right);
    return step;
  }

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

  using Key = std::pair<bool, QuantSpec::Observer>;

  // What the command needs besides the given options for these settings.
  std::vector<std::string> added_options(const CompileSettings& settings) const {
    std::vector<std::string> added;
    if (settings.equalize && !base_.equalize) added.emplace_back("--equalize");
    if (settings.rounding != base_.rounding)
      added.insert(added.end(), {"--round-weights", "error"});
    if (settings.observer != base_.observer) added.insert(added.end(), {"--observer", "min-max"});
    for (const std::string& name : settings.keep_float)
      if (std::ranges::find(base_.keep_float, name) == base_.keep_float.end())
        added.insert(added.end(), {"--keep-float", name});
    return added;
  }

  // Compiles and judges a candidate. What one combination of passes and observers saw is kept, so
  // that candidates which differ in other settings need not calibrate again.
  Result<Candidate> make(CompileSettings settings, std::string name) {
    if (options_.on_step) options_.on_step(name);
    const Key key{settings.equalize, settings.observer};
    settings.samples = &calibrated_;
    settings.ranges = FromSamples{};
    if (const auto known = seen_.find(key); known != seen_.end()) settings.ranges = &known->second;
    Result<Compilation> made = compile_model(source_copy(), settings);
    if (!made && made.error().id == DiagnosticId::kCalibrationMismatch) {
      settings.ranges = FromSamples{};  // other operators are float: other values are observed
      made = compile_model(source_copy(), settings);
    }
    if (!made) return tl::unexpected(made.error());
    if (!seen_.contains(key) && made->calibration) seen_.emplace(key, *made->calibration);
    DTR_ASSIGN(AccuracyStep figures, judge(*made, std::move(name)));
    figures.options = added_options(settings);
    return Candidate{std::move(settings), std::move(*made), std::move(figures)};
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
      DTR_ASSIGN(best_, make(base_, "default"));
      summary_.steps.push_back(best_->figures);
      start_cycles_ = best_->figures.cycles;
      if (done()) return {};
      try_free_steps();
      if (!done() && (options_.frontier || !summary_.goal.empty())) try_float_operators();
      if (options_.frontier || !done()) grow_float();
    } catch (const Cancelled&) {
      summary_.cut = limit.reason();
    }
    return {};
  }

  // What costs no cycles.
  void try_free_steps() {
    const auto equalized = [&] {
      CompileSettings settings = best_->settings;
      settings.equalize = true;
      return attempt(std::move(settings), "equalize", false);
    };
    const bool at_first = base_.equalize || equalized();
    if (done()) return;
    if (base_.rounding != Rounding::kError) {
      CompileSettings settings = best_->settings;
      settings.rounding = Rounding::kError;
      attempt(std::move(settings), "round weights by error", false);
      if (done()) return;
    }
    if (base_.observer != QuantSpec::Observer::kMinMax) {
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
    const Graph& graph = best_->compilation.conversion->float_graph;
    std::vector<std::string> names;
    for (size_t k = 0; k < std::min(graph.user_output_count(), kMostOutputs); ++k)
      if (const OpId producer = graph.producer(graph.outputs()[k]); producer.valid())
        names.push_back(place_of(best_->compilation.module, graph, producer).node);
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
  std::vector<FloatChoice> choices() const {
    std::vector<FloatChoice> found;
    const auto report = report_quantization(best_->compilation);
    if (!report) return found;
    const Graph& graph = best_->compilation.conversion->float_graph;
    const Module& module = best_->compilation.module;
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
    for (const FloatChoice& choice : all) {
      if (choice.removed_per_cycle <= 0) break;
      CompileSettings next = with_float(best_->settings, choice.names);
      if (next.keep_float == best_->settings.keep_float) continue;
      attempt(std::move(next), text_of(choice.names), true);
      if (done()) return;
    }
  }

  // More and more operators in float, those with the largest share of the error first: alone an
  // operator gains little while its neighbours round. Until the goal is reached, or, for the
  // frontier, all are float.
  void grow_float() {
    if (!options_.frontier && summary_.goal.empty()) return;
    const auto report = report_quantization(best_->compilation);
    if (!report) return;
    std::vector<std::string> names;
    for (const ErrorRow& row : report->operators)
      if (!row.name.empty() && std::ranges::find(names, row.name) == names.end())
        names.push_back(row.name);
    const CompileSettings settings = best_->settings;
    for (size_t count = 1; !names.empty();
         count = std::min(names.size(), count + std::max<size_t>(1, count / 2))) {
      const std::vector<std::string> some(names.begin(),
                                          names.begin() + static_cast<ptrdiff_t>(count));
      const std::string name = fmt::format("float: the {} operators that add most error", count);
      CompileSettings next = with_float(settings, some);
      if (!options_.frontier) {
        attempt(std::move(next), name, true);
        if (done()) return;
      } else if (Result<Candidate> candidate = make(std::move(next), name)) {
        candidate->figures.verdict = Verdict::kMeasured;
        summary_.steps.push_back(std::move(candidate->figures));
      }
      if (count == names.size()) return;
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
      if (kept_ == before) return {};
      DTR_TRY(refit(samples, chosen));
    }
    return {};
  }

  // Ranges of all samples are better than those of three quarters: the chosen settings are compiled
  // with them, and kept unless the default, compiled so, is better.
  Result<void> refit(const Samples& samples, CompileSettings& chosen) {
    CompileSettings settings = best_->settings;
    settings.samples = &samples;
    settings.ranges = FromSamples{};
    DTR_ASSIGN(const Compilation made, compile_model(source_copy(), settings));
    DTR_ASSIGN(AccuracyStep result, judge(made, "result"));
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
    settings.samples = base_.samples;
    chosen = std::move(settings);
    return {};
  }

  const ModelSource& source_;
  CompileSettings base_;
  const AccuracySearchOptions& options_;
  Samples calibrated_;
  Judged judged_;
  std::vector<NamedTensor> read_;  // of the labelled data
  std::optional<Judged> labelled_;
  std::map<Key, CalibrationResult> seen_;
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
  return Search(source, settings, options).run(settings);
}

}  // namespace dtr
