#include "compiler/pipeline/float_in_training.h"

#include <set>
#include <string_view>
#include <utility>

#include "compiler/frontends/pt2/pt2.h"
#include "compiler/ops/ops.h"
#include "compiler/transforms/pipelines.h"

namespace dtr {
namespace {

// The nodes of an export and what of them is computed.
using Ops = std::set<std::pair<std::string, const OpDef*>>;

// Nodes that qat-prepare writes in the place of another one have its name and one of these.
constexpr std::string_view kSuffixes[] = {"", "_product", "_sum"};

bool computes_in_float(const Graph& graph, const Op& op) {
  const Type& type = graph.type(op.results[0]);
  return type.dtype == DType::kFloat32 && !type.quantized() && op.def != &ops::kDequantize;
}

}  // namespace

Result<std::vector<const SourceOp*>> find_float_in_training(const Module& module,
                                                            const Annotation& annotation,
                                                            std::span<const std::byte> prepared,
                                                            const CompileSettings& settings) {
  DTR_ASSIGN(Module read, pt2::parse_pt2(prepared, module.file));
  Graph& trained = read.forward();
  DTR_TRY(run_pipeline(read, trained, quantized_pipeline(), settings.passes));
  Ops in_float, in_int8;
  for (const OpId id : trained.ops()) {
    const Op& op = trained.op(id);
    Ops& ops = computes_in_float(trained, op) ? in_float : in_int8;
    for (const uint32_t source : op.origin.sources) ops.emplace(read.sources[source].name, op.def);
  }
  const auto stays_float = [&](const std::string& node, const OpDef* def) {
    bool found = false;
    for (const std::string_view suffix : kSuffixes) {
      const std::pair<std::string, const OpDef*> key{node + std::string(suffix), def};
      if (in_int8.contains(key)) return false;
      found = found || in_float.contains(key);
    }
    return found;
  };
  std::set<uint32_t> sources;
  const Graph& graph = module.forward();
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    if (!annotation.ops[id.index] || op.origin.sources.empty() ||
        annotation.group_of_value[op.results[0].index] == Annotation::kNoGroup)
      continue;
    if (const uint32_t last = op.origin.sources.back();
        stays_float(module.sources[last].name, op.def))
      sources.insert(last);
  }
  std::vector<const SourceOp*> found;
  for (const uint32_t source : sources) found.push_back(&module.sources[source]);
  return found;
}

}  // namespace dtr
