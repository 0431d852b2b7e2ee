#include "transforms/pass_manager.h"

#include <fmt/format.h>

#include <chrono>

#include "ir/verifier.h"

namespace dtr {
namespace {

// Passes shrink graphs or move ops towards a normal form, so that a few rounds suffice; more mean that two undo each other.
constexpr int kMaxRounds = 32;

tl::unexpected<Diagnostic> broke_graph(const PassDef& pass, const Diagnostic& cause) {
  return fail(DiagnosticId::kPassBrokeGraph, fmt::format("pass {}: {}", pass.name, cause.reason), "Report this as a bug.", cause.place);
}

}  // namespace

Result<std::vector<PassRun>> run_passes(Program& program, Graph& graph, std::span<const PassDef* const> passes,
                                        const PassOptions& options) {
  using Clock = std::chrono::steady_clock;
  std::vector<PassRun> runs;
  Remarks unwanted;
  Remarks& remarks = options.remarks != nullptr ? *options.remarks : unwanted;
  for (const PassDef* pass : passes) {
    const Graph before = options.prove ? graph : Graph{};
    const auto start = Clock::now();
    DTR_ASSIGN(const size_t changes, pass->run(program, graph, remarks));
    runs.push_back({pass, changes, std::chrono::duration<double, std::milli>(Clock::now() - start).count()});
    remarks.settle(*pass, program, graph);
    if (options.after_pass) options.after_pass(*pass, graph, changes);
    if (changes == 0) continue;
    if (options.verify_each)
      if (const Status status = verify(program, graph); !status) return broke_graph(*pass, status.error());
    if (options.prove)
      if (const Status status = prove(program, before, graph, pass->exactness, options.seed); !status)
        return broke_graph(*pass, status.error());
  }
  return runs;
}

Result<std::vector<PassRun>> run_pipeline(Program& program, Graph& graph, const Pipeline& pipeline, const PassOptions& options) {
  std::vector<PassRun> all;
  for (int round = 0; round < kMaxRounds; ++round) {
    DTR_ASSIGN(const std::vector<PassRun> runs, run_passes(program, graph, pipeline.passes, options));
    all.insert(all.end(), runs.begin(), runs.end());
    if (std::all_of(runs.begin(), runs.end(), [](const PassRun& run) { return run.changes == 0; })) return all;
  }
  return fail(DiagnosticId::kPassBrokeGraph, fmt::format("pipeline {} does not come to an end", pipeline.name), "Report this as a bug.");
}

}  // namespace dtr
