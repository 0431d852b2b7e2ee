#include "compiler/ir/rewriter.h"

#include <algorithm>

namespace dtr {
namespace {

// Result types from operand types: `infer` of the op, then the quantization rules of OpSpec.
Result<std::vector<Type>> infer_types(const OpView& view,
                                      const std::optional<Quantization>& wanted) {
  DTR_TRY(verify_op(view));
  std::vector<Type> types = view.def->infer(view);
  for (Type& type : types) {
    if (wanted) {
      type.quantization = wanted;
    } else if ((view.def->has_trait(kMovesData) || view.def->has_trait(kKeepsQuantization)) &&
               view.has(0)) {
      type.quantization = view.operand(0).quantization;
    } else {
      type.quantization.reset();
      if (view.has(0) && view.operand(0).quantized() && type.dtype == DType::kInt8)
        return fail(DiagnosticId::kIrInvalid,
                    std::string(view.def->name) +
                        " on quantized operands needs a quantization for its result");
    }
  }
  return types;
}

}  // namespace

std::string Rewriter::unique_name(std::string_view wanted) {
  std::string base;
  for (const char c : wanted)
    base += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' ? c : '_';
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0])) != 0 || base[0] == '.')
    base = "_" + base;
  if (graph_.names_.insert(base).second) return base;
  uint32_t& suffix = graph_.next_suffix_[base];
  for (;;) {
    std::string name = base + "_" + std::to_string(++suffix);
    if (graph_.names_.insert(name).second) return name;
  }
}

ValueId Rewriter::add_value(Value value) {
  const ValueId id{static_cast<uint32_t>(graph_.values_.size())};
  value.name = unique_name(value.name);
  graph_.values_.push_back(std::move(value));
  return id;
}

ValueId Rewriter::add_state(Type type, ConstantId initial, std::string_view name) {
  const ValueId id =
      add_value({.type = std::move(type), .name = std::string(name), .kind = ValueKind::kInput});
  graph_.inputs_.push_back(id);
  graph_.initial_states_.push_back(initial);
  return id;
}

ValueId Rewriter::add_input(Type type, std::string_view name) {
  DTR_CHECK(graph_.initial_states_.empty());  // states are the last inputs
  const ValueId id =
      add_value({.type = std::move(type), .name = std::string(name), .kind = ValueKind::kInput});
  graph_.inputs_.push_back(id);
  return id;
}

ValueId Rewriter::add_constant(Type type, ConstantId constant, std::string_view name) {
  return add_value({.type = std::move(type),
                    .name = std::string(name),
                    .kind = ValueKind::kConstant,
                    .constant = constant});
}

void Rewriter::set_outputs(std::vector<ValueId> outputs) {
  for (const ValueId id : graph_.outputs_) --graph_.values_[id.index].output_uses;
  if (outputs.size() != graph_.outputs_.size())
    graph_.output_layouts_.assign(outputs.size(), Layout::kContiguous);
  graph_.outputs_ = std::move(outputs);
  for (const ValueId id : graph_.outputs_) ++graph_.values_[id.index].output_uses;
}

Result<OpId> Rewriter::insert(OpId before, OpSpec spec) {
  std::vector<const Type*> operand_types;
  for (const ValueId operand : spec.operands)
    operand_types.push_back(operand.valid() ? &graph_.type(operand) : nullptr);
  const OpView view{spec.def, operand_types, &spec.attributes, {}};
  DTR_ASSIGN(std::vector<Type> types, infer_types(view, spec.quantization));

  const OpId id{static_cast<uint32_t>(graph_.ops_.size())};
  const std::string_view full = spec.def->name;
  const std::string base =
      spec.name.empty() ? std::string(full.substr(full.rfind('.') + 1)) : std::move(spec.name);
  Op op{.def = spec.def,
        .operands = std::move(spec.operands),
        .attributes = std::move(spec.attributes),
        .origin = std::move(spec.origin)};
  for (size_t i = 0; i < types.size(); ++i) {
    Value value{.type = std::move(types[i]),
                .name = base,
                .kind = ValueKind::kResult,
                .producer = id,
                .result = static_cast<uint32_t>(i)};
    op.results.push_back(add_value(std::move(value)));
  }
  op.use_slots.resize(op.operands.size());
  graph_.ops_.push_back(std::move(op));
  for (size_t i = 0; i < graph_.op(id).operands.size(); ++i)
    if (const ValueId operand = graph_.op(id).operands[i]; operand.valid())
      add_use(operand, {id, static_cast<uint32_t>(i)});
  link(id, before);
  return id;
}

Result<ValueId> Rewriter::insert_value(OpId before, OpSpec spec) {
  DTR_ASSIGN(const OpId op, insert(before, std::move(spec)));
  DTR_CHECK(graph_.op(op).results.size() == 1);
  return graph_.op(op).results.front();
}

void Rewriter::add_use(ValueId value, Use use) {
  std::vector<Use>& uses = graph_.values_[value.index].uses;
  graph_.ops_[use.op.index].use_slots[use.operand] = static_cast<uint32_t>(uses.size());
  uses.push_back(use);
}

void Rewriter::remove_use(ValueId value, Use use) {
  std::vector<Use>& uses = graph_.values_[value.index].uses;
  const uint32_t slot = graph_.op(use.op).use_slots[use.operand];
  DTR_CHECK(slot < uses.size() && uses[slot] == use);
  const Use last = uses.back();
  uses[slot] = last;
  graph_.ops_[last.op.index].use_slots[last.operand] = slot;
  uses.pop_back();
}

void Rewriter::link(OpId id, OpId before) {
  const OpId after = before.valid() ? graph_.op(before).previous : graph_.last_;
  graph_.ops_[id.index].previous = after;
  graph_.ops_[id.index].next = before;
  (after.valid() ? graph_.ops_[after.index].next : graph_.first_) = id;
  (before.valid() ? graph_.ops_[before.index].previous : graph_.last_) = id;
  ++graph_.live_ops_;
}

void Rewriter::unlink(OpId id) {
  const Op& op = graph_.op(id);
  (op.previous.valid() ? graph_.ops_[op.previous.index].next : graph_.first_) = op.next;
  (op.next.valid() ? graph_.ops_[op.next.index].previous : graph_.last_) = op.previous;
  --graph_.live_ops_;
}

void Rewriter::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  DTR_CHECK(graph_.type(from).shape == graph_.type(to).shape &&
            graph_.type(from).dtype == graph_.type(to).dtype);
  Value& source = graph_.values_[from.index];
  Value& target = graph_.values_[to.index];
  for (const Use& use : source.uses) {
    graph_.ops_[use.op.index].operands[use.operand] = to;
    add_use(to, use);
  }
  source.uses.clear();
  if (source.output_uses == 0) return;
  for (ValueId& output : graph_.outputs_)
    if (output == from) output = to;
  target.output_uses += std::exchange(source.output_uses, 0);
}

void Rewriter::set_operand(OpId op, size_t index, ValueId value) {
  Op& target = graph_.ops_[op.index];
  DTR_CHECK(index < target.operands.size() || index < target.def->schema.max_operands());
  if (index >= target.operands.size()) {
    target.operands.resize(index + 1);
    target.use_slots.resize(index + 1);
  }
  ValueId& operand = target.operands[index];
  const Use use{op, static_cast<uint32_t>(index)};
  if (operand.valid()) remove_use(operand, use);
  operand = value;
  if (value.valid()) add_use(value, use);
}

void Rewriter::set_attribute(OpId op, std::string_view name, AttributeValue value) {
  graph_.ops_[op.index].attributes.set(name, std::move(value));
}
void Rewriter::erase_attribute(OpId op, std::string_view name) {
  graph_.ops_[op.index].attributes.erase(name);
}
void Rewriter::set_origin(OpId op, Origin origin) {
  graph_.ops_[op.index].origin = std::move(origin);
}

void Rewriter::erase(OpId id) {
  Op& op = graph_.ops_[id.index];
  DTR_CHECK(!op.erased);
  for (const ValueId result : op.results) {
    DTR_CHECK(graph_.value(result).unused());
    graph_.values_[result.index].erased = true;
    graph_.names_.erase(graph_.value(result).name);
  }
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (op.operands[i].valid()) remove_use(op.operands[i], {id, static_cast<uint32_t>(i)});
  unlink(id);
  op.erased = true;
}

void Rewriter::replace(OpId op, ValueId with) {
  DTR_CHECK(graph_.op(op).results.size() == 1);
  replace_uses(graph_.op(op).results.front(), with);
  erase(op);
}

void Rewriter::move_before(OpId op, OpId before) {
  if (op == before) return;
  unlink(op);
  link(op, before);
}

void Rewriter::set_quantization(ValueId value, std::optional<Quantization> quantization) {
  graph_.values_[value.index].type.quantization = std::move(quantization);
}
void Rewriter::set_layout(ValueId value, Layout layout) {
  graph_.values_[value.index].type.layout = layout;
}
void Rewriter::set_element_type(ValueId value, DType dtype,
                                std::optional<Quantization> quantization) {
  graph_.values_[value.index].type.dtype = dtype;
  set_quantization(value, std::move(quantization));
}

void Rewriter::rename(ValueId value, std::string_view name) {
  graph_.names_.erase(graph_.value(value).name);
  graph_.values_[value.index].name = unique_name(name);
}

Result<void> Rewriter::refresh(OpId id) {
  const BoundOpView bound(graph_, id);
  DTR_TRY(verify_op(*bound));
  const std::vector<Type> types = bound->def->infer(*bound);
  const Op& op = graph_.op(id);
  DTR_CHECK(types.size() == op.results.size());
  for (size_t i = 0; i < types.size(); ++i) {
    Type& type = graph_.values_[op.results[i].index].type;
    type.dtype = types[i].dtype;
    type.shape = types[i].shape;
  }
  return {};
}

}  // namespace dtr
