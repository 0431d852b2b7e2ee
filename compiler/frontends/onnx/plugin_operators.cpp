// Operators that only a plug-in knows: those of a domain of somebody's own.
#include <fmt/format.h>

#include "compiler/frontends/onnx/importer.h"

namespace dtr::onnx {
namespace {

constexpr int32_t kFloat = 1, kInt = 2, kString = 3, kFloats = 6, kInts = 7;

// std::nullopt for an attribute that is neither number nor text.
std::optional<AttributeValue> value_of(const pb::AttributeProto& attribute) {
  switch (attribute.type()) {
    case kFloat:
      return static_cast<double>(attribute.f());
    case kInt:
      return attribute.i();
    case kString:
      return attribute.s();
    case kFloats:
      return Floats(attribute.floats().begin(), attribute.floats().end());
    case kInts:
      return Ints(attribute.ints().begin(), attribute.ints().end());
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string plugin_kernel_name(std::string_view domain, std::string_view name) {
  return fmt::format("{}::{}", domain.empty() ? "ai.onnx" : domain, name);
}

Result<std::vector<ops::CustomOption>> NodeImport::custom_options() const {
  std::vector<ops::CustomOption> options;
  for (const pb::AttributeProto& each : node_.attribute()) {
    const pb::AttributeProto* const attribute = find(each.name());
    if (attribute == nullptr) continue;  // of a function, whose call does not give it
    const std::optional<AttributeValue> value = value_of(*attribute);
    if (!value)
      return unsupported(
          fmt::format("the attribute `{}` is no number, text or list of numbers", each.name()),
          "Give the operator a tensor as an input.");
    options.emplace_back(each.name(), value);
  }
  return options;
}

tl::expected<Type, std::string> Importer::stated_type(const std::string& name) const {
  const pb::ValueInfoProto* stated = nullptr;
  for (const auto* list : {&model_.graph().value_info(), &model_.graph().output()})
    for (const pb::ValueInfoProto& info : *list)
      if (info.name() == name) stated = &info;
  if (stated == nullptr || !stated->type().has_tensor_type() ||
      !stated->type().tensor_type().has_shape())
    return tl::unexpected<std::string>("is not in the file");
  const auto& tensor = stated->type().tensor_type();
  std::optional<DType> dtype = dtype_of(tensor.elem_type());
  if (!dtype) return tl::unexpected(fmt::format("is {}", name_of_type(tensor.elem_type())));
  Type type{.dtype = is_float(*dtype) ? DType::kFloat32 : *dtype};
  for (const pb::TensorShapeProto::Dimension& dim : tensor.shape().dim()) {
    const auto bound = open_sizes_.find(dim.dim_param());
    if (!dim.has_dim_value() && bound == open_sizes_.end())
      return tl::unexpected<std::string>("has an open dimension");
    type.shape.push_back(dim.has_dim_value() ? dim.dim_value() : bound->second);
  }
  return type;
}

Result<Type> NodeImport::stated_type(size_t output) const {
  const std::string& name = node_.output(static_cast<int>(output));
  const bool is_main = scope_.outer == nullptr && scope_.function == nullptr;
  const auto stated = is_main ? importer_.stated_type(name)
                              : tl::unexpected<std::string>("of a function or branch is not read");
  if (stated) return *stated;
  return fail(DiagnosticId::kOnnxUnsupportedShape,
              fmt::format("{}: the type of its output `{}` {}", module_.sources[source_].target,
                          name, stated.error()),
              "State it in the file's value_info, with fixed sizes: nothing else tells the shape "
              "that a plug-in's kernel gives.",
              place());
}

Result<Values> plugin_operator(NodeImport& node) {
  Values operands;
  for (size_t i = 0; i < node.inputs(); ++i) {
    DTR_ASSIGN(ValueId value, node.value(i));
    if (is_float(node.type(value).dtype)) {
      DTR_ASSIGN(value, node.cast(value, DType::kFloat32));
    }
    operands.push_back(value);
  }
  std::vector<Type> types;
  for (size_t i = 0; i < node.outputs(); ++i) {
    DTR_ASSIGN(types.emplace_back(), node.stated_type(i));
  }
  DTR_ASSIGN(const std::vector<ops::CustomOption> options, node.custom_options());
  const std::string kernel =
      plugin_kernel_name(plain_domain(node.node().domain()), node.node().op_type());
  return node.emit_several(ops::kCustom, std::move(operands),
                           {{"kernel", kernel},
                            {"options", ops::options_text(options)},
                            {"results", ops::types_text(types)}});
}

}  // namespace dtr::onnx
