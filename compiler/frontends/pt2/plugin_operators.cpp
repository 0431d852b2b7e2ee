// Operators that only a plug-in knows, such as those of torch.library.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontends/pt2/operators.h"
#include "compiler/ops/custom.h"

namespace dtr::pt2 {
namespace {

// An argument that is no tensor, as an option of the kernel.
Result<std::optional<AttributeValue>> option_of(const NodeImport& node, std::string_view name,
                                                const Argument& argument) {
  using Option = std::optional<AttributeValue>;
  if (std::holds_alternative<std::monostate>(argument)) return Option();
  if (const auto* truth = std::get_if<bool>(&argument)) return Option(*truth);
  if (const auto* whole = std::get_if<int64_t>(&argument)) return Option(*whole);
  if (const auto* real = std::get_if<double>(&argument)) return Option(*real);
  if (const auto* text = std::get_if<std::string_view>(&argument))
    return Option(std::string(*text));
  if (const auto* integers = std::get_if<Ints>(&argument)) return Option(*integers);
  if (const auto* reals = std::get_if<Floats>(&argument)) return Option(*reals);
  if (const auto* dtype = std::get_if<ScalarType>(&argument))
    return Option(std::string(scalar_type_name(dtype->number)));
  return node.unsupported(
      fmt::format("the argument `{}` is of a kind that a plug-in's kernel does not get", name),
      "leave the argument at its default, or give the operator another one");
}

}  // namespace

std::string plugin_kernel_name(std::string_view target) {
  const size_t space = std::min(target.find('.'), target.size());
  const size_t end = std::max(space, std::min(target.rfind('.'), target.size()));
  const std::string_view name =
      space == target.size() ? target : target.substr(space + 1, end - std::min(end, space + 1));
  const std::string_view overload =
      end + 1 < target.size() && end != space ? target.substr(end + 1) : "default";
  return fmt::format("{}::{}.{}", target.substr(0, space), name,
                     overload == "default" ? "out" : fmt::format("{}_out", overload));
}

Result<Values> plugin_operator(NodeImport& node) {
  Values operands;
  std::vector<ops::CustomOption> options;
  for (const auto& [name, argument] : node.node().inputs) {
    Values given;
    if (std::holds_alternative<TensorName>(argument)) {
      DTR_ASSIGN(const ValueId value, node.optional_tensor(name));
      if (value.valid())
        given.push_back(value);
      else
        options.emplace_back(name, std::nullopt);
    } else if (const auto* list = std::get_if<std::vector<TensorName>>(&argument)) {
      if (!list->empty()) {
        DTR_ASSIGN(given, node.tensors(name));
      }
      options.emplace_back(name, static_cast<int64_t>(list->size()));
    } else {
      DTR_ASSIGN(std::optional<AttributeValue> option, option_of(node, name, argument));
      options.emplace_back(name, std::move(option));
    }
    for (ValueId value : given) {
      if (node.type(value).quantized())
        return node.unsupported(fmt::format("the argument `{}` is quantized", name),
                                "let the model dequantize it in front of the operator");
      if (is_float(node.type(value).dtype)) {
        DTR_ASSIGN(value, node.cast(value, DType::kFloat32));
      }
      operands.push_back(value);
    }
  }
  std::vector<Type> types;
  for (size_t i = 0; i < node.node().outputs.size(); ++i) {
    const std::optional<Type> type = node.stated_type(i);
    if (!type)
      return node.unsupported(
          fmt::format("the file does not say shape and dtype of its result {}", i),
          "register a fake implementation (torch.library.register_fake) that gives a fixed shape, "
          "and export the model again");
    types.push_back(*type);
  }
  const std::string_view target = node.node().target;
  constexpr std::string_view kPrefix = "torch.ops.";
  return node.emit_several(
      ops::kCustom, std::move(operands),
      {{"kernel",
        plugin_kernel_name(target.starts_with(kPrefix) ? target.substr(kPrefix.size()) : target)},
       {"options", ops::options_text(options)},
       {"results", ops::types_text(types)}});
}

}  // namespace dtr::pt2
