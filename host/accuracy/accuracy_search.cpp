#include "host/accuracy/accuracy_search.h"

#include <algorithm>
#include <utility>

#include "compiler/ops/ops.h"
#include "host/accuracy/accuracy_candidates.h"
#include "host/accuracy/accuracy_steps.h"
#include "host/accuracy/cheap_chains.h"
#include "host/accuracy/quantization_report.h"
#include "host/accuracy/search_tasks.h"

namespace dtr {
namespace {

constexpr size_t kMostOutputs = 4;     // whose operators are tried in float
constexpr size_t kMostSensitive = 12;  // operators whose sensitivity is measured
constexpr size_t kMostChains = 4;      // chains of cheap operators whose sensitivity is measured

using Names = std::vector<std::string>;

void add_once(Names& names, std::string name) {
  if (!name.empty() && std::ranges::find(names, name) == names.end())
    names.push_back(std::move(name));
}

// Compiles candidates and runs them in the simulator, here or on the workers of a pool.
class JudgedModel final : public SearchedModel {
 public:
  JudgedModel(const ModelSource& source, const CompileSettings& settings,
              const AccuracySearchOptions& options)
      : source_(source), options_(options), judge_(source, settings, options) {}

  Result<void> prepare(const CompileSettings& given) {
    DTR_ASSIGN(pool_, CandidatePool::start(source_, given, options_));
    DTR_TRY(judge_.prepare(given, false));
    floats_ = float_fingerprint(judge_.all());
    return {};
  }
  std::unique_ptr<Compilation> take_all() { return judge_.take_all(); }

  const CompileSettings& base() const override { return judge_.base(); }
  const AccuracySummary& known() const override { return judge_.known(); }
  double macs() const override {
    double macs = 1;
    const Graph& graph = judge_.all().as_read;
    for (const OpId id : graph.ops())
      if (graph.op(id).def->macs != nullptr)
        macs += static_cast<double>(graph.op(id).def->macs(BoundOpView(graph, id)));
    return macs;
  }
  bool has_norms() const override {
    if (!judge_.all().conversion) return false;
    const Graph& graph = judge_.all().conversion->float_graph;
    for (const OpId id : graph.ops())
      if (graph.op(id).def == &ops::kLayerNorm || graph.op(id).def == &ops::kRmsNorm) return true;
    return false;
  }

  void expect(const std::vector<CompileSettings>& likely, bool over_folds) override {
    if (pool_ != nullptr) pool_->expect(likely, over_folds);
  }
  Result<Candidate> make(CompileSettings settings, bool over_folds) override {
    if (pool_ == nullptr) return judge_.make(std::move(settings), over_folds);
    DTR_ASSIGN(AccuracyStep figures, pool_->judge(settings, over_folds, floats_));
    return Candidate{std::move(settings), std::nullopt, std::move(figures)};
  }
  Result<AccuracyStep> judge_default() override { return judge_.judge(judge_.all()); }
  Result<AccuracyStep> judge_on_all(const CompileSettings& settings) override {
    DTR_ASSIGN(const Compilation made, judge_.compile_on(*judge_.all().samples(), settings));
    return judge_.judge(made);
  }
  std::optional<Diagnostic> failure() const override {
    return pool_ == nullptr ? std::nullopt : pool_->failure();
  }

  Names output_nodes(Candidate& candidate) override {
    const Compilation* const made = compiled(candidate);
    if (made == nullptr) return {};
    const Graph& graph = made->conversion->float_graph;
    Names names;
    for (size_t k = 0; k < std::min(graph.user_output_count(), kMostOutputs); ++k)
      if (const OpId producer = graph.producer(graph.outputs()[k]); producer.valid())
        add_once(names, place_of(made->module, graph, producer).node);
    return names;
  }

  Names all_nodes(Candidate& candidate) override {
    const Compilation* const made = compiled(candidate);
    if (made == nullptr) return {};
    const Graph& graph = made->conversion->float_graph;
    Names names;
    for (const OpId id : graph.ops()) add_once(names, place_of(made->module, graph, id).node);
    return names;
  }

  Names nodes_by_error(Candidate& candidate) override {
    const Compilation* const made = compiled(candidate);
    if (made == nullptr) return {};
    const auto report = report_quantization(*made);
    if (!report) return {};
    Names names;
    for (const ErrorRow& row : report->operators) add_once(names, row.name);
    return names;
  }

  // Chains of cheap operators, then each of the operators that add most error, alone and with its
  // readers: what an operator rounds at its end stays rounded as long as an int8 operator reads it.
  std::vector<Names> float_choices(Candidate& candidate) override {
    const Compilation* const made = compiled(candidate);
    if (made == nullptr) return {};
    const auto report = report_quantization(*made);
    if (!report) return {};
    const Graph& graph = made->conversion->float_graph;
    const Module& module = made->module;
    std::vector<Names> found = cheap_chains(module, graph, *report, kMostChains);
    for (const ErrorRow& row : report->operators) {
      if (found.size() >= 2 * kMostSensitive) break;
      if (row.name.empty() || row.op == "quantize" || row.op == "dequantize") continue;
      Names names{row.name};
      if (std::ranges::find(found, names) != found.end()) continue;
      found.push_back(names);
      for (const OpId id : graph.ops()) {
        if (place_of(module, graph, id).node != row.name) continue;
        for (const ValueId result : graph.op(id).results)
          for (const Use& use : graph.value(result).uses)
            add_once(names, place_of(module, graph, use.op).node);
      }
      if (names.size() > 1) found.push_back(std::move(names));
    }
    return found;
  }

 private:
  // The candidate, compiled here. Null: it cannot be.
  const Compilation* compiled(Candidate& candidate) {
    if (!candidate.compilation) {
      Result<Compilation> made = judge_.compile(candidate.settings);
      if (!made) return nullptr;
      candidate.compilation = std::move(*made);
    }
    return &*candidate.compilation;
  }

  const ModelSource& source_;
  const AccuracySearchOptions& options_;
  CandidateJudge judge_;
  std::unique_ptr<CandidatePool> pool_;  // null: candidates are made here
  uint32_t floats_ = 0;
};

}  // namespace

Result<AccuracySearchResult> search_accuracy(const ModelSource& source,
                                             const CompileSettings& settings,
                                             const AccuracySearchOptions& options) {
  if (std::holds_alternative<Module>(source))
    return fail(DiagnosticId::kAccuracyOptions,
                "a search compiles the model many times, and a module in memory only once",
                "give the model's file or its bytes");
  JudgedModel model(source, settings, options);
  DTR_TRY(model.prepare(settings));
  DTR_ASSIGN(SearchedSettings found, search_steps(model, options));
  return AccuracySearchResult{std::move(found.settings), std::move(found.summary),
                              model.take_all()};
}

}  // namespace dtr
