// Describes a .tflite file for `deuteron inspect`.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontends/tflite/metadata.h"
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

std::string describe(std::string_view role, size_t index, const TensorDescription& tensor) {
  constexpr size_t kShown = 5;  // of labels
  std::string text = terminal_format("  {} {} {}", role, index, tensor.name);
  if (!tensor.description.empty()) text += terminal_format(": {}", tensor.description);
  text += '\n';
  if (!tensor.mean.empty() || !tensor.std.empty())
    text += terminal_format("    is (x - mean) / std: mean {}, std {}\n",
                            fmt::join(tensor.mean, " "), fmt::join(tensor.std, " "));
  if (!tensor.least.empty() || !tensor.greatest.empty())
    text += terminal_format("    values from {} to {}\n", fmt::join(tensor.least, " "),
                            fmt::join(tensor.greatest, " "));
  if (tensor.labels_file.empty()) return text;
  if (tensor.labels.empty())
    return text + terminal_format("    labels {}: not in the file\n", tensor.labels_file);
  const std::vector<std::string> first(
      tensor.labels.begin(),
      tensor.labels.begin() + static_cast<ptrdiff_t>(std::min(kShown, tensor.labels.size())));
  return text + terminal_format("    {} labels {}: {}{}\n", tensor.labels.size(),
                                tensor.labels_file, fmt::join(first, ", "),
                                first.size() < tensor.labels.size() ? ", ..." : "");
}

std::string describe(const Metadata& metadata) {
  std::string text = "metadata\n";
  const auto line = [&](std::string_view what, const std::string& value) {
    if (!value.empty()) text += terminal_format("  {}: {}\n", what, value);
  };
  line("name", metadata.name);
  line("description", metadata.description);
  line("version", metadata.version);
  line("author", metadata.author);
  line("license", metadata.license);
  for (size_t i = 0; i < metadata.inputs.size(); ++i)
    text += describe("input", i, metadata.inputs[i]);
  for (size_t i = 0; i < metadata.outputs.size(); ++i)
    text += describe("output", i, metadata.outputs[i]);
  return text;
}

std::string describe(const Signature& signature) {
  std::string text =
      terminal_format("signature {} of subgraph {}\n", signature.key, signature.subgraph);
  for (const Signature::Argument& each : signature.inputs)
    text += terminal_format("  input {} is tensor {}\n", each.name, each.tensor);
  for (const Signature::Argument& each : signature.outputs)
    text += terminal_format("  output {} is tensor {}\n", each.name, each.tensor);
  return text;
}

}  // namespace

Result<std::string> describe_tflite(const std::string& path) {
  DTR_ASSIGN(const FileContents contents, FileContents::read(path));
  return describe_tflite(contents.bytes(), path);
}

Result<std::string> describe_tflite(std::span<const std::byte> bytes, const std::string& path) {
  DTR_ASSIGN(const ModelFile file, ModelFile::open(bytes, path));
  std::string text = terminal_format(
      "TensorFlow Lite model, version {}, {} bytes, {} operators, {} tensors, {} subgraph{}\n",
      file.version, bytes.size(), file.operators.size(), file.tensors.size(), file.subgraphs,
      file.subgraphs == 1 ? "" : "s");
  if (!file.description.empty()) text += terminal_format("description: {}\n", file.description);
  const auto line = [&](std::string_view role, int32_t index) {
    text += index < 0 ? terminal_format("  {} absent\n", role)
                      : terminal_format("  {} {}: {}\n", role, index,
                                        describe(file.tensors[static_cast<size_t>(index)]));
  };
  if (const auto metadata = read_metadata(file, path); !metadata) {
    text += terminal_format("metadata that cannot be read: {}\n", metadata.error().reason);
  } else if (*metadata) {
    text += describe(**metadata);
  }
  for (const Signature& signature : file.signatures) text += describe(signature);
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
