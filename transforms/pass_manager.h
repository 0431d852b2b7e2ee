// Runs passes and watches them: time, verifier, text after a pass, proof by evaluation.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "transforms/pass.h"
#include "transforms/pipelines.h"

namespace dtr {

struct PassOptions {
  bool verify_each = false;    // the verifier after every pass that changed something
  bool prove = false;          // `prove` after every pass that changed something
  uint64_t seed = 1;           // of the proof's inputs
  Remarks* remarks = nullptr;  // where passes say why they left an op alone
  // Called after every pass; changes is 0 if it did nothing.
  std::function<void(const PassDef&, const Graph&, size_t changes)> after_pass = {};
};

struct PassRun {
  const PassDef* pass;
  size_t changes;
  double milliseconds;  // of the pass itself
};

// Each pass once, in order. Errors: what a pass reports about the model; kPassBrokeGraph if the verifier or the proof finds that a pass
// is wrong, with its name.
Result<std::vector<PassRun>> run_passes(Program& program, Graph& graph, std::span<const PassDef* const> passes,
                                        const PassOptions& options = {});

// The list again and again until no pass changes anything.
Result<std::vector<PassRun>> run_pipeline(Program& program, Graph& graph, const Pipeline& pipeline, const PassOptions& options = {});

// Evaluates two forms of a graph in double on the same pseudo-random inputs and compares every output as `exactness` promises:
// kQuantization allows a signal-to-noise ratio of at least 20 dB (single ops differ by rounding to steps, chains by a few).
// Errors: kPassBrokeGraph with output, place and both values; what the executor says if a graph cannot be evaluated.
Status prove(const Program& program, const Graph& before, const Graph& after, Exactness exactness, uint64_t seed);

}  // namespace dtr
