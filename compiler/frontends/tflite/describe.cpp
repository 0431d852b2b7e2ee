// Describes a .tflite file for `deuteron inspect`.
#include <fmt/format.h>

#include "compiler/frontends/tflite/model_file.h"
#include "compiler/frontends/tflite/tflite.h"
#include "compiler/support/encode.h"
#include "compiler/support/file_contents.h"

namespace dtr::tflite {
namespace {

std::string describe(const TensorInfo& tensor) {
  std::string text = terminal_format("{} {}[{}]", tensor.name, fb::EnumNameTensorType(tensor.type),
                                     fmt::join(tensor.shape, ","));
  if (tensor.scales.size() == 1)
    text += terminal_format(" scale {} zero_point {}", tensor.scales[0], tensor.zero_points[0]);
  if (tensor.scales.size() > 1)
    text += terminal_format(" {} scales along dimension {}", tensor.scales.size(),
                            tensor.quantized_dimension);
  if (tensor.constant()) text += terminal_format(" constant, {} bytes", tensor.data.size());
  return text;
}

}  // namespace

Result<std::string> describe_tflite(const std::string& path) {
  DTR_ASSIGN(const FileContents contents, FileContents::read(path));
  DTR_ASSIGN(const ModelFile file, ModelFile::open(contents.bytes(), path));
  std::string text = terminal_format(
      "TensorFlow Lite model, version {}, {} bytes, {} operators, {} tensors, {} subgraph{}\n",
      file.version, contents.bytes().size(), file.operators.size(), file.tensors.size(),
      file.subgraphs, file.subgraphs == 1 ? "" : "s");
  if (!file.description.empty()) text += terminal_format("description: {}\n", file.description);
  const auto line = [&](std::string_view role, int32_t index) {
    text += index < 0 ? terminal_format("  {} absent\n", role)
                      : terminal_format("  {} {}: {}\n", role, index,
                                        describe(file.tensors[static_cast<size_t>(index)]));
  };
  text += "inputs\n";
  for (const int32_t index : file.inputs) line("tensor", index);
  text += "outputs\n";
  for (const int32_t index : file.outputs) line("tensor", index);
  for (size_t i = 0; i < file.operators.size(); ++i) {
    text += terminal_format("operator {} {}\n", i, file.operators[i].name);
    for (const int32_t index : file.operators[i].inputs) line("reads", index);
    for (const int32_t index : file.operators[i].outputs) line("makes", index);
  }
  return text;
}

}  // namespace dtr::tflite
