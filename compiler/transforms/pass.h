// What a pass is, as data: one file of `compiler/transforms/` each, one line in `passes.inc`, one
// file of test/lit/passes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/ir/graph.h"
#include "compiler/ir/rewriter.h"
#include "compiler/transforms/remarks.h"

namespace dtr {

// What evaluating a graph before and after a pass may show (`prove`).
enum class Exactness : uint8_t {
  kExact,          // equal, −0 and 0 too
  kFloatRounding,  // equal in real arithmetic: in double within 2^-20 of the output's maximum
  kQuantization    // values move from float to their quantized form: each op within one step of its
                   // float form, see `prove`
};

struct PassDef {
  std::string_view name;     // "fold_batch_norm"
  std::string_view summary;  // one line for `deuteron-opt --list`
  Exactness exactness = Exactness::kExact;
  // Every value stays the result of the last of its op's sources: no op takes the place of another
  // that is equal or in front of it, none stands for a part of a source. What is to be changed in
  // the model's file is found so.
  bool keeps_sources = false;
  // Changes `graph` of `program` and returns how often. One call reaches the pass's own fix-point
  // in time linear in the graph; a second one does nothing unless another pass made new work. What
  // a user would expect to be changed and is not goes to `remarks`.
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
