// Describes a pass as data. Each pass is one file of `compiler/transforms/`, one line of
// `passes.inc` and one file of test/lit/passes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/ir/graph.h"
#include "compiler/ir/rewriter.h"
#include "compiler/transforms/remarks.h"

namespace dtr {

// How far results of a graph may differ before and after a pass (`SemanticsChecker`).
enum class Exactness : uint8_t {
  kExact,          // equal, −0 and 0 too
  kFloatRounding,  // equal in real arithmetic: in double within 2^-20 of the output's maximum
  // float values become quantized: each op within one step of its float form, see
  // `SemanticsChecker`
  kQuantization
};

struct PassDef {
  std::string_view name;     // "fold_batch_norm"
  std::string_view summary;  // one line for `deuteron-opt --list`
  Exactness exactness = Exactness::kExact;
  // The pass preserves the mapping from values to nodes of the exported model: every value remains
  // the result of the last source of its op, and no op replaces an equal one or part of a source.
  // Required by qat-prepare, which edits that file.
  bool keeps_sources = false;
  // Changes `graph` of `module` and returns the number of changes. One call reaches the pass's own
  // fixed point in time linear in the graph; a second call does nothing unless another pass changed
  // the graph. Explains in `remarks` why ops that a user would expect to change were left alone.
  // Errors: diagnostics about the model, such as an overflow of a folded weight.
  Result<size_t> (*run)(Module& module, Graph& graph, Remarks& remarks) = nullptr;
};

// The table of all passes, in the order of passes.inc.
std::span<const PassDef* const> all_passes();
const PassDef* find_pass(std::string_view name);  // nullptr if there is none

namespace passes {
#define DTR_PASS(symbol, file) extern const PassDef symbol;
#include "compiler/transforms/passes.inc"
#undef DTR_PASS
}  // namespace passes

}  // namespace dtr
