// Custom operators that only a plug-in knows. Codes are dequantized before and quantized behind.
#include <fmt/format.h>

#include "compiler/frontends/tflite/importer.h"
#include "compiler/ops/custom.h"

namespace dtr::tflite {

// "CUSTOM(Twice)" → "custom::Twice".
std::string plugin_kernel_name(const OperatorInfo& op) {
  std::string_view name = op.name;
  name.remove_prefix(std::min(name.size(), std::string_view("CUSTOM(").size()));
  if (name.ends_with(')')) name.remove_suffix(1);
  return fmt::format("custom::{}", name);
}

Result<std::vector<ValueId>> plugin_operator(Importer& importer) {
  std::vector<ValueId> operands;
  for (size_t i = 0; i < importer.op().inputs.size(); ++i) {
    if (!importer.has(i))
      return importer.unsupported(fmt::format("input {} is absent, a plug-in gets tensors", i));
    DTR_ASSIGN(const ValueId real, importer.real_value(i));
    DTR_ASSIGN(operands.emplace_back(), importer.in_file_order(real));
  }
  std::vector<Type> types;
  for (size_t i = 0; i < importer.op().outputs.size(); ++i) {
    const TensorInfo& tensor = importer.output(i);
    const std::optional<DType> dtype = dtype_of(tensor.type);
    if (!dtype)
      return importer.unsupported(
          fmt::format("its output `{}` is {}", tensor.name, fb::EnumNameTensorType(tensor.type)));
    if (tensor.has_open_extent())
      return importer.unsupported(
          fmt::format("the shape of its output `{}` is not in the file", tensor.name),
          "Convert the model with fixed shapes: nothing else tells the shape that a plug-in's "
          "kernel gives.");
    types.push_back(
        {.dtype = tensor.scales.empty() ? *dtype : DType::kFloat32, .shape = tensor.shape});
  }
  const std::span<const uint8_t> options = importer.op().custom_options;
  DTR_ASSIGN(std::vector<ValueId> results,
             importer.append_several(ops::kCustom, std::move(operands),
                                     {{"kernel", plugin_kernel_name(importer.op())},
                                      {"options", std::string(options.begin(), options.end())},
                                      {"results", ops::types_text(types)}}));
  for (size_t i = 0; i < results.size(); ++i) {
    DTR_ASSIGN(results[i], importer.file_output(results[i], i));
  }
  return results;
}

}  // namespace dtr::tflite
