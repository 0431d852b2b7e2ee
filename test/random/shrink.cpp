#include "test/random/shrink.h"

#include <map>
#include <optional>

#include "compiler/ir/rewriter.h"
#include "compiler/ir/verifier.h"

namespace dtr::test {
namespace {

// What a smaller graph puts in the place of values; those that are not there stay as they are.
using Replacements = std::map<ValueId, std::optional<ValueId>>;  // nullopt: a new input

// Copies what `outputs` need, with some values replaced.
class Copy {
 public:
  Copy(const Module& from, const Replacements& replacements)
      : from_(from.forward()), constants_(from.constants), replacements_(replacements) {
    to_.file = from.file;
    to_.sources = from.sources;
    to_.graphs.emplace_back();
  }

  // nullopt: an op does not take its new operands.
  std::optional<Module> make(const std::vector<ValueId>& outputs) {
    Rewriter rewriter(to_.forward());
    std::vector<ValueId> made;
    for (const ValueId output : outputs) {
      const std::optional<ValueId> value = copy(rewriter, output);
      if (!value || to_.forward().value(*value).kind != ValueKind::kResult) return std::nullopt;
      made.push_back(*value);
    }
    rewriter.set_outputs(made);
    // Those in the place of outputs lie as these did; a single one of several as it did among them.
    const std::vector<ValueId>& before = from_.outputs();
    const auto alone = static_cast<size_t>(std::ranges::find(before, outputs[0]) - before.begin());
    for (size_t i = 0; i < outputs.size(); ++i)
      rewriter.set_output_layout(i,
                                 from_.output_layout(outputs.size() == before.size() ? i : alone));
    if (!verify(to_)) return std::nullopt;
    return std::move(to_);
  }

 private:
  std::optional<ValueId> copy(Rewriter& rewriter, ValueId id) {
    if (const auto at = made_.find(id); at != made_.end()) return at->second;
    const Value& value = from_.value(id);
    const auto replaced = replacements_.find(id);
    std::optional<ValueId> result;
    if (replaced != replacements_.end() && replaced->second) {
      result = copy(rewriter, *replaced->second);
    } else if (replaced != replacements_.end() || value.kind == ValueKind::kInput) {
      result = rewriter.add_input(value.type, value.name);
    } else if (value.kind == ValueKind::kConstant) {
      const ConstantId constant =
          to_.constants.add(constants_.dtype(value.constant), constants_.bytes(value.constant));
      result = rewriter.add_constant(value.type, constant, value.name);
    } else {
      const Op& op = from_.op(value.producer);
      OpSpec spec{.def = op.def,
                  .attributes = op.attributes,
                  .origin = op.origin,
                  .name = value.name,
                  .quantization = value.type.quantization};
      for (const ValueId operand : op.operands) {
        if (!operand.valid()) {
          spec.operands.push_back(operand);
          continue;
        }
        const std::optional<ValueId> made = copy(rewriter, operand);
        if (!made) return std::nullopt;
        spec.operands.push_back(*made);
      }
      if (const Result<OpId> made = rewriter.insert({}, std::move(spec))) {
        result = to_.forward().op(*made).results[value.result];
        rewriter.set_layout(*result, value.type.layout);
      }
    }
    if (result) made_[id] = *result;
    return result;
  }

  const Graph& from_;
  const ConstantPool& constants_;
  const Replacements& replacements_;
  Module to_;
  std::map<ValueId, ValueId> made_;
};

std::optional<Module> with(const Module& module, const Replacements& replacements,
                           const std::vector<ValueId>& outputs) {
  return Copy(module, replacements).make(outputs);
}

// The first smaller graph that fails.
std::optional<Module> smaller(const Module& module, const std::function<bool(Module&)>& fails) {
  const Graph& graph = module.forward();
  const auto good = [&](std::optional<Module>& candidate) {
    return candidate && fails(*candidate);
  };
  if (graph.outputs().size() > 1)
    for (const ValueId output : graph.outputs())
      if (std::optional<Module> candidate = with(module, {}, {output}); good(candidate))
        return candidate;
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    for (const ValueId result : op.results) {
      // The operands themselves as outputs: the op is not needed.
      if (graph.value(result).output_uses > 0)
        for (const ValueId operand : op.operands)
          if (operand.valid() && graph.value(operand).kind == ValueKind::kResult) {
            std::vector<ValueId> outputs = graph.outputs();
            for (ValueId& output : outputs)
              if (output == result) output = operand;
            if (std::optional<Module> candidate = with(module, {}, outputs); good(candidate))
              return candidate;
          }
      if (graph.value(result).uses.empty()) continue;
      for (const ValueId operand : op.operands)
        if (operand.valid() && graph.type(operand) == graph.type(result))
          if (std::optional<Module> candidate = with(module, {{result, operand}}, graph.outputs());
              good(candidate))
            return candidate;
      if (std::optional<Module> candidate = with(module, {{result, std::nullopt}}, graph.outputs());
          candidate && candidate->forward().op_count() < graph.op_count() && fails(*candidate))
        return candidate;
    }
  }
  return std::nullopt;
}

}  // namespace

Module shrink(Module module, const std::function<bool(Module&)>& fails) {
  // A copy without what nobody needs, if it fails as well.
  std::optional<Module> smallest = with(module, {}, module.forward().outputs());
  if (!smallest || !fails(*smallest)) return module;
  while (std::optional<Module> next = smaller(*smallest, fails)) smallest = std::move(next);
  return std::move(*smallest);
}

}  // namespace dtr::test
