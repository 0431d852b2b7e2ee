#include "compiler/pipeline/node_annotations.h"

#include <algorithm>
#include <map>

#include "compiler/pipeline/read_model.h"
#include "compiler/quantizer/annotate.h"
#include "compiler/recipes/recipe.h"
#include "compiler/recipes/selection.h"
#include "compiler/transforms/pipelines.h"

namespace dtr {
namespace {

using Kind = QuantSpec::Kind;

class Collector {
 public:
  Collector(const Module& module, const Annotation& annotation)
      : module_(module), graph_(module.forward()), annotation_(annotation) {}

  NodeAnnotations collect() {
    for (const QuantizationGroup& group : annotation_.groups) result_.groups.push_back(group.spec);
    for (const OpId op : graph_.ops())
      if (const auto& sources = graph_.op(op).origin.sources; !sources.empty())
        last_op_[sources.back()] = op;
    for (const ValueId input : graph_.inputs()) add_result(input, graph_.value(input).name);
    for (const OpId op : graph_.ops()) add_op(op);
    return std::move(result_);
  }

 private:
  const std::string& node(uint32_t source) const { return module_.sources[source].name; }

  // The node whose result a value is; empty for a value inside of a node.
  std::string name_of(ValueId value) const {
    const OpId producer = graph_.producer(value);
    if (!producer.valid()) return graph_.value(value).name;
    const auto& sources = graph_.op(producer).origin.sources;
    if (sources.empty() || last_op_.at(sources.back()) != producer) return {};
    return node(sources.back());
  }

  bool is_float(ValueId value) const { return graph_.type(value).dtype == DType::kFloat32; }

  void add_result(ValueId value, const std::string& name) {
    const int group = annotation_.group_of_value[value.index];
    if (group == Annotation::kNoGroup || !is_float(value)) return;
    if (!name.empty()) {
      result_.results.push_back({name, group});
      return;
    }
    const Op& producer = graph_.op(graph_.producer(value));
    if (producer.origin.sources.empty() || producer.def->has_trait(kMovesData)) return;
    const std::string& around = node(producer.origin.sources.back());
    if (std::ranges::find(result_.interior, around) == result_.interior.end())
      result_.interior.push_back(around);
  }

  void add_op(OpId id) {
    const auto& annotated = annotation_.ops[id.index];
    const Op& op = graph_.op(id);
    if (annotated) {
      std::vector<std::string> readers;
      for (const uint32_t source : op.origin.sources) readers.push_back(node(source));
      for (size_t i = 0; i < op.operands.size(); ++i) {
        const ValueId operand = op.operands[i];
        if (!operand.valid() || !is_float(operand)) continue;
        const QuantSpec& spec = annotated->specs.operands[i];
        const int group = annotated->operand_groups[i];
        const bool weight = spec.kind == Kind::kPerChannel ||
                            (spec.kind == Kind::kSymmetric && graph_.is_constant(operand));
        if (!weight && group == Annotation::kNoGroup) continue;
        result_.inputs.push_back({.readers = readers,
                                  .tensor = name_of(operand),
                                  .group = weight ? -1 : group,
                                  .per_channel = spec.kind == Kind::kPerChannel});
      }
    }
    for (const ValueId value : op.results) add_result(value, name_of(value));
  }

  const Module& module_;
  const Graph& graph_;
  const Annotation& annotation_;
  std::map<uint32_t, OpId> last_op_;  // by the last node that an op stands for
  NodeAnnotations result_;
};

}  // namespace

Result<NodeAnnotations> annotate_nodes(const ModelBytes& model, const CompileSettings& settings) {
  DTR_ASSIGN(Module module,
             parse_model(model.bytes, kind_of(model.bytes), model.name, model.detached));
  Graph& graph = module.forward();
  if (is_quantized(graph))
    return fail(DiagnosticId::kQatQuantized, "the model has quantized values already",
                "annotate the float model, before quantization", {.file = module.file});
  DTR_TRY(check_model(module, *settings.target));
  DTR_TRY(run_pipeline(module, graph, training_pipeline(), settings.passes));
  const RecipeSpec spec = recipe_of(settings);
  DTR_ASSIGN(const Exclusions exclusions, Exclusions::resolve(module, graph, spec, true));
  const Annotation annotation = annotate(graph, make_patterns(spec, exclusions));
  return Collector(module, annotation).collect();
}

}  // namespace dtr
