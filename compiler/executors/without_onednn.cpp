// The float executor where there is no oneDNN: the reference evaluation, whose loops give the same
// bits on every machine.
#include <fmt/format.h>

#include "compiler/executors/onednn_executor.h"
#include "compiler/ops/define.h"

namespace dtr {

Result<std::unique_ptr<Executor>> make_onednn_executor(const Module& module, const Graph& graph,
                                                       const OneDnnOptions&) {
  for (const OpId id : graph.ops()) {
    const auto refuse = [&](Diagnostic diagnostic) {
      diagnostic.place = place_of(module, graph, id);
      return tl::unexpected<Diagnostic>(std::move(diagnostic));
    };
    const Op& op = graph.op(id);
    if (Result<void> verified = verify_op(BoundOpView(graph, id)); !verified)
      return refuse(std::move(verified).error());
    for (const ValueId result : op.results)
      if (graph.type(result).quantized())
        return refuse({DiagnosticId::kIrInvalid,
                       fmt::format("{} on quantized types cannot run in float", op.def->name),
                       {}});
    if (reference_evaluation(graph, id) == nullptr)
      return refuse({DiagnosticId::kIrInvalid,
                     fmt::format("{} cannot be evaluated in float", op.def->name),
                     {}});
  }
  return make_reference_executor(module, graph);
}

}  // namespace dtr
