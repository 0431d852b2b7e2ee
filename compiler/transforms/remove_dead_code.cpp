// Erases ops whose results have no user, from last to first, so that one sweep also removes what
// only they used.
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

Result<size_t> remove_dead_code(Module&, Graph& graph, Remarks&) {
  Rewriter rewriter(graph);
  size_t changes = 0;
  for (OpId id = graph.last_op(), previous; id.valid(); id = previous) {
    previous = graph.op(id).previous;
    const auto unused = [&](ValueId result) { return graph.value(result).unused(); };
    const std::vector<ValueId>& results = graph.op(id).results;
    if (!std::all_of(results.begin(), results.end(), unused)) continue;
    rewriter.erase(id);
    ++changes;
  }
  return changes;
}

}  // namespace

constinit const PassDef kRemoveDeadCode{.name = "remove_dead_code",
                                        .summary = "erase ops whose results have no user",
                                        .exactness = Exactness::kExact,
                                        .keeps_sources = true,
                                        .run = remove_dead_code};

}  // namespace dtr::passes
