// Runs passes and checks them: times each one, and optionally verifies the graph, prints it and
// compares its results with those before.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/transforms/pass.h"
#include "compiler/transforms/pipelines.h"

namespace dtr {

// When passes are checked by evaluating the graph before and after.
enum class SemanticsCheck : uint8_t {
  kNone,
  kOnce,     // compares the graph at the start with that at the end
  kEachPass  // compares after every pass that changed something
};

// What run_passes checks and reports beside running the passes.
struct PassOptions {
  bool verify_each = false;  // runs the verifier after every pass that changed something
  SemanticsCheck check_semantics = SemanticsCheck::kNone;
  uint64_t seed = 1;           // of the random inputs of check_semantics
  Remarks* remarks = nullptr;  // collects why passes left an op alone
  // Called after every pass, with the number of its changes.
  std::function<void(const PassDef&, const Module&, const Graph&, size_t changes)> after_pass = {};
};

struct PassRun {
  const PassDef* pass;
  size_t changes;
  double milliseconds;  // of the pass itself
};

// Runs each pass once, in order. Errors: those of passes; kPassBrokeGraph, with the name of the
// pass, if the verifier or the comparison of results finds an error.
Result<std::vector<PassRun>> run_passes(Module& module, Graph& graph,
                                        std::span<const PassDef* const> passes,
                                        const PassOptions& options = {});

// Repeats the list of passes until none of them changes anything. Errors: as run_passes.
Result<std::vector<PassRun>> run_pipeline(Module& module, Graph& graph, const Pipeline& pipeline,
                                          const PassOptions& options = {});

// The first pass after which a graph computes other results than at the start.
struct Bisection {
  const PassDef* pass;
  size_t run;          // among those that changed something, from 1
  size_t runs;         // that changed something
  std::string reason;  // output, place and both values
};
// Runs the passes as run_passes or, with `to_fix_point`, as run_pipeline, and finds that pass by
// binary search, so that few graphs are evaluated; std::nullopt if the last graph is correct.
// Changes `module` and `graph` as the passes do. Errors: those of passes; those of the executor, if
// a graph cannot be evaluated.
Result<std::optional<Bisection>> bisect(Module& module, Graph& graph, const Pipeline& pipeline,
                                        bool to_fix_point, uint64_t seed);

}  // namespace dtr
