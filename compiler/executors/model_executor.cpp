#include "compiler/executors/onednn_executor.h"
#include "compiler/executors/stream.h"

namespace dtr {

Result<std::unique_ptr<Executor>> make_model_executor(const Module& module, const Graph& graph,
                                                      const OneDnnOptions& options) {
  if (is_quantized(graph))
    return make_stream(module, graph, make_reference_executor(module, graph));
  DTR_ASSIGN(std::unique_ptr<Executor> executor, make_onednn_executor(module, graph, options));
  return make_stream(module, graph, std::move(executor));
}

}  // namespace dtr
