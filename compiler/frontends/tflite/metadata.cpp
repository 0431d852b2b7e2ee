#include "compiler/frontends/tflite/metadata.h"

#include <algorithm>

#include "compiler/frontends/tflite/metadata_generated.h"
#include "compiler/support/zip_archive.h"

namespace dtr::tflite {
namespace {

constexpr size_t kMostLabels = size_t{1} << 20;

std::string text(const flatbuffers::String* from) { return from == nullptr ? "" : from->str(); }

std::vector<float> numbers(const flatbuffers::Vector<float>* from) {
  return from == nullptr ? std::vector<float>() : std::vector<float>(from->begin(), from->end());
}

std::vector<std::string> lines(std::string_view of) {
  std::vector<std::string> result;
  while (!of.empty() && result.size() < kMostLabels) {
    const size_t end = std::min(of.find('\n'), of.size());
    std::string_view line = of.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    result.emplace_back(line);
    of.remove_prefix(std::min(end + 1, of.size()));
  }
  return result;
}

struct MetadataReader {
  std::span<const std::byte> buffer;  // the metadata
  const ModelFile& model;
  const std::string& file;
  std::optional<ZipArchive> attached = {};  // opened on first use

  Result<std::vector<std::string>> labels(const std::string& name) {
    if (!attached) {
      DTR_ASSIGN(attached, ZipArchive::open(model.bytes(), file, {.appended = true}));
    }
    const ZipEntry* entry = attached->find(name);
    if (entry == nullptr) return std::vector<std::string>();
    DTR_ASSIGN(const ZipData data, attached->read_text(*entry));
    return lines(data.text());
  }

  Result<TensorDescription> tensor(const fb::TensorMetadata& from) {
    TensorDescription tensor{.name = text(from.name()), .description = text(from.description())};
    if (from.stats() != nullptr) {
      tensor.least = numbers(from.stats()->min());
      tensor.greatest = numbers(from.stats()->max());
    }
    for (uint32_t i = 0; from.process_units() != nullptr && i < from.process_units()->size(); ++i) {
      const fb::ProcessUnit& unit = *from.process_units()->Get(i);
      if (unit.options_type() != fb::ProcessUnitType::NormalizationOptions) continue;
      flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(buffer.data()),
                                     buffer.size());
      const auto* options = reinterpret_cast<const fb::NormalizationOptions*>(unit.options());
      if (options == nullptr || !options->Verify(verifier))
        return fail(DiagnosticId::kTfliteInvalid, "the normalization in its metadata is damaged",
                    {}, {.file = file, .node = tensor.name});
      tensor.mean = numbers(options->mean());
      tensor.std = numbers(options->std());
    }
    const auto* files = from.associated_files();
    for (uint32_t i = 0; files != nullptr && i < files->size(); ++i) {
      const fb::AttachedFile& each = *files->Get(i);
      const bool has_labels = each.type() == fb::AttachedFileType::TENSOR_AXIS_LABELS ||
                              each.type() == fb::AttachedFileType::TENSOR_VALUE_LABELS;
      if (!has_labels || !tensor.labels_file.empty()) continue;  // the first is the default
      tensor.labels_file = text(each.name());
      DTR_ASSIGN(tensor.labels, labels(tensor.labels_file));
    }
    return tensor;
  }

  Result<std::vector<TensorDescription>> tensors(
      const flatbuffers::Vector<flatbuffers::Offset<fb::TensorMetadata>>* from) {
    std::vector<TensorDescription> result;
    for (uint32_t i = 0; from != nullptr && i < from->size(); ++i) {
      DTR_ASSIGN(result.emplace_back(), tensor(*from->Get(i)));
    }
    return result;
  }
};

}  // namespace

Result<std::optional<Metadata>> read_metadata(const ModelFile& model, const std::string& file) {
  if (model.metadata.empty()) return std::nullopt;
  // Writers do not align the buffer.
  const std::vector<std::byte> bytes(model.metadata.begin(), model.metadata.end());
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size());
  if (bytes.size() < 8 || !fb::ModelMetadataBufferHasIdentifier(data) ||
      !fb::VerifyModelMetadataBuffer(verifier))
    return fail(DiagnosticId::kTfliteInvalid, "its metadata are damaged",
                "Convert or download the model again.", {.file = file});
  const fb::ModelMetadata& from = *fb::GetModelMetadata(data);
  Metadata result{.name = text(from.name()),
                  .description = text(from.description()),
                  .version = text(from.version()),
                  .author = text(from.author()),
                  .license = text(from.license())};
  if (from.subgraph_metadata() == nullptr || from.subgraph_metadata()->size() == 0) return result;
  MetadataReader reader{bytes, model, file};
  const fb::SubGraphMetadata& graph = *from.subgraph_metadata()->Get(0);
  DTR_ASSIGN(result.inputs, reader.tensors(graph.input_tensor_metadata()));
  DTR_ASSIGN(result.outputs, reader.tensors(graph.output_tensor_metadata()));
  return result;
}

}  // namespace dtr::tflite
