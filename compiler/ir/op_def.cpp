#include "compiler/ir/op_def.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtr {

const OpDef* find_op(std::string_view name) {
  const auto table = all_ops();
  const auto at =
      std::lower_bound(table.begin(), table.end(), name,
                       [](const OpDef* def, std::string_view n) { return def->name < n; });
  return at != table.end() && (*at)->name == name ? *at : nullptr;
}

std::optional<AttributeValue> Param::default_value() const {
  if (!has_default) return std::nullopt;
  switch (kind) {
    case AttributeKind::kBool:
      return AttributeValue(number != 0);
    case AttributeKind::kInt:
      return AttributeValue(static_cast<int64_t>(number));
    case AttributeKind::kString:
      return AttributeValue(std::string(text));
    default:
      return AttributeValue(number);
  }
}

std::string torch_target(const OpDef& def) {
  const bool has_overload = def.name.find('.') != def.name.rfind('.');
  return std::string(def.name) + (has_overload ? "" : ".default");
}

std::string kernel_name(const OpDef& def) {
  if (!def.kernel.empty()) return std::string(def.kernel);
  const std::string_view plain =
      def.name.ends_with(".Tensor") ? def.name.substr(0, def.name.rfind('.')) : def.name;
  const size_t dot = plain.find('.');
  return dot == std::string_view::npos
             ? std::string(plain)
             : fmt::format("{}::{}.out", plain.substr(0, dot), plain.substr(dot + 1));
}

Result<void> verify_op(const OpView& view) {
  constexpr std::string_view kKindNames[] = {"bool", "int", "float", "string", "ints", "floats"};
  const OpDef& def = *view.def;
  const auto invalid = [&](std::string reason) {
    return fail(DiagnosticId::kIrInvalid, fmt::format("{}: {}", def.name, reason));
  };

  const size_t least = def.schema.min_operands(), most = def.schema.max_operands();
  if (view.operands.size() < least || (most != Schema::kAnyNumber && view.operands.size() > most))
    return invalid(
        fmt::format("{} operands, expected {} to {}", view.operands.size(), least, most));
  for (size_t i = 0; i < least; ++i)
    if (!view.has(i)) return invalid(fmt::format("operand {} is missing", i));
  for (size_t i = 0; i < view.operands.size(); ++i)
    if (view.has(i) && !checked_element_count(view.operand(i).shape))
      return invalid(fmt::format("operand {} has the impossible shape {}", i,
                                 to_string(view.operand(i).shape)));
  for (const Param& expected : def.schema.params()) {
    if (!expected.is_attribute()) continue;
    const AttributeValue* value = view.attributes->find(expected.name);
    if (value == nullptr) {
      if (!expected.optional)
        return invalid(fmt::format("attribute `{}` is missing", expected.name));
    } else if (value->index() != static_cast<size_t>(expected.kind)) {
      return invalid(fmt::format("attribute `{}` is of kind {}, expected {}", expected.name,
                                 kKindNames[value->index()],
                                 kKindNames[static_cast<size_t>(expected.kind)]));
    }
  }
  for (const Attributes::Entry& entry : *view.attributes)
    if (def.schema.attribute(entry.first) == nullptr)
      return invalid(fmt::format("unknown attribute `{}`", entry.first));
  return def.verify == nullptr ? Result<void>{} : def.verify(view);
}

}  // namespace dtr
