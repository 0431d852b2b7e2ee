#include "host/accuracy/accuracy_candidates.h"

#include <algorithm>
#include <cmath>

#include "compiler/executors/onednn_executor.h"
#include "compiler/ops/ops.h"
#include "compiler/pipeline/sample_warnings.h"
#include "compiler/support/thread_pool.h"
#include "host/accuracy/check.h"
#include "host/accuracy/compare.h"
#include "host/accuracy/labels.h"
#include "host/accuracy/search_tasks.h"
#include "host/session/session.h"
#include "host/tasks/group.h"
#include "host/tasks/packing.h"

namespace dtr {
namespace {

constexpr size_t kHeldOut = 4;      // every fourth
constexpr size_t kMostJudged = 32;  // held-out samples that are run

bool is_right(const Tensor& output, int64_t label) {
  const auto values = output.values<float>();
  return !values.empty() && std::ranges::none_of(values, [](float x) { return std::isnan(x); }) &&
         static_cast<int64_t>(argmax(values)) == label;
}

// True if the first output is one row of at least three numbers that a linear layer, a convolution
// or a softmax makes, moved or not: its greatest is probably a class.
bool looks_like_scores(const Graph& graph) {
  if (graph.user_output_count() == 0) return false;
  ValueId value = graph.outputs()[0];
  const Type& type = graph.type(value);
  if (type.dtype != DType::kFloat32 || type.rank() == 0 || type.elements() < 3 ||
      type.elements() != type.shape.back())
    return false;
  for (OpId id = graph.producer(value); id.valid(); id = graph.producer(value)) {
    const Op& op = graph.op(id);
    if (op.def != &ops::kView && op.def != &ops::kSliceTensor && op.def != &ops::kMeanDim)
      return op.def == &ops::kLinear || op.def == &ops::kConvolution || op.def == &ops::kSoftmax;
    value = op.operands[0];
  }
  return false;
}

// Settings without what all candidates share.
std::vector<std::byte> pack_candidate(const CompileSettings& settings, bool over_folds) {
  Packer packer;
  packer.add(over_folds);
  packer.add(settings.equalize);
  packer.add(settings.rotate);
  packer.add(settings.rounding);
  packer.add(settings.observer);
  packer.add(uint64_t{settings.keep_float.size()});
  for (const std::string& name : settings.keep_float) packer.add_text(name);
  return packer.take();
}

CompileSettings unpack_candidate(std::span<const std::byte> bytes, CompileSettings settings,
                                 bool& over_folds) {
  Unpacker unpacker(bytes);
  uint64_t names = 0;
  DTR_CHECK(unpacker.take(over_folds) && unpacker.take(settings.equalize) &&
            unpacker.take(settings.rotate) && unpacker.take(settings.rounding) &&
            unpacker.take(settings.observer) && unpacker.take(names));
  settings.keep_float.clear();
  for (uint64_t i = 0; i < names; ++i)
    DTR_CHECK(unpacker.take_text(settings.keep_float.emplace_back()));
  return settings;
}

// What a worker tells of a candidate.
struct Verdict {
  uint32_t floats = 0;  // float_fingerprint
  uint8_t compiles = 0, has_accuracy = 0, has_classes = 0, has_folds = 0;
  double sqnr_db = 0, accuracy = 0, same_class = 0, folds_db = 0, folds_same_class = 0;
  uint64_t cycles = 0;
};

class CandidateWorker final : public TaskWorker {
 public:
  CandidateWorker(const ModelSource& source, const CompileSettings& base,
                  const AccuracySearchOptions& options)
      : judge_(source, base, options) {}
  Result<void> prepare(const CompileSettings& base) { return judge_.prepare(base, true); }

  Result<std::vector<std::byte>> run(size_t /*task*/, std::span<const std::byte> input) override {
    bool over_folds = false;
    CompileSettings settings = unpack_candidate(input, judge_.base(), over_folds);
    const Result<Candidate> made = judge_.make(std::move(settings), over_folds);
    Verdict verdict{.floats = float_fingerprint(judge_.all()), .compiles = made.has_value()};
    if (made) {
      verdict.has_accuracy = made->figures.accuracy.has_value();
      verdict.sqnr_db = made->figures.sqnr_db;
      verdict.accuracy = made->figures.accuracy.value_or(0);
      verdict.has_classes = made->figures.same_class.has_value();
      verdict.same_class = made->figures.same_class.value_or(0);
      verdict.has_folds = made->figures.folds_db.has_value();
      verdict.folds_db = made->figures.folds_db.value_or(0);
      verdict.folds_same_class = made->figures.folds_same_class.value_or(0);
      verdict.cycles = made->figures.cycles;
    }
    Packer packer;
    packer.add(verdict);
    if (!made) packer.add_bytes(pack_diagnostic(made.error()));
    return packer.take();
  }

 private:
  CandidateJudge judge_;
};

}  // namespace

CandidateJudge::CandidateJudge(const ModelSource& source, const CompileSettings& base,
                               const AccuracySearchOptions& options)
    : source_(source), base_(base), options_(options) {
  base_.on_read = {};
  base_.on_quantized = {};
  base_.after_step = {};
  base_.passes = {};
  base_.progress = {};
}

// The default on all samples: its module and samples serve the whole search.
Result<void> CandidateJudge::prepare(const CompileSettings& given, bool is_worker) {
  CompileSettings first = base_;
  first.on_read = given.on_read;
  first.progress = given.progress;
  DTR_ASSIGN(Compilation compiled, compile_model(copy_of(source_), first));
  all_ = std::make_unique<Compilation>(std::move(compiled));
  if (all_->came_quantized)
    return fail(DiagnosticId::kCalibrationUnused,
                "the model comes quantized: there is nothing to search for",
                "give the float model that it was made from, or leave the search away",
                {.file = all_->module.file});
  if (all_->samples() == nullptr)
    return fail(DiagnosticId::kAccuracyOptions, "programs are judged on samples and there are none",
                "give samples of real inputs with --calibrate DATA.npz",
                {.file = all_->module.file});
  DTR_TRY(choose_samples());
  DTR_TRY(read_labelled(is_worker));
  if (std::holds_alternative<SampleBinding>(base_.samples))
    base_.samples = SampleBinding([all = all_.get()](const Graph& graph) -> Result<PickedSamples> {
      PickedSamples picked = pick_samples(graph, *all->samples(), all->samples()->size());
      picked.there = all->samples_there;
      picked.every = all->samples_every;
      return picked;
    });
  return {};
}

Result<void> CandidateJudge::choose_samples() {
  const Compilation& all = *all_;
  const Samples& samples = *all.samples();
  known_.stream = all.as_read.state_count() > 0;
  const bool few = samples.size() < kFewSamples;
  known_.in_turn = few && !known_.stream && samples.size() > 1;
  known_.held_out = !few || known_.in_turn;
  classes_ = looks_like_scores(all.as_read);
  held_out_ = divide(kHeldOut - 1, few ? 1 : kHeldOut);
  known_.calibrated = held_out_.calibrated.size();
  known_.judged = held_out_.judged.samples.size();
  return run_float(held_out_.judged);
}

// Judges on sample `part` of every `parts`, of a stream on the last ones, and calibrates on the
// others; on all of them, if there is one part.
CandidateJudge::Fold CandidateJudge::divide(size_t part, size_t parts) const {
  const Samples& samples = *all_->samples();
  std::vector<size_t> calibrated, judged;
  for (size_t i = 0; i < samples.size(); ++i) {
    const bool held = parts == 1      ? true
                      : known_.stream ? i >= samples.size() - samples.size() / parts
                                      : i % parts == part;
    if (!held || parts == 1) calibrated.push_back(i);
    if (held) judged.push_back(i);
  }
  if (judged.size() > kMostJudged) {
    std::vector<size_t> some;
    for (size_t i = 0; i < kMostJudged; ++i)
      some.push_back(judged[known_.stream ? i : i * judged.size() / kMostJudged]);
    judged = std::move(some);
  }
  return {.calibrated = samples.choose(std::move(calibrated)),
          .judged = {.samples = samples.choose(std::move(judged))}};
}

Result<void> CandidateJudge::read_labelled(bool is_worker) {
  if (options_.data.empty() && options_.arrays.empty()) return {};
  const Compilation& all = *all_;
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
  const auto classes = static_cast<size_t>(all.as_read.type(all.as_read.outputs()[0]).elements());
  DTR_TRY(check_labels(labelled_->labels, classes, place));
  known_.unlike =
      warn_of_unlike_samples(all.as_read, *all.samples(), labelled_->samples, options_.data);
  if (is_worker) return {};
  DTR_TRY(run_float(*labelled_));
  known_.labelled = labelled_->labels.size();
  size_t right = 0;
  for (size_t i = 0; i < labelled_->labels.size(); ++i)
    right += is_right(labelled_->expected[i][0], labelled_->labels[i]) ? 1 : 0;
  known_.float_accuracy = share(right);
  return {};
}

double CandidateJudge::share(size_t right) const {
  return static_cast<double>(right) / static_cast<double>(labelled_->labels.size());
}

Result<void> CandidateJudge::run_float(Judged& judged) const {
  const Compilation& all = *all_;
  DTR_ASSIGN(const std::unique_ptr<Executor> executor,
             make_model_executor(all.module, all.as_read));
  std::vector<Result<std::vector<Tensor>>> results(judged.samples.size());
  parallel_for(results.size(), known_.stream ? 1 : base_.threads,
               [&](size_t i) { results[i] = executor->run(judged.samples.inputs(i)); });
  for (Result<std::vector<Tensor>>& result : results) {
    DTR_TRY(result);
    judged.expected.push_back(std::move(*result));
  }
  return {};
}

// Outputs of the program on all samples, as real values; the cycles of the first.
Result<std::vector<std::vector<Tensor>>> CandidateJudge::run_program(const Compilation& made,
                                                                     const Samples& samples,
                                                                     uint64_t* cycles) const {
  const Graph& compiled = made.module.forward();
  const unsigned threads = base_.threads == 0 ? default_threads() : base_.threads;
  const size_t chunks = known_.stream ? 1 : std::min<size_t>(threads, samples.size());
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

double CandidateJudge::Tally::decibels() const {
  double least = 99;
  for (const Sqnr& output : outputs) least = std::min(least, output.decibels());
  return least;
}

// Adds what the program makes of the samples; the cycles of the first one.
Result<void> CandidateJudge::count(const Compilation& made, const Judged& judged, Tally& tally,
                                   uint64_t* cycles) const {
  DTR_ASSIGN(const auto outputs, run_program(made, judged.samples, cycles));
  tally.outputs.resize(made.as_read.user_output_count());
  for (size_t k = 0; k < tally.outputs.size(); ++k) {
    const Type& type = made.as_read.type(made.as_read.outputs()[k]);
    if (type.dtype != DType::kFloat32) continue;  // an index is right or wrong
    for (size_t i = 0; i < outputs.size(); ++i)
      tally.outputs[k].add(judged.expected[i][k].view(), outputs[i][k].view());
  }
  tally.samples += outputs.size();
  for (size_t i = 0; classes_ && i < outputs.size(); ++i)
    tally.same +=
        is_right(outputs[i][0], static_cast<int64_t>(argmax(judged.expected[i][0].values<float>())))
            ? 1
            : 0;
  return {};
}

Result<AccuracyStep> CandidateJudge::judge(const Compilation& made) const {
  Tally tally;
  return judge(made, tally);
}

Result<AccuracyStep> CandidateJudge::judge(const Compilation& made, Tally& tally) const {
  AccuracyStep step;
  DTR_TRY(count(made, held_out_.judged, tally, &step.cycles));
  step.sqnr_db = tally.decibels();
  if (classes_) step.same_class = tally.same_class();
  if (!labelled_) return step;
  DTR_ASSIGN(const auto labelled, run_program(made, labelled_->samples, nullptr));
  size_t right = 0;
  for (size_t i = 0; i < labelled.size(); ++i)
    right += is_right(labelled[i][0], labelled_->labels[i]) ? 1 : 0;
  step.accuracy = share(right);
  return step;
}

// `tally`: of the held-out samples of the search; of no use where samples are judged in turn.
Result<void> CandidateJudge::judge_folds(Candidate& candidate, Tally tally) {
  const size_t parts = std::min(kHeldOut, all_->samples()->size());
  if (known_.stream || parts < 2) return {};
  if (!others_) {
    others_.emplace();
    for (size_t part = 0; part < parts - (known_.in_turn ? 0 : 1); ++part) {
      others_->push_back(divide(part, parts));
      DTR_TRY(run_float(others_->back().judged));
    }
  }
  if (known_.in_turn) tally = {};
  for (Fold& fold : *others_) {
    DTR_ASSIGN(const Compilation made, compile(candidate.settings, fold));
    DTR_TRY(count(made, fold.judged, tally, nullptr));
  }
  candidate.figures.folds_db = tally.decibels();
  if (classes_) candidate.figures.folds_same_class = tally.same_class();
  return {};
}

// What the default observes with the passes and the observer of a candidate: candidates that differ
// in other settings need not calibrate again. Null: it has to calibrate.
const CalibrationResult* CandidateJudge::ranges_for(const CompileSettings& settings,
                                                    Fold& fold) const {
  const Key key = key_of(settings);
  if (const auto known = fold.seen.find(key); known != fold.seen.end()) return &known->second;
  if (settings.keep_float == base_.keep_float) return nullptr;  // its compilation observes the same
  CompileSettings plain = base_;
  plain.equalize = settings.equalize;
  plain.rotate = settings.rotate;
  plain.observer = settings.observer;
  plain.rounding = Rounding::kNearest;
  plain.samples = &fold.calibrated;
  plain.ranges = FromSamples{};
  Result<Compilation> made = quantize_model(copy_of(source_), plain);
  if (!made || !made->calibration) return nullptr;
  return &fold.seen.emplace(key, *std::move(made->calibration)).first->second;
}

Result<Compilation> CandidateJudge::compile_on(const Samples& samples,
                                               CompileSettings settings) const {
  settings.samples = &samples;
  settings.ranges = FromSamples{};
  return compile_model(copy_of(source_), settings);
}

Result<Compilation> CandidateJudge::compile(const CompileSettings& candidate) {
  return compile(candidate, held_out_);
}

Result<Compilation> CandidateJudge::compile(const CompileSettings& candidate, Fold& fold) const {
  const CalibrationResult* const ranges = ranges_for(candidate, fold);
  if (ranges == nullptr) {
    Result<Compilation> made = compile_on(fold.calibrated, candidate);
    if (made && made->calibration && candidate.keep_float == base_.keep_float)
      fold.seen.emplace(key_of(candidate), *made->calibration);
    return made;
  }
  CompileSettings settings = candidate;
  settings.samples = &fold.calibrated;
  settings.ranges = ranges;
  return compile_model(copy_of(source_), settings);
}

Result<Candidate> CandidateJudge::make(CompileSettings settings, bool over_folds) {
  Candidate candidate{.settings = std::move(settings), .compilation = {}, .figures = {}};
  DTR_ASSIGN(candidate.compilation, compile(candidate.settings));
  Tally tally;
  DTR_ASSIGN(candidate.figures, judge(*candidate.compilation, tally));
  if (over_folds || known_.in_turn) DTR_TRY(judge_folds(candidate, std::move(tally)));
  if (known_.in_turn) {
    candidate.figures.sqnr_db = *std::exchange(candidate.figures.folds_db, std::nullopt);
    candidate.figures.same_class = std::exchange(candidate.figures.folds_same_class, std::nullopt);
  }
  return candidate;
}

Result<std::unique_ptr<CandidatePool>> CandidatePool::start(const ModelSource& source,
                                                            const CompileSettings& base,
                                                            const AccuracySearchOptions& options) {
  if (options.executor == nullptr) return nullptr;
  CompileSettings own = base;
  own.threads = 1;
  own.on_read = {};
  own.progress = {};
  const TaskJob job{.open = [&source, own, &options]() -> Result<std::unique_ptr<TaskWorker>> {
                      auto worker = std::make_unique<CandidateWorker>(source, own, options);
                      DTR_TRY(worker->prepare(own));
                      return worker;
                    },
                    .opens_at_once = true,
                    .noun = "programs"};
  auto pool = std::make_unique<CandidatePool>();
  DTR_ASSIGN(pool->pool_, options.executor->start(job));
  if (pool->pool_ == nullptr) return nullptr;
  return pool;
}

void CandidatePool::expect(const std::vector<CompileSettings>& likely, bool over_folds) {
  likely_.clear();
  for (const CompileSettings& settings : likely)
    likely_.push_back(pack_candidate(settings, over_folds));
}

Result<AccuracyStep> CandidatePool::judge(const CompileSettings& settings, bool over_folds,
                                          uint32_t floats) {
  const Bytes wanted = pack_candidate(settings, over_folds);
  if (const auto known = judged_.find(wanted); known != judged_.end()) return known->second;
  std::vector<Bytes> batch{wanted};
  for (const Bytes& likely : likely_) {
    if (batch.size() >= pool_->size()) break;
    if (!judged_.contains(likely) && std::ranges::find(batch, likely) == batch.end())
      batch.push_back(likely);
  }
  if (failure_) return tl::unexpected(*failure_);
  const auto stop = [this](Diagnostic why) {
    failure_ = std::move(why);
    return tl::unexpected(*failure_);
  };
  Result<std::vector<Bytes>> results = pool_->run(batch);
  if (!results) return stop(std::move(results.error()));
  for (size_t i = 0; i < batch.size(); ++i) {
    Unpacker unpacker((*results)[i]);
    Verdict verdict;
    DTR_CHECK(unpacker.take(verdict));
    if (const Result<void> same = check_same_floats(floats, verdict.floats); !same)
      return stop(same.error());
    Result<AccuracyStep> step = AccuracyStep{.sqnr_db = verdict.sqnr_db, .cycles = verdict.cycles};
    if (verdict.has_accuracy != 0) step->accuracy = verdict.accuracy;
    if (verdict.has_classes != 0) step->same_class = verdict.same_class;
    if (verdict.has_folds != 0) step->folds_db = verdict.folds_db;
    if (verdict.has_folds != 0 && verdict.has_classes != 0)
      step->folds_same_class = verdict.folds_same_class;
    if (verdict.compiles == 0)
      step = tl::unexpected(unpack_diagnostic(std::span((*results)[i]).subspan(sizeof verdict)));
    judged_.emplace(std::move(batch[i]), std::move(step));
  }
  return judged_.at(wanted);
}

}  // namespace dtr
