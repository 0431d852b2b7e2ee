#include "compiler/transforms/pass_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "compiler/ir/verifier.h"
#include "compiler/support/cancellation.h"
#include "compiler/transforms/semantics_checker.h"

namespace dtr {
namespace {

// Passes shrink graphs or move ops towards a normal form, so that a few rounds suffice; more mean
// that two undo each other.
constexpr int kMaxRounds = 32;

tl::unexpected<Diagnostic> broke_graph(const PassDef& pass, const Diagnostic& cause) {
  return fail(DiagnosticId::kPassBrokeGraph, fmt::format("pass {}: {}", pass.name, cause.reason),
              "Report this as a bug.", cause.place);
}

class Runner {
 public:
  Runner(Module& module, Graph& graph, const PassOptions& options)
      : module_(module), graph_(graph), options_(options) {}

  Result<void> start() {
    if (options_.check_semantics == SemanticsCheck::kNone) return {};
    DTR_ASSIGN(checker_, SemanticsChecker::start(module_, graph_, options_.seed));
    return {};
  }

  // Each pass once; returns whether something changed.
  Result<bool> run(std::span<const PassDef* const> passes) {
    bool changed = false;
    for (const PassDef* pass : passes) {
      DTR_ASSIGN(const size_t changes, run(*pass));
      changed = changed || changes != 0;
    }
    return changed;
  }

  Result<std::vector<PassRun>> finish() {
    if (options_.check_semantics == SemanticsCheck::kOnce)
      if (const Result<void> status = checker_->compare(module_, graph_, loosest_); !status)
        return fail(DiagnosticId::kPassBrokeGraph,
                    fmt::format("all passes together: {}", status.error().reason),
                    "Report this as a bug.", status.error().place);
    return std::move(runs_);
  }

 private:
  Result<size_t> run(const PassDef& pass) {
    using Clock = std::chrono::steady_clock;
    Remarks& remarks = options_.remarks != nullptr ? *options_.remarks : unwanted_;
    const auto start = Clock::now();
    check_cancelled();
    DTR_ASSIGN(const size_t changes, pass.run(module_, graph_, remarks));
    runs_.push_back(
        {&pass, changes, std::chrono::duration<double, std::milli>(Clock::now() - start).count()});
    remarks.settle(pass, module_, graph_);
    if (options_.after_pass) options_.after_pass(pass, module_, graph_, changes);
    if (changes == 0) return changes;
    loosest_ = std::max(loosest_, pass.exactness);
    if (options_.verify_each)
      if (const Result<void> status = verify(module_, graph_); !status)
        return broke_graph(pass, status.error());
    if (options_.check_semantics == SemanticsCheck::kEachPass)
      if (const Result<void> status = checker_->step(module_, graph_, pass.exactness); !status)
        return broke_graph(pass, status.error());
    return changes;
  }

  Module& module_;
  Graph& graph_;
  const PassOptions& options_;
  Remarks unwanted_;
  std::optional<SemanticsChecker> checker_;
  Exactness loosest_ = Exactness::kExact;
  std::vector<PassRun> runs_;
};

}  // namespace

Result<std::vector<PassRun>> run_passes(Module& module, Graph& graph,
                                        std::span<const PassDef* const> passes,
                                        const PassOptions& options) {
  Runner runner(module, graph, options);
  DTR_TRY(runner.start());
  DTR_TRY(runner.run(passes));
  return runner.finish();
}

Result<std::vector<PassRun>> run_pipeline(Module& module, Graph& graph, const Pipeline& pipeline,
                                          const PassOptions& options) {
  Runner runner(module, graph, options);
  DTR_TRY(runner.start());
  for (int round = 0; round < kMaxRounds; ++round) {
    DTR_ASSIGN(const bool changed, runner.run(pipeline.passes));
    if (!changed) return runner.finish();
  }
  return fail(DiagnosticId::kPassBrokeGraph,
              fmt::format("pipeline {} does not come to an end", pipeline.name),
              "Report this as a bug.");
}

Result<std::optional<Bisection>> bisect(Module& module, Graph& graph, const Pipeline& pipeline,
                                        bool to_fix_point, uint64_t seed) {
  struct Step {
    const PassDef* pass;
    Exactness exactness;  // the loosest until here
    Graph graph;
  };
  std::vector<Step> steps;
  DTR_ASSIGN(SemanticsChecker checker, SemanticsChecker::start(module, graph, seed));
  PassOptions options;
  options.after_pass = [&](const PassDef& pass, const Module&, const Graph& changed,
                           size_t changes) {
    if (changes == 0) return;
    const Exactness before = steps.empty() ? Exactness::kExact : steps.back().exactness;
    steps.push_back({&pass, std::max(before, pass.exactness), changed});
  };
  if (to_fix_point) {
    DTR_TRY(run_pipeline(module, graph, pipeline, options));
  } else {
    DTR_TRY(run_passes(module, graph, pipeline.passes, options));
  }

  std::optional<Bisection> found;
  size_t good = 0, bad = steps.size() + 1;  // counts of steps: after `good` all is well
  for (size_t probe = steps.size(); probe > good; probe = good + (bad - good) / 2) {
    const Step& step = steps[probe - 1];
    const Result<void> same = checker.compare(module, step.graph, step.exactness);
    if (same) {
      good = probe;
      continue;
    }
    if (same.error().id != DiagnosticId::kPassBrokeGraph) return tl::unexpected(same.error());
    bad = probe;
    found = Bisection{step.pass, probe, steps.size(), same.error().reason};
  }
  return found;
}

}  // namespace dtr
