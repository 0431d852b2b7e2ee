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
constexpr Overload kOverloads[] = {{&ops::kConvert, "aten.to.dtype"},
                                   {&ops::kLogSoftmax, "aten.log_softmax.int"},
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
    if (!std::ranges::all_of(ops, [&](OpId op) { return is_spellable_op(op, node, ops); }))
      return false;
    return keeps_parameters(node, ops) &&
           std::ranges::all_of(editor_.results(node), [&](const std::string& name) {
             return name.empty() || !editor_.is_read(name) || makes(node, ops, name);
           });
  }

  // True for a product with a parameter by another operator than aten.linear: the importer has
  // transposed its weight.
  bool is_product(uint32_t node) const {
    const auto found = ops_of_.find(node);
    return found != ops_of_.end() && module_.sources[node].target != "aten.linear.default" &&
           std::ranges::any_of(found->second,
                               [&](OpId op) { return graph_.op(op).def == &ops::kLinear; });
  }

  // The name in the file of a value: a constant, or what is not the result of one node.
  void set_name(ValueId value, const std::string& name) { names_[value] = name; }
  // Of the result of `op`, if a node has it as its result.
  void keep_name(OpId op) {
    const std::vector<uint32_t>& sources = graph_.op(op).origin.sources;
    if (sources.size() != 1) return;
    if (const std::string name = file_name(sources[0], op == ops_of_.at(sources[0]).back(), op);
        !name.empty())
      set_name(graph_.op(op).results[0], name);
  }
  // Empty: the file has no such tensor.
  std::string known_name(ValueId value) const {
    const auto known = names_.find(value);
    return known != names_.end() ? known->second : file_name(value);
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
      names_[op.results[0]] = op.def == &ops::kIndexSelect
                                  ? select(op, node, std::move(arguments), name, editor)
                                  : editor.add_node(node, node, target_of(*op.def), arguments, name,
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

  // index_select of PyTorch takes a list of indices, ours an array: its result has the dimensions
  // of the array in their place.
  std::string select(const Op& op, uint32_t node, Editor::Arguments arguments,
                     const std::string& name, Editor& editor) const {
    const Type& index = graph_.type(op.operands[1]);
    const Value& result = graph_.value(op.results[0]);
    const auto add = [&](std::string_view target, const Editor::Arguments& given,
                         std::string_view as, DType dtype, const Shape& shape) {
      return editor.add_node(node, node, target, given, as, dtype, shape);
    };
    if (index.shape.size() == 1)
      return add(target_of(*op.def), arguments, name, result.type.dtype, result.type.shape);
    const Shape list{index.elements()};
    const auto given = std::ranges::find(arguments, "index", &Editor::Arguments::value_type::first);
    given->second = Name{add("aten.reshape.default",
                             {{"self", given->second}, {"shape", std::vector<int64_t>(list)}},
                             name + "_index", index.dtype, list)};
    Shape shape = graph_.type(op.operands[0]).shape;
    const auto rank = static_cast<int64_t>(shape.size());
    const auto dim = op.attributes.get<int64_t>("dim");
    shape[static_cast<size_t>(dim < 0 ? dim + rank : dim)] = list[0];
    const std::string selected =
        add(target_of(*op.def), arguments, name + "_selected", result.type.dtype, shape);
    return add("aten.reshape.default",
               {{"self", Name{selected}}, {"shape", std::vector<int64_t>(result.type.shape)}}, name,
               result.type.dtype, result.type.shape);
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
    return std::ranges::any_of(ops, [&](OpId op) {
      // Complex numbers are pairs in the graph.
      return file_name(node, op == ops.back(), op) == name &&
             editor_.shape(name) == graph_.type(graph_.op(op).results[0]).shape;
    });
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
    if ((!op.def->name.starts_with("aten.") && op.def != &ops::kConvert) ||
        op.results.size() != 1 || std::ranges::find(kNotSpelled, op.def) != std::end(kNotSpelled))
      return false;
    for (const Param& param : op.def->schema.params()) {
      const AttributeValue* value = param.is_attribute() ? op.attributes.find(param.name) : nullptr;
      // What is behind the bar PyTorch does not know.
      if (value != nullptr && param.own && op.def != &ops::kConvert &&
          *value != param.default_value())
        return false;
    }
    const std::vector<std::string> tensors = editor_.tensors(node);
    return std::ranges::all_of(op.operands, [&](ValueId operand) {
      if (!operand.valid() || graph_.is_constant(operand)) return true;
      const Value& value = graph_.value(operand);
      const OpId producer = graph_.producer(operand);
      if (producer.valid() && std::ranges::find(ops, producer) != ops.end()) return true;
      const std::string name = known_name(operand);
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
            !names_.contains(operand) && !uniform_value(module_, graph_, operand))
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
      if (param.own) continue;
      if (param.is_attribute()) {
        const AttributeValue* value = op.attributes.find(param.name);
        if (param.name == "alpha" && (value == nullptr || *value == param.default_value()))
          continue;
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
    if (op.def == &ops::kConvert) arguments.emplace_back("dtype", graph_.type(op.results[0]).dtype);
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

// Tensors of the file that do not depend on the inputs of a run.
struct FixedTensors {
  std::set<std::string> all, trained;  // parameters and what is computed from them
};

FixedTensors fixed_tensors(const Module& module, const Editor& editor) {
  const Graph& graph = module.forward();
  std::set<std::string> varying;
  for (const ValueId input : graph.inputs()) varying.insert(graph.value(input).name);
  for (size_t i = 0; i < graph.state_count(); ++i)
    varying.insert(editor.buffer(graph.value(graph.state(i)).name));
  FixedTensors fixed;
  for (const std::string& name : editor.parameters()) fixed.trained.insert(name);
  for (uint32_t node = 0; node < module.sources.size(); ++node) {
    const std::vector<std::string> tensors = editor.tensors(node), results = editor.results(node);
    const auto reads = [&](const std::set<std::string>& names) {
      return std::ranges::any_of(tensors, [&](const auto& each) { return names.contains(each); });
    };
    if (reads(varying)) {
      varying.insert(results.begin(), results.end());
    } else if (reads(fixed.trained)) {
      fixed.trained.insert(results.begin(), results.end());
    }
    for (const std::string& name : tensors)
      if (!varying.contains(name)) fixed.all.insert(name);
  }
  return fixed;
}

// Whether the elements of a constant stay as they are: the importer gives the result another name.
bool keeps_order(std::string_view target) {
  constexpr std::string_view kOperators[] = {
      "aten._to_copy.", "aten.clone.",   "aten.contiguous.", "aten.detach.",    "aten.flatten.",
      "aten.reshape.",  "aten.squeeze.", "aten.to.",         "aten.unsqueeze.", "aten.view."};
  return std::ranges::any_of(kOperators,
                             [&](std::string_view each) { return target.starts_with(each); });
}

// Writes what passes have recognized, one after another.
class RecognizedSpeller {
 public:
  // `module` as the importer made it, before the passes.
  RecognizedSpeller(const Module& module, Editor& editor)
      : graph_(module.forward()),
        editor_(editor),
        speller_(module, editor),
        fixed_(fixed_tensors(module, editor)) {
    for (const OpId id : graph_.ops())
      speller_.keep_name(id);  // of what may stand for two nodes after the passes
    for (uint32_t i = 0; i < graph_.value_slots(); ++i)
      if (const Value& value = graph_.value(ValueId{i}); graph_.is_constant(ValueId{i}))
        constants_[value.name] = value.constant;
    // What nodes compute of constants has names of the importer's.
    for (uint32_t node = 0; node < module.sources.size(); ++node)
      for (const std::string& name : editor.results(node)) {
        constants_.erase(name);
        if (module.sources[node].target.starts_with("aten.detach")) detached_.insert(name);
      }
    for (uint32_t node = 0; node < module.sources.size(); ++node) {
      const std::vector<std::string> tensors = editor.tensors(node);
      if (tensors.size() != 1 || !keeps_order(module.sources[node].target)) continue;
      if (const auto known = constants_.find(tensors[0]); known != constants_.end())
        constants_.emplace(editor.result(node), known->second);
    }
  }

  // These ops, which stand for `nodes`. False if PyTorch has no operators for them, or if they do
  // not read each tensor that is trained.
  bool spell(const std::set<uint32_t>& nodes, const std::vector<OpId>& ops) {
    const uint32_t node = *nodes.rbegin();
    // Later ones may read it, whether it is written or not.
    speller_.set_name(graph_.op(ops.back()).results[0], editor_.result(node));
    std::map<ValueId, std::string> names;
    if (!find_names(nodes, ops, names)) return false;
    for (const auto& [value, name] : names) speller_.set_name(value, name);
    if (!speller_.is_spellable(node, ops)) return false;
    for (const auto& [value, name] : names) {
      const Shape& shape = graph_.type(value).shape;
      if (editor_.shape(name) != shape)
        speller_.set_name(value, editor_.add_node(node, node, "aten.reshape.default",
                                                  {{"self", Name{name}}, {"shape", shape}},
                                                  name + "_of_norm", DType::kFloat32, shape));
    }
    for (const OpId op : ops)
      for (const ValueId operand : graph_.op(op).operands)
        if (operand.valid()) read_.insert(speller_.known_name(operand));
    speller_.spell(node, ops, editor_);
    for (auto step = std::next(nodes.rbegin()); step != nodes.rend(); ++step)
      if (std::ranges::none_of(editor_.results(*step), [&](const std::string& name) {
            return editor_.is_read(name) || read_.contains(name);
          }))
        editor_.remove_node(*step);
    return true;
  }

 private:
  // The tensors of the file that the constants of `ops` are. By content, as constants of another
  // shape have other names; the only one that is left may be computed, as 1 + weight.
  bool find_names(const std::set<uint32_t>& nodes, const std::vector<OpId>& ops,
                  std::map<ValueId, std::string>& names) const {
    std::set<std::string> left;
    for (const uint32_t node : nodes)
      for (const std::string& name : editor_.tensors(node)) {
        if (detached_.contains(name)) return false;  // one operator would have its gradient
        if (fixed_.all.contains(name)) left.insert(name);
      }
    std::vector<ValueId> unknown;
    for (const OpId op : ops)
      for (const ValueId operand : graph_.op(op).operands)
        if (operand.valid() && is_float_constant(graph_, operand)) unknown.push_back(operand);
    std::erase_if(unknown, [&](ValueId value) {
      const auto is_it = [&](const std::string& name) {
        const auto known = constants_.find(name);
        return known != constants_.end() && known->second == graph_.value(value).constant;
      };
      if (std::ranges::count_if(left, is_it) != 1) return false;
      const auto found = std::ranges::find_if(left, is_it);
      names[value] = *found;
      left.erase(found);
      return true;
    });
    if (unknown.size() == 1 && left.size() == 1 && !constants_.contains(*left.begin()) &&
        element_count(editor_.shape(*left.begin())) == graph_.type(unknown[0]).elements()) {
      names[unknown[0]] = *left.begin();
      return true;
    }
    return unknown.empty() && std::ranges::none_of(left, [&](const std::string& name) {
             return fixed_.trained.contains(name);
           });
  }

  const Graph& graph_;
  Editor& editor_;
  Speller speller_;
  FixedTensors fixed_;
  std::map<std::string, ConstantId> constants_;  // by name, as imported
  std::set<std::string> detached_;
  std::set<std::string> read_;  // by what was added
};

// Tells of a normalization that is trained as the steps that it was written as.
void note_steps(const Module& module, uint32_t node, const std::vector<OpId>& ops,
                std::vector<std::string>& notes) {
  for (const OpId op : ops) {
    const OpDef* const def = module.forward().op(op).def;
    if (def != &ops::kLayerNorm && def != &ops::kRmsNorm && def != &ops::kSoftmax) continue;
    const std::string_view name = def->name.substr(def->name.find('.') + 1);
    notes.push_back(fmt::format(
        "`{}` ({}): the {} that ends here is trained step by step, each step in int8 for itself, "
        "where compile --calibrate finds one operator; write it as torch.nn.functional.{}",
        module.sources[node].name, module.sources[node].target, name, name));
  }
}

}  // namespace

std::set<uint32_t> spellable_nodes(const Module& module, const Editor& editor,
                                   const std::set<uint32_t>& wanted) {
  const Speller speller(module, editor);
  std::set<uint32_t> nodes;
  for (uint32_t node = 0; node < module.sources.size(); ++node)
    if ((wanted.contains(node) || speller.is_product(node)) && speller.is_spellable(node))
      nodes.insert(node);
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
    if (added.size() > 1 && speller.is_spellable(node, added)) {
      speller.spell(node, added, editor);
      // Where rows without a score are made zero behind the softmax, the mask does that.
      if (last != node) editor.replace_uses(editor.result(last), editor.result(node));
      ++count;
    }
    added.clear();
  }
  return count;
}

Result<size_t> spell_recognized(Module& module, Editor& editor, bool merge,
                                std::vector<std::string>& notes) {
  Graph& graph = module.forward();
  RecognizedSpeller speller(module, editor);
  const size_t slots = graph.op_slots();
  if (merge) {
    Remarks remarks;
    DTR_TRY(passes::kMergeCommonSubexpressions.run(module, graph, remarks));
  }
  DTR_TRY(run_pipeline(module, graph, recognition_pipeline()));
  notes.clear();
  size_t count = 0;
  std::set<uint32_t> nodes;
  std::vector<OpId> ops;  // that stand for them
  const auto finish = [&] {
    if (ops.empty()) return;
    if (speller.spell(nodes, ops)) {
      ++count;
    } else {
      note_steps(module, *nodes.rbegin(), ops, notes);
    }
    nodes.clear();
    ops.clear();
  };
  for (const OpId id : graph.ops()) {
    if (id.index < slots) continue;
    const std::vector<uint32_t>& sources = graph.op(id).origin.sources;
    if (std::ranges::none_of(sources, [&](uint32_t source) { return nodes.contains(source); }))
      finish();
    nodes.insert(sources.begin(), sources.end());
    ops.push_back(id);
  }
  finish();
  return count;
}

}  // namespace dtr
