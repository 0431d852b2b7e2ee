// Runs passes and watches them: time, verifier, text after a pass, proof by evaluation.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/transforms/pass.h"
#include "compiler/transforms/pipelines.h"

namespace dtr {

enum class SemanticsCheck : uint8_t {
  kNone,
  kOnce,     // the graph at the start against that at the end
  kEachPass  // `SemanticsChecker` after every pass that changed something
};

struct PassOptions {
  bool verify_each = false;  // the verifier after every pass that changed something
  SemanticsCheck check_semantics = SemanticsCheck::kNone;
  uint64_t seed = 1;           // of the proof's inputs
  Remarks* remarks = nullptr;  // where passes say why they left an op alone
  // Called after every pass; changes is 0 if it did nothing.
  std::function<void(const PassDef&, const Module&, const Graph&, size_t changes)> after_pass = {};
};

struct PassRun {
  const PassDef* pass;
  size_t changes;
  double milliseconds;  // of the pass itself
};

// Each pass once, in order. Errors: what a pass reports about the model; kPassBrokeGraph if the
// verifier or the proof finds that a pass is wrong, with its name.
Result<std::vector<PassRun>> run_passes(Module& module, Graph& graph,
                                        std::span<const PassDef* const> passes,
                                        const PassOptions& options = {});

// The list again and again until no pass changes anything.
Result<std::vector<PassRun>> run_pipeline(Module& module, Graph& graph, const Pipeline& pipeline,
                                          const PassOptions& options = {});

// The first of several passes after which a graph computes something else than at the start.
struct Bisection {
  const PassDef* pass;
  size_t run;          // among those that changed something, from 1
  size_t runs;         // that changed something
  std::string reason;  // output, place and both values
};
// Runs the passes as run_passes, or to their fix-point as run_pipeline, and looks for that pass by
// halving, so that few graphs are evaluated; nullopt if the last graph is good. Changes `program`
// and `graph` as the passes do. Errors: what a pass reports about the model; what the executor says
// if a graph cannot be evaluated.
Result<std::optional<Bisection>> bisect(Module& module, Graph& graph, const Pipeline& pipeline,
                                        bool to_fix_point, uint64_t seed);

}  // namespace dtr
