#include "compiler/pipeline/qat_prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "compiler/executors/onednn_executor.h"
#include "compiler/frontends/pt2/export_editor.h"
#include "compiler/frontends/pt2/pt2.h"
#include "compiler/ops/ops.h"
#include "compiler/pipeline/fake_quantization.h"
#include "compiler/pipeline/float_in_training.h"
#include "compiler/pipeline/spell_batch_norms.h"
#include "compiler/pipeline/spell_equalization.h"
#include "compiler/pipeline/spell_nodes.h"
#include "compiler/pipeline/spell_norms.h"
#include "compiler/pipeline/spell_writes.h"
#include "compiler/quantizer/annotate.h"
#include "compiler/quantizer/convert.h"
#include "compiler/quantizer/not_finite.h"
#include "compiler/quantizer/pattern.h"
#include "compiler/quantizer/separations.h"
#include "compiler/quantizer/steep_functions.h"
#include "compiler/recipes/recipe.h"
#include "compiler/transforms/channel_affine.h"
#include "compiler/transforms/edit.h"
#include "compiler/transforms/pipelines.h"

namespace dtr {
namespace {

using Kind = QuantSpec::Kind;
using Editor = pt2::ExportEditor;
using Name = Editor::Name;

// Operators with weights and the argument that they are.
struct Layer {
  std::string_view prefix, argument;
};
constexpr Layer kLayers[] = {{"aten.conv", "weight"},  {"aten.linear", "weight"},
                             {"aten.addmm", "mat2"},   {"aten.mm", "mat2"},
                             {"aten.matmul", "other"}, {"aten.bmm", "mat2"}};

const Layer* find_layer(std::string_view target) {
  const auto found = std::ranges::find_if(
      kLayers, [&](const Layer& layer) { return target.starts_with(layer.prefix); });
  return found == std::end(kLayers) ? nullptr : found;
}

bool is_batch_norm(std::string_view target) {
  return target.starts_with("aten.batch_norm") ||
         target.starts_with("aten._native_batch_norm_legit");
}

// Whether the ops of a node behind one of them only move its result, in the same quantization: a
// convolution over one dimension is one over two between views. The node's result then is that
// of the op, for fake quantization too.
bool becomes_result(const Graph& graph, const Annotation& annotation, const std::vector<OpId>& ops,
                    OpId op) {
  ValueId value = graph.op(op).results[0];
  const int group = annotation.group_of_value[value.index];
  for (auto next = std::ranges::find(ops, op) + 1; next != ops.end(); ++next) {
    const Op& moving = graph.op(*next);
    if (!moving.def->has_trait(kMovesData) || moving.operands[0] != value) return false;
    value = moving.results[0];
  }
  return annotation.group_of_value[value.index] == group;
}

// Whether the result of one of a node's ops is quantized although no node has it as its result.
bool is_interior(const Graph& graph, const Annotation& annotation, const std::vector<OpId>& ops,
                 OpId op) {
  return op != ops.back() &&
         annotation.group_of_value[graph.op(op).results[0].index] != Annotation::kNoGroup &&
         !graph.op(op).def->has_trait(kMovesData) && !becomes_result(graph, annotation, ops, op);
}

// What the file calls operand `i` of `op`, a constant; where the graph computed it, the argument of
// the node in the same place, or else a name that no node has. Numbers have no name and need none:
// int8 holds a single number exactly.
std::string name_of_constant(const Module& module, const Editor& editor, const Op& op, size_t i) {
  const Graph& graph = module.forward();
  const std::string& name = graph.value(op.operands[i]).name;
  for (const uint32_t source : op.origin.sources) {
    const std::vector<std::string> tensors = editor.tensors(source);
    const std::string_view kind = op.def->name.substr(0, op.def->name.find('.', 5));
    if (std::ranges::find(tensors, name) != tensors.end()) return name;
    if (module.sources[source].target.starts_with(kind) && tensors.size() == op.operands.size() &&
        element_count(editor.shape(tensors[i])) == graph.type(op.operands[i]).elements())
      return tensors[i];
  }
  return name;
}

// A division by a constant, which is a product with its reciprocal for the NPU.
bool is_division(const Module& module, const Op& op) {
  return op.def == &ops::kMulTensor && op.origin.sources.size() == 1 &&
         module.sources[op.origin.sources[0]].target.starts_with("aten.div.Tensor");
}

// Whether no node takes what the file calls operand `i`, a constant that is quantized as values
// are: the nodes of `op` compute it, as `einsum` the matrix of its product.
bool is_computed_inside(const Module& module, const Editor& editor, const Op& op, size_t i) {
  if (module.forward().type(op.operands[i]).elements() == 1 || is_division(module, op))
    return false;
  const std::string name = name_of_constant(module, editor, op, i);
  return std::ranges::none_of(op.origin.sources,
                              [&](uint32_t source) { return editor.takes(source, name); });
}

bool is_weight(const Graph& graph, const QuantSpec& spec, ValueId operand) {
  return spec.kind == Kind::kPerChannel ||
         (spec.kind == Kind::kSymmetric && graph.is_constant(operand));
}

// Nodes of `op` whose weight is computed inside: of another operator than a layer, or that of one
// over three dimensions, which the NPU convolves over two with the planes of several.
void add_layers_inside(const Module& module, const Editor& editor, const Op& op,
                       std::set<uint32_t>& nodes) {
  constexpr size_t kRankOfThree = 5;
  bool known = false;
  for (const uint32_t source : op.origin.sources)
    if (const Layer* const layer = find_layer(module.sources[source].target); layer != nullptr) {
      known = true;
      if (editor.shape(editor.argument(source, layer->argument)).size() == kRankOfThree)
        nodes.insert(source);
    }
  if (!known) nodes.insert(op.origin.sources.begin(), op.origin.sources.end());
}

// The nodes that have a quantized value inside.
std::set<uint32_t> nodes_with_interior(const Module& module, const Editor& editor,
                                       const Annotation& annotation) {
  const Graph& graph = module.forward();
  std::map<uint32_t, std::vector<OpId>> ops_of;
  for (const OpId op : graph.ops())
    for (const uint32_t source : graph.op(op).origin.sources) ops_of[source].push_back(op);
  std::set<uint32_t> nodes;
  for (const auto& each : ops_of)
    if (std::ranges::any_of(
            each.second, [&](OpId op) { return is_interior(graph, annotation, each.second, op); }))
      nodes.insert(each.first);
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    if (!annotation.ops[id.index]) continue;
    const AnnotatedOp& annotated = *annotation.ops[id.index];
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId operand = op.operands[i];
      if (!operand.valid() || !graph.is_constant(operand)) continue;
      if (is_weight(graph, annotated.specs.operands[i], operand)) {
        add_layers_inside(module, editor, op, nodes);
      } else if (annotated.operand_groups[i] != Annotation::kNoGroup &&
                 is_computed_inside(module, editor, op, i)) {
        nodes.insert(op.origin.sources.begin(), op.origin.sources.end());
      }
    }
  }
  return nodes;
}

class Preparation {
 public:
  Preparation(const Module& module, const Annotation& annotation,
              const std::vector<Quantization>* ranges, Editor editor,
              std::vector<std::string> notes)
      : module_(module),
        graph_(module.forward()),
        annotation_(annotation),
        ranges_(ranges),
        editor_(std::move(editor)),
        fake_(editor_, annotation, ranges, result_) {
    result_.notes = std::move(notes);
  }

  Result<QatPrepared> run() {
    for (const OpId op : graph_.ops())
      if (!graph_.op(op).origin.sources.empty())
        ops_of_[graph_.op(op).origin.sources.back()].push_back(op);
    if (ranges_ == nullptr) note_joins();
    keep_ranges_of_states();
    for (size_t i = 0; i < graph_.user_input_count(); ++i)
      fake_quantize_value(graph_.inputs()[i], 0, graph_.value(graph_.inputs()[i]).name);
    for (size_t i = 0; i < graph_.state_count(); ++i) prepare_state(graph_.state(i));
    for (const auto& [source, ops] : ops_of_) {
      for (const OpId op : ops)
        if (annotation_.ops[op.index]) prepare_operands(op);
      if (!multiply_by_reciprocal(source, ops) && !split_addmm(source, ops))
        prepare_results(source, ops);
    }
    if (result_.activations + result_.weights == 0)
      result_.notes.emplace_back(
          "the target quantizes nothing of this model; there is nothing to train");
    DTR_ASSIGN(result_.archive, editor_.finish());
    return std::move(result_);
  }

 private:
  const std::string& target_of(uint32_t source) const { return module_.sources[source].target; }
  void note(uint32_t source, std::string_view text) {
    add_note(fmt::format("`{}` ({}): {}", module_.sources[source].name, target_of(source), text));
  }
  // Once, also of a node of several such ops.
  void add_note(std::string note) {
    if (std::ranges::find(result_.notes, note) == result_.notes.end())
      result_.notes.push_back(std::move(note));
  }

  // Which parts of a concatenation have a quantization of their own depends on their ranges.
  void note_joins() {
    for (const OpId id : graph_.ops()) {
      const Op& op = graph_.op(id);
      if (op.def != &ops::kCat || !annotation_.ops[id.index] || op.origin.sources.empty()) continue;
      return note(op.origin.sources.back(),
                  "without --calibrate all that it joins shares one quantization, and parts of "
                  "much smaller ranges lose their codes; give samples to find such parts");
    }
  }

  // --- values ---

  // Training often begins with fresh states, and then shows less of what is computed from them than
  // long runs reach: a moving average would forget what calibration, or a longer run, has shown.
  void keep_ranges_of_states() {
    std::set<ValueId> computed;
    const auto keep = [&](ValueId value) {
      computed.insert(value);
      if (const int group = annotation_.group_of_value[value.index]; group != Annotation::kNoGroup)
        fake_.only_widen(group);
    };
    for (size_t i = 0; i < graph_.state_count(); ++i) keep(graph_.state(i));
    for (const OpId id : graph_.ops())
      if (const Op& op = graph_.op(id); std::ranges::any_of(
              op.operands, [&](ValueId operand) { return computed.contains(operand); }))
        std::ranges::for_each(op.results, keep);
  }

  // A state as a run finds it. What the run writes to it is another value, in the same group.
  void prepare_state(ValueId state) {
    const std::string& target = graph_.value(state).name;
    if (annotation_.group_of_value[state.index] == Annotation::kNoGroup) return;
    const std::string name = editor_.buffer(target);
    if (!name.empty() && is_written_whole(module_, editor_, name)) {
      fake_quantize_value(state, 0, name);
    } else {
      add_note(fmt::format(
          "`{}`: this state is written through views that have no operator to write them back, so "
          "it stays float during training",
          target));
    }
  }

  // The value that node `source` of the file makes is what the last of its ops makes; of several
  // results each is that of an op, by its name.
  void prepare_results(uint32_t source, const std::vector<OpId>& ops) {
    const std::vector<std::string> results = editor_.results(source);
    const auto name_of_result = [&](OpId op) -> std::string {
      if (results.size() == 1) return op == ops.back() ? results[0] : std::string();
      const std::string& name = graph_.value(graph_.op(op).results[0]).name;
      return std::ranges::find(results, name) != results.end() ? name : std::string();
    };
    for (const OpId op : ops) {
      const ValueId value = graph_.op(op).results[0];
      const bool quantized = annotation_.group_of_value[value.index] != Annotation::kNoGroup;
      if (const std::string name = name_of_result(op); !name.empty()) {
        if (quantized && element_count(editor_.shape(name)) == graph_.type(value).elements())
          fake_quantize_value(value, source + 1, name);
      } else if (is_interior(graph_, annotation_, ops, op)) {
        note(source,
             fmt::format("a value inside of it, the result of {}, stays float during training",
                         graph_.op(op).def->name));
        return;
      }
    }
  }

  // --- nodes that become others ---

  // The NPU multiplies by the reciprocal of a constant, so that is what is quantized. False if the
  // node is no such division.
  bool multiply_by_reciprocal(uint32_t source, const std::vector<OpId>& ops) {
    const Op& op = graph_.op(ops.front());
    const std::vector<std::string> tensors = editor_.tensors(source);
    if (ops.size() != 1 || op.def != &ops::kMulTensor ||
        !target_of(source).starts_with("aten.div.Tensor") || tensors.size() != 2 ||
        !annotation_.ops[ops.front().index])
      return false;
    const int group = annotation_.ops[ops.front().index]->operand_groups[1];
    if (group == Annotation::kNoGroup || !graph_.is_constant(op.operands[1])) return false;
    const std::string result = editor_.result(source);
    const auto add = [&](std::string_view target, const Editor::Arguments& arguments,
                         std::string_view suffix, const Shape& shape) {
      return editor_.add_node(source, source, target, arguments,
                              fmt::format("{}_{}", result, suffix), DType::kFloat32, shape);
    };
    const std::string factor = add("aten.reciprocal.default", {{"self", Name{tensors[1]}}},
                                   "factor", editor_.shape(tensors[1]));
    const std::string quantized = fake_.add(group, factor, source, source);
    const std::string product =
        add("aten.mul.Tensor", {{"self", Name{tensors[0]}}, {"other", Name{quantized}}}, "product",
            editor_.shape(result));
    editor_.replace_uses(result, product);
    fake_quantize_value(op.results[0], source, product);
    return true;
  }

  // The NPU adds what is no row of biases by a call of its own, whose operand is the product in
  // int8. False if the node is no such `addmm`.
  bool split_addmm(uint32_t source, const std::vector<OpId>& ops) {
    if (ops.size() != 2 || !target_of(source).starts_with("aten.addmm") ||
        graph_.op(ops.back()).def != &ops::kAddTensor ||
        !is_interior(graph_, annotation_, ops, ops.front()) ||
        editor_.number(source, "alpha").value_or(1) != 1 ||
        editor_.number(source, "beta").value_or(1) != 1)
      return false;
    const std::string result = editor_.result(source);
    const auto add = [&](std::string_view target, const Editor::Arguments& arguments,
                         std::string_view suffix) {
      return editor_.add_node(source, source, target, arguments,
                              fmt::format("{}_{}", result, suffix), DType::kFloat32,
                              editor_.shape(result));
    };
    const std::string product = add("aten.mm.default",
                                    {{"self", Name{editor_.argument(source, "mat1")}},
                                     {"mat2", Name{editor_.argument(source, "mat2")}}},
                                    "product");
    const ValueId product_value = graph_.op(ops.front()).results[0];
    fake_quantize_value(product_value, source, product);
    const std::string sum = add("aten.add.Tensor",
                                {{"self", Name{name_of_.at(product_value)}},
                                 {"other", Name{editor_.argument(source, "self")}}},
                                "sum");
    editor_.replace_uses(result, sum);
    fake_quantize_value(graph_.op(ops.back()).results[0], source, sum);
    return true;
  }

  void fake_quantize_value(ValueId value, size_t before, const std::string& name) {
    const int group = annotation_.group_of_value[value.index];
    if (group == Annotation::kNoGroup || graph_.type(value).dtype != DType::kFloat32 ||
        !is_trained(name))
      return;
    const std::string quantized = fake_.add(group, name, before, before == 0 ? 0 : before - 1);
    editor_.replace_uses(name, quantized);
    name_of_[value] = quantized;
  }

  // PyTorch fakes the quantization of float32 alone; what is integers, complex or of another float
  // type in the file stays what it is.
  bool is_trained(const std::string& name) {
    const std::optional<DType> dtype = editor_.dtype(name);
    if (dtype == DType::kFloat32 || !editor_.has(name)) return true;
    if (dtype != DType::kInt64 && left_.insert(name).second)
      result_.notes.push_back(fmt::format(
          "`{}`: it is no tensor of float32 in the file, and is not quantized during training",
          name));
    return false;
  }

  // --- operands ---

  void prepare_operands(OpId id) {
    const Op& op = graph_.op(id);
    const AnnotatedOp& annotated = *annotation_.ops[id.index];
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId operand = op.operands[i];
      if (!operand.valid()) continue;
      const QuantSpec& spec = annotated.specs.operands[i];
      const int group = annotated.operand_groups[i];
      if (is_weight(graph_, spec, operand)) {
        prepare_weight(op, spec);
      } else if (group == Annotation::kNoGroup) {
        continue;
      } else if (graph_.is_constant(operand)) {
        if (is_computed_inside(module_, editor_, op, i) && !op.origin.sources.empty())
          note(op.origin.sources.back(), "a constant that it computes stays float during training");
        requantize_argument(op, name_of_constant(module_, editor_, op, i), group);
      } else if (const auto known = name_of_.find(operand);
                 known != name_of_.end() && annotation_.group_of_value[operand.index] != group) {
        requantize_argument(op, known->second, group);
      }
    }
  }

  // The nodes of `op` that take `name` take it in another quantization.
  void requantize_argument(const Op& op, const std::string& name, int group) {
    for (const uint32_t source : op.origin.sources) {
      if (!editor_.takes(source, name) || !is_trained(name)) continue;
      editor_.replace_argument(source, name, fake_.add(group, name, source, source));
    }
  }

  void prepare_weight(const Op& op, const QuantSpec& spec) {
    const auto layer = std::ranges::find_if(op.origin.sources, [&](uint32_t source) {
      return find_layer(target_of(source)) != nullptr;
    });
    if (layer == op.origin.sources.end()) {
      // int8 holds the factors of a batch norm exactly, as each has a scale of its own.
      if (!op.origin.sources.empty() && !is_batch_norm(target_of(op.origin.sources[0])) &&
          prepared_.insert(op.origin.sources[0]).second)
        note(op.origin.sources[0], "its weights are inside of it and stay float during training");
      return;
    }
    if (!prepared_.insert(*layer).second) return;
    const std::string_view argument = find_layer(target_of(*layer))->argument;
    std::string weight = editor_.argument(*layer, argument);
    const Shape shape = editor_.shape(weight);
    if (weight.empty() || shape.size() < 2 || !is_trained(weight))
      return note(*layer, "its weights are no tensor of their own and stay float during training");
    const bool transposed = op.def == &ops::kConvolution && op.attributes.get<bool>("transposed");
    const size_t axis = argument != "weight" ? shape.size() - 1 : transposed ? 1 : 0;
    for (const uint32_t norm : op.origin.sources) {  // in the order of the file
      if (!is_batch_norm(target_of(norm))) continue;
      if (norm < *layer && argument == "weight") {
        if (!takes_offsets(op))  // fold_batch_norm has found that it shifts nothing
          note(norm, "its bias and mean, all 0, are not trained, as the layer behind it pads");
        fold_batch_norm_behind(editor_, norm, *layer, op);
        ++result_.batch_norms;
        weight = editor_.argument(*layer, argument);
      } else if (argument != "weight") {
        note(norm, "its fusion cannot be simulated; it stays float during training");
      } else {
        weight = simulate_fusion(editor_, *layer, norm, op, weight);
        ++result_.batch_norms;
      }
    }
    const bool by_channel = spec.kind == Kind::kPerChannel;
    QuantizedWeight& quantized = weights_[{weight, by_channel, axis}];
    if (quantized.name.empty() || quantized.node > *layer) {
      quantized = {fake_.add_to_weight(*layer, weight, shape, by_channel, axis), *layer};
      ++result_.weights;
    }
    editor_.set_argument(*layer, argument, quantized.name);
  }

  const Module& module_;
  const Graph& graph_;
  const Annotation& annotation_;
  const std::vector<Quantization>* ranges_;  // by group
  Editor editor_;
  QatPrepared result_;
  FakeQuantization fake_;
  std::map<uint32_t, std::vector<OpId>>
      ops_of_;  // by the last node of the file that they stand for, in program order
  std::map<ValueId, std::string>
      name_of_;                  // of quantized values in the graph, behind their fake quantization
  std::set<uint32_t> prepared_;  // layers
  std::set<std::string> left_;   // tensors of other types than float32
  struct QuantizedWeight {
    std::string name;
    uint32_t node = 0;  // in front of which it is
  };
  std::map<std::tuple<std::string, bool, size_t>, QuantizedWeight>
      weights_;  // of layers that share weights, as the steps of a recurrence: quantized once
};

// A model as training sees it, and what the target quantizes of it.
struct Model {
  Module module;
  Editor editor;
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns;
  QuantSpec::Observer observer{};
  std::vector<OpId> scaling;  // products that stay float
  Annotation annotation;

  Annotation annotated(Separations more) const {
    more.scaling = scaling;
    Annotation made = annotate(module.forward(), patterns, more);
    for (QuantizationGroup& group : made.groups)
      if (group.spec.observer == QuantSpec::Observer::kHistogram) group.spec.observer = observer;
    return made;
  }
};

// `scaled_inputs`: products that stay float.
Result<Model> annotate_model(Module module, std::span<const std::byte> bytes,
                             const CompileSettings& settings,
                             const std::set<std::string>& scaled_inputs = {}) {
  DTR_ASSIGN(Editor editor, Editor::open(bytes, module.file));
  Model model{std::move(module), std::move(editor), {}, settings.observer, {}, {}};
  Graph& graph = model.module.forward();
  // A softsign has no operator of PyTorch: its steps stay float, which `compile` makes a table.
  Remarks remarks;
  DTR_TRY(passes::kRecognizeActivations.run(model.module, graph, remarks));
  DTR_TRY(run_pipeline(model.module, graph, training_pipeline(), settings.passes));
  const RecipeSpec spec = recipe_of(settings);
  DTR_ASSIGN(const Exclusions exclusions, Exclusions::resolve(model.module, graph, spec, true));
  model.patterns = make_patterns(spec, exclusions);
  for (const OpId op : graph.ops())
    if (scaled_inputs.contains(graph.value(graph.op(op).results[0]).name))
      model.scaling.push_back(op);
  model.annotation = model.annotated({});
  return model;
}

// The file with factors of its channels (spell_equalization.h), annotated.
Result<Equalization> equalize_model(Model& model, std::vector<std::byte>& written,
                                    const CompileSettings& settings, const Samples* samples) {
  if (samples == nullptr)
    return fail(
        DiagnosticId::kAccuracyOptions, "--equalize runs the model on samples and there are none",
        "give samples of real inputs with --calibrate DATA.npz", {.file = model.module.file});
  Graph& graph = model.module.forward();
  EqualizationSpeller speller(model.module, model.editor);
  DTR_ASSIGN(const std::unique_ptr<Executor> executor,
             make_model_executor(model.module, graph, {.observe_any_layout = true}));
  DTR_ASSIGN(Equalization equalization, equalize(model.module, graph, model.annotation, *executor,
                                                 *samples, settings.threads, &speller));
  if (equalization.groups == 0) return equalization;
  DTR_ASSIGN(std::vector<std::byte> equalized, model.editor.finish());
  DTR_ASSIGN(Module read, pt2::parse_pt2(equalized, model.module.file));
  DTR_ASSIGN(model, annotate_model(std::move(read), equalized, settings, speller.scaled_inputs()));
  written = std::move(equalized);
  return equalization;
}

// A file that is changed step by step.
class Spelling {
 public:
  Spelling(std::span<const std::byte> bytes, const std::string& file)
      : bytes_(bytes), file_(file) {}

  // spell(module, editor) returns the number of its changes; parse reads the file for it.
  template <class Parse, class Spell>
  Result<void> step(Parse parse, Spell spell) {
    const std::span<const std::byte> now = written_.empty() ? bytes_ : written_;
    // An operator may have no form whose weights are computed: then there is nothing to spell.
    Result<Module> read = parse(now, file_);
    if (!read) return {};
    DTR_ASSIGN(Editor editor, Editor::open(now, file_));
    DTR_ASSIGN(const size_t changes, spell(*read, editor));
    if (changes == 0) return {};
    DTR_ASSIGN(std::vector<std::byte> written, editor.finish());
    read = Module();  // its weights are in the bytes before
    written_ = std::move(written);
    return {};
  }

  std::vector<std::byte> take() { return std::move(written_); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::vector<std::byte> written_;
};

// The file with other operators where training needs them (spell_nodes.h); empty if there are none.
// Norms and masks are searched in what nodes were written as: layers of recurrences, attention,
// products with parameters.
Result<std::vector<std::byte>> spell_out(const Model& model, std::span<const std::byte> bytes,
                                         std::vector<std::string>& notes) {
  Spelling spelling(bytes, model.module.file);
  if (model.annotation.groups.empty()) return spelling.take();
  const auto parse = [](std::span<const std::byte> now, const std::string& file) {
    return pt2::parse_pt2(now, file);
  };
  const std::set<uint32_t> wanted =
      nodes_with_interior(model.module, model.editor, model.annotation);
  DTR_TRY(spelling.step(pt2::parse_trainable_pt2,
                        [&](const Module& module, Editor& editor) -> Result<size_t> {
                          const std::set<uint32_t> nodes = spellable_nodes(module, editor, wanted);
                          spell_nodes(module, editor, nodes);
                          return nodes.size();
                        }));
  for (const bool merge : {false, true})
    DTR_TRY(spelling.step(parse, [&](Module& module, Editor& editor) {
      return spell_recognized(module, editor, merge, notes);
    }));
  DTR_TRY(spelling.step(parse, [](const Module& module, Editor& editor) -> Result<size_t> {
    return spell_norms(module, editor);
  }));
  DTR_TRY(spelling.step(pt2::parse_trainable_pt2, [](Module& module, Editor& editor) {
    return spell_masks(module, editor);
  }));
  return spelling.take();
}

// `bytes`, of which `module` is read, without operators that write to views. Where there are such,
// `written` is the file without them, and `module` is read of it.
Result<void> spell_in_place(Module& module, std::span<const std::byte> bytes,
                            std::vector<std::byte>& written) {
  const std::string file = module.file;
  for (const auto spell : {spell_writes, spell_copies}) {
    DTR_ASSIGN(Editor editor, Editor::open(written.empty() ? bytes : written, file));
    if (spell(module, editor) == 0) continue;
    DTR_ASSIGN(std::vector<std::byte> changed, editor.finish());
    DTR_ASSIGN(module, pt2::parse_pt2(changed, file));
    written = std::move(changed);
  }
  return {};
}

// Calibrates, and annotates anew what the ranges separate, as `compile` does.
Result<std::vector<Quantization>> find_ranges(Model& model, const CompileSettings& settings,
                                              const Samples& samples) {
  const Graph& graph = model.module.forward();
  const auto make_executor = [&] {
    return make_model_executor(model.module, graph, {.observe_any_layout = true});
  };
  std::vector<OpId> not_finite;
  const auto annotate_again = [&](const std::vector<OpId>& found) {
    not_finite = found;
    return model.annotated({.not_finite = not_finite});
  };
  DTR_ASSIGN(CalibrationResult calibration,
             calibrate_finite(model.module, graph, model.annotation, make_executor, samples,
                              {.threads = settings.threads}, annotate_again));
  DTR_TRY(find_steep_functions(
      model.module, graph, model.annotation,
      [&] { return make_model_executor(model.module, graph); }, samples, calibration));
  const auto annotate_apart = [&](const Separations& more) { return model.annotated(more); };
  const auto observe = [&](const Annotation& annotation) -> Result<CalibrationResult> {
    DTR_ASSIGN(const std::unique_ptr<Executor> executor, make_executor());
    return calibrate(model.module, graph, annotation, *executor, samples,
                     {.threads = settings.threads});
  };
  DTR_TRY(separate(graph, model.annotation, calibration, not_finite, annotate_apart, observe));
  return group_quantizations(model.module, graph, model.annotation, calibration, settings.threads);
}

// Notes of nodes that no note is of and that stay float when the export is compiled. Without ranges
// it cannot be compiled yet.
Result<void> note_what_stays_float(QatPrepared& prepared, const Model& model,
                                   const CompileSettings& settings) {
  DTR_ASSIGN(const std::vector<const SourceOp*> found,
             find_float_in_training(model.module, model.annotation, prepared.archive, settings));
  for (const SourceOp* const source : found) {
    const std::string start = fmt::format("`{}` ", source->name);
    if (std::ranges::none_of(prepared.notes,
                             [&](const std::string& note) { return note.starts_with(start); }))
      prepared.notes.push_back(fmt::format(
          "{}({}): it stays float during training, as a value that it reads or computes "
          "inside has no fake quantization",
          start, source->target));
  }
  return {};
}

// An operator of another graph than the program's; null if there is none.
const SourceOp* inner_source(const Module& module) {
  const auto inner = std::ranges::find_if(module.sources, [](const SourceOp& source) {
    return source.name.find('/') != std::string::npos;
  });
  return inner == module.sources.end() ? nullptr : &*inner;
}

}  // namespace

Result<QatPrepared> qat_prepare(Module module, std::span<const std::byte> bytes,
                                const CompileSettings& settings, const Samples* samples) {
  if (is_quantized(module.forward()))
    return fail(DiagnosticId::kQatQuantized, "the model has quantized values already",
                "prepare the float model, before quantization", {.file = module.file});
  DTR_TRY(check_model(module, *settings.target));
  const std::string file = module.file;
  // The editor inserts nodes into the graph of the program, not into those of its operators.
  std::vector<std::byte> flat;
  if (inner_source(module) != nullptr) {
    DTR_ASSIGN(flat, Editor::without_regions(bytes, file));
    if (!flat.empty()) {
      bytes = flat;
      DTR_ASSIGN(module, pt2::parse_pt2(bytes, file));
    }
  }
  if (const SourceOp* const source = inner_source(module))
    return fail(
        DiagnosticId::kPt2ControlFlow,
        fmt::format("`{}` is inside of a branch or loop, which is not prepared", source->name),
        "export without torch.cond, while_loop, scan and map",
        {.file = file, .node = source->name});
  std::vector<std::byte> functional;
  DTR_TRY(spell_in_place(module, bytes, functional));
  if (!functional.empty()) bytes = functional;
  DTR_ASSIGN(Model model, annotate_model(std::move(module), bytes, settings));
  std::vector<std::string> notes;
  DTR_ASSIGN(std::vector<std::byte> spelled, spell_out(model, bytes, notes));
  if (!spelled.empty()) {
    DTR_ASSIGN(Module written, pt2::parse_pt2(spelled, file));
    DTR_ASSIGN(model, annotate_model(std::move(written), spelled, settings));
  }
  Equalization equalization;
  if (settings.equalize) {
    DTR_ASSIGN(equalization, equalize_model(model, spelled, settings, samples));
  }
  std::optional<std::vector<Quantization>> ranges;
  if (samples != nullptr) {
    DTR_ASSIGN(ranges, find_ranges(model, settings, *samples));
  }
  DTR_ASSIGN(QatPrepared prepared,
             Preparation(model.module, model.annotation, ranges ? &*ranges : nullptr,
                         std::move(model.editor), std::move(notes))
                 .run());
  if (ranges) DTR_TRY(note_what_stays_float(prepared, model, settings));
  prepared.equalization = std::move(equalization);
  return prepared;
}

Result<void> check_trainable(FileKind kind, const std::string& file) {
  if (kind != FileKind::kTflite && kind != FileKind::kOnnx && kind != FileKind::kText) return {};
  return fail(DiagnosticId::kQatNotExport,
              fmt::format("the model is {}; only PyTorch can train it", name_of(kind)),
              "give the export of a float PyTorch model (torch.export.save)", {.file = file});
}

}  // namespace dtr
