#include "compiler/ir/op_def.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtr {

const OpDef* find_op(std::string_view name) {
  const auto table = all_ops();
  const auto at = std::lower_bound(table.begin(), table.end(), name, [](const OpDef* def, std::string_view n) { return def->name < n; });
  return at != table.end() && (*at)->name == name ? *at : nullptr;
}

Status verify_op(const OpView& view) {
  constexpr std::string_view kKindNames[] = {"bool", "int", "float", "string", "ints", "floats"};
  const OpDef& def = *view.def;
  const auto invalid = [&](std::string reason) { return fail(DiagnosticId::kIrInvalid, fmt::format("{}: {}", def.name, reason)); };

  if (view.operands.size() < def.min_operands || (def.max_operands != 255 && view.operands.size() > def.max_operands))
    return invalid(fmt::format("{} operands, expected {} to {}", view.operands.size(), def.min_operands, def.max_operands));
  for (size_t i = 0; i < def.min_operands; ++i)
    if (!view.has(i)) return invalid(fmt::format("operand {} is missing", i));
  for (size_t i = 0; i < view.operands.size(); ++i)
    if (view.has(i) && !checked_element_count(view.operand(i).shape))
      return invalid(fmt::format("operand {} has the impossible shape {}", i, to_string(view.operand(i).shape)));
  for (const AttributeDef& expected : def.attributes) {
    const AttributeValue* value = view.attributes->find(expected.name);
    if (value == nullptr) {
      if (expected.required) return invalid(fmt::format("attribute `{}` is missing", expected.name));
    } else if (value->index() != static_cast<size_t>(expected.kind)) {
      return invalid(fmt::format("attribute `{}` is of kind {}, expected {}", expected.name, kKindNames[value->index()],
                                 kKindNames[static_cast<size_t>(expected.kind)]));
    }
  }
  for (const Attributes::Entry& entry : *view.attributes) {
    const bool known =
        std::any_of(def.attributes.begin(), def.attributes.end(), [&](const AttributeDef& a) { return a.name == entry.first; });
    if (!known) return invalid(fmt::format("unknown attribute `{}`", entry.first));
  }
  return def.verify == nullptr ? Status{} : def.verify(view);
}

}  // namespace dtr
