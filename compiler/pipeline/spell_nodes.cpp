#include "compiler/pipeline/spell_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "compiler/ops/ops.h"
#include "compiler/transforms/edit.h"
#include "compiler/transforms/pass_manager.h"
#include "compiler/transforms/pipelines.h"

namespace dtr {
namespace {

using Editor = pt2::ExportEditor;
using Name = Editor::Name;

// Operators whose overload is another than the one of their name.
struct Overload {
  const OpDef* op;
  std::string_view target;
};
constexpr Overload kOverloads[] = {{&ops::kLogSoftmax, "aten.log_softmax.int"},
                                   {&ops::kMaskedFill, "aten.masked_fill.Scalar"},
                                   {&ops::kSoftmax, "aten.softmax.int"},
                                   {&ops::kView, "aten.reshape.default"}};
// Operators whose arguments are those of another operator than the one of their name.
constexpr const OpDef* kNotSpelled[] = {&ops::kAdaptiveMaxPool2d, &ops::kBatchNorm, &ops::kIndexPut,
                                        &ops::kPrelu, &ops::kSoftsign};

class Speller {
 public:
  Speller(const Module& module, const Editor& editor)
      : module_(module), graph_(module.forward()), editor_(editor) {
    for (const OpId op : graph_.ops()) {
      const std::vector<uint32_t>& sources = graph_.op(op).origin.sources;
      if (sources.size() == 1) ops_of_[sources[0]].push_back(op);
    }
  }

  bool is_spellable(uint32_t node) const {
    const auto found = ops_of_.find(node);
    return found != ops_of_.end() && is_spellable(node, found->second);
  }
  bool is_spellable(uint32_t node, const std::vector<OpId>& ops) const {
    if (ops.size() < 2) return false;
    if (!std::ranges::all_of(ops, [&](OpId op) { return is_spellable_op(op, node, ops); }))
      return false;
    return keeps_parameters(node, ops) &&
           std::ranges::all_of(editor_.results(node), [&](const std::string& name) {
             return name.empty() || !editor_.is_read(name) || makes(node, ops, name);
           });
  }

  void spell(uint32_t node, Editor& editor) { spell(node, ops_of_.at(node), editor); }

  // These ops in place of the node.
  void spell(uint32_t node, const std::vector<OpId>& ops, Editor& editor) {
    const std::vector<std::string> tensors = editor.tensors(node);
    editor.remove_node(node);
    for (const OpId id : ops) {
      const Op& op = graph_.op(id);
      const Value& result = graph_.value(op.results[0]);
      std::string name = file_name(node, id == ops.back(), id);
      if (name.empty() && result.unused()) continue;
      if (name.empty())
        name = fmt::format("{}_{}", module_.sources[node].name, short_name(*op.def));
      Editor::Arguments arguments = arguments_of(op, node, tensors, editor);
      if (op.def == &ops::kSoftmax && op.operands.size() > 1)
        arguments[0].second = Name{excluded(op, node, tensors, editor)};
      names_[op.results[0]] = editor.add_node(node, node, target_of(*op.def), arguments, name,
                                              result.type.dtype, result.type.shape);
    }
  }

 private:
  static std::string target_of(const OpDef& def) {
    for (const Overload& overload : kOverloads)
      if (overload.op == &def) return std::string(overload.target);
    return torch_target(def);
  }

  // "softmax" of "aten.softmax".
  static std::string_view short_name(const OpDef& def) {
    const std::string_view name = def.name.substr(def.name.find('.') + 1);
    return name.substr(0, name.find('.'));
  }

  // The name in the file of what an op of a node makes; empty: none. A constant of the graph may
  // have taken the name of a single result, which is that of the last op.
  std::string file_name(uint32_t node, bool is_last, OpId op) const {
    const std::vector<std::string> results = editor_.results(node);
    if (results.size() == 1) return is_last ? results[0] : std::string();
    const std::string& name = graph_.value(graph_.op(op).results[0]).name;
    return std::ranges::find(results, name) != results.end() ? name : std::string();
  }
  bool makes(uint32_t node, const std::vector<OpId>& ops, const std::string& name) const {
    return std::ranges::any_of(
        ops, [&](OpId op) { return file_name(node, op == ops.back(), op) == name; });
  }
  // The name in the file of what a node of its own or an input is; empty: none.
  std::string file_name(ValueId value) const {
    const OpId producer = graph_.producer(value);
    if (!producer.valid()) return graph_.value(value).name;
    const std::vector<uint32_t>& sources = graph_.op(producer).origin.sources;
    return sources.size() == 1 ? file_name(sources[0], true, producer) : std::string();
  }

  bool is_spellable_op(OpId id, uint32_t node, const std::vector<OpId>& ops) const {
    const Op& op = graph_.op(id);
    if (!op.def->name.starts_with("aten.") || op.results.size() != 1 ||
        std::ranges::find(kNotSpelled, op.def) != std::end(kNotSpelled))
      return false;
    for (const Param& param : op.def->schema.params()) {
      const AttributeValue* value = param.is_attribute() ? op.attributes.find(param.name) : nullptr;
      // PyTorch takes alpha by name only; what is behind the bar it does not know.
      if (value != nullptr && (param.own || param.name == "alpha") &&
          *value != param.default_value())
        return false;
    }
    const std::vector<std::string> tensors = editor_.tensors(node);
    return std::ranges::all_of(op.operands, [&](ValueId operand) {
      if (!operand.valid() || graph_.is_constant(operand)) return true;
      const Value& value = graph_.value(operand);
      const OpId producer = graph_.producer(operand);
      if (producer.valid() && std::ranges::find(ops, producer) != ops.end()) return true;
      const std::string name = file_name(operand);
      return editor_.has(name) && editor_.shape(name) == value.type.shape;
    });
  }

  // False if the ops read floats that the importer computed, perhaps of a parameter that they do
  // not read itself: training would no longer reach that parameter.
  bool keeps_parameters(uint32_t node, const std::vector<OpId>& ops) const {
    const std::vector<std::string> tensors = editor_.tensors(node);
    const std::set<std::string> given(tensors.begin(), tensors.end());
    std::set<std::string> unread = given;
    bool computed = false;
    for (const OpId op : ops)
      for (const ValueId operand : graph_.op(op).operands) {
        if (!operand.valid()) continue;
        const Value& value = graph_.value(operand);
        unread.erase(value.name);
        if (is_float_constant(graph_, operand) && !given.contains(value.name) &&
            !uniform_value(module_, graph_, operand))
          computed = true;
      }
    return !computed || unread.empty();
  }

  std::string name_of(ValueId value, uint32_t node, const std::vector<std::string>& tensors,
                      Editor& editor) {
    if (const auto known = names_.find(value); known != names_.end()) return known->second;
    const Value& v = graph_.value(value);
    // The graph may have given the name of a result to another value.
    if (!graph_.is_constant(value)) return file_name(value);
    if (std::ranges::find(tensors, v.name) != tensors.end() && editor.shape(v.name) == v.type.shape)
      return v.name;
    // Not a buffer, whose shape would tie what was trained in batches to their size: the first
    // state of a recurrence is zeros for each sample.
    if (const auto uniform =
            v.type.dtype == DType::kFloat32 ? uniform_value(module_, graph_, value) : std::nullopt)
      return names_[value] = editor.add_node(node, node, "aten.full.default",
                                             {{"size", v.type.shape}, {"fill_value", *uniform}},
                                             module_.sources[node].name + "_constant", v.type.dtype,
                                             v.type.shape);
    return names_[value] = editor.add_buffer(
               fmt::format("quantization.{}.constant{}", module_.sources[node].name, constants_++),
               Tensor::copy_of(v.type.dtype, v.type.shape, module_.constants.bytes(v.constant)));
  }

  // PyTorch's arguments in order. What is absent is None, so that later ones keep their place.
  Editor::Arguments arguments_of(const Op& op, uint32_t node,
                                 const std::vector<std::string>& tensors, Editor& editor) {
    Editor::Arguments arguments;
    size_t next = 0;
    for (const Param& param : op.def->schema.params()) {
      if (param.own || param.name == "alpha") continue;
      if (param.is_attribute()) {
        const AttributeValue* value = op.attributes.find(param.name);
        const std::optional<AttributeValue> otherwise = param.default_value();
        if (value == nullptr && otherwise) value = &*otherwise;
        // PyTorch's reshape calls the size a shape.
        const std::string_view name =
            op.def == &ops::kView && param.name == "size" ? "shape" : param.name;
        arguments.emplace_back(name, Editor::Argument());
        if (value != nullptr)
          std::visit([&](const auto& each) { arguments.back().second = each; }, *value);
      } else if (param.is_operand() && param.variadic) {
        std::vector<Name> names;
        for (; next < op.operands.size(); ++next)
          names.push_back({name_of(op.operands[next], node, tensors, editor)});
        arguments.emplace_back(param.name, std::move(names));
      } else if (param.is_operand()) {
        const ValueId operand = next < op.operands.size() ? op.operands[next] : ValueId{};
        arguments.emplace_back(param.name, Editor::Argument());
        if (const auto number = number_of(op, next)) {
          arguments.back().second = *number;
        } else if (operand.valid()) {
          arguments.back().second = Name{name_of(operand, node, tensors, editor)};
        }
        ++next;
      }
    }
    return arguments;
  }

  // The second operand of arithmetic, where it is one number that the importer made.
  std::optional<double> number_of(const Op& op, size_t operand) const {
    constexpr const OpDef* kArithmetic[] = {&ops::kAddTensor, &ops::kSubTensor, &ops::kMulTensor,
                                            &ops::kDivTensor};
    if (operand != 1 || std::ranges::find(kArithmetic, op.def) == std::end(kArithmetic) ||
        graph_.type(op.operands[1]).rank() != 0)
      return std::nullopt;
    return uniform_value(module_, graph_, op.operands[1]);
  }

  // The scores of a softmax with −∞ where its mask is false.
  std::string excluded(const Op& op, uint32_t node, const std::vector<std::string>& tensors,
                       Editor& editor) {
    const Value& scores = graph_.value(op.operands[0]);
    const std::string mask = name_of(op.operands[1], node, tensors, editor);
    const std::string prefix = module_.sources[node].name;
    const std::string out =
        editor.add_node(node, node, "aten.logical_not.default", {{"self", Name{mask}}},
                        prefix + "_excluded", DType::kBool, graph_.type(op.operands[1]).shape);
    return editor.add_node(node, node, "aten.masked_fill.Scalar",
                           {{"self", Name{name_of(op.operands[0], node, tensors, editor)}},
                            {"mask", Name{out}},
                            {"value", -std::numeric_limits<double>::infinity()}},
                           prefix + "_masked", scores.type.dtype, scores.type.shape);
  }

  const Module& module_;
  const Graph& graph_;
  const Editor& editor_;
  std::map<uint32_t, std::vector<OpId>> ops_of_;  // by node, in program order
  std::map<ValueId, std::string> names_;          // of what was added
  size_t constants_ = 0;
};

}  // namespace

std::set<uint32_t> spellable_nodes(const Module& module, const Editor& editor,
                                   const std::set<uint32_t>& wanted) {
  const Speller speller(module, editor);
  std::set<uint32_t> nodes;
  std::ranges::copy_if(wanted, std::inserter(nodes, nodes.end()),
                       [&](uint32_t node) { return speller.is_spellable(node); });
  return nodes;
}

void spell_nodes(const Module& module, Editor& editor, const std::set<uint32_t>& nodes) {
  Speller speller(module, editor);
  for (const uint32_t node : nodes) speller.spell(node, editor);
}

Result<size_t> spell_masks(Module& module, Editor& editor) {
  Graph& graph = module.forward();
  std::map<OpId, std::vector<ValueId>> operands;  // of the softmaxes
  std::map<OpId, uint32_t> nodes;
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    if (op.def != &ops::kSoftmax || op.origin.sources.size() != 1) continue;
    operands[id] = op.operands;
    nodes[id] = op.origin.sources[0];
  }
  if (nodes.empty()) return 0;
  const size_t slots = graph.op_slots();
  DTR_TRY(run_pipeline(module, graph, masks_pipeline()));
  Speller speller(module, editor);
  std::vector<OpId> added;  // since the last softmax, for the next
  size_t count = 0;
  for (const OpId id : graph.ops()) {
    if (id.index >= slots) added.push_back(id);
    const auto before = operands.find(id);
    if (before == operands.end() || before->second == graph.op(id).operands) continue;
    added.push_back(id);
    const uint32_t node = nodes.at(id), last = graph.op(id).origin.sources.back();
    if (speller.is_spellable(node, added)) {
      speller.spell(node, added, editor);
      // Where rows without a score are made zero behind the softmax, the mask does that.
      if (last != node) editor.replace_uses(editor.result(last), editor.result(node));
      ++count;
    }
    added.clear();
  }
  return count;
}

}  // namespace dtr
