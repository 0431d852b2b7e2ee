// The extents that a .tflite file leaves open: an export with an open batch has −1 in the signature
// of a shape, and beside it an extent, mostly 1. The user chooses another by name or by samples;
// the shapes of all other tensors follow.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/frontends/tflite/importer.h"

namespace dtr::tflite {
namespace {

// The shape of samples for an input, if its other extents are those of the file.
std::optional<Shape> sampled_shape(const Shape& array, const TensorInfo& tensor) {
  const size_t rank = tensor.shape.size();
  Shape result;
  for (size_t d = 0; d < rank; ++d) {
    const auto size = sampled_size(array, rank, logical_dim(d, rank));
    if (!size || (tensor.signature[d] != -1 && *size != tensor.shape[d])) return std::nullopt;
    result.push_back(*size);
  }
  return result;
}

}  // namespace

Result<void> Importer::bind_open_extents() {
  std::set<std::string> used;
  std::vector<std::string> names;
  const auto given = [&](const std::string& name) -> std::optional<int64_t> {
    names.push_back(name);
    for (const auto& [each, size] : sizes_.given)
      if (each == name) {
        used.insert(name);
        return size;
      }
    return std::nullopt;
  };
  for (size_t i = 0; i < file_->inputs.size(); ++i) {
    TensorInfo& tensor = file_->tensors[static_cast<size_t>(file_->inputs[i])];
    if (!tensor.has_open_extent()) continue;
    std::optional<Shape> sampled;
    if (sizes_.sampled) {
      DTR_ASSIGN(const std::optional<Shape> array,
                 sizes_.sampled(tensor.name, i, file_->inputs.size()));
      if (array) sampled = sampled_shape(*array, tensor);
    }
    bool is_chosen = true;
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      if (tensor.signature[d] != -1) continue;
      const size_t logical = logical_dim(d, tensor.shape.size());
      std::optional<int64_t> size = given(fmt::format("{}.{}", tensor.name, logical));
      if (!size && d == 0) size = given("batch");
      if (!size && sampled) size = (*sampled)[d];
      is_chosen = is_chosen && size.has_value();
      resized_ = resized_ || (size && *size != tensor.shape[d]);
      tensor.shape[d] = size.value_or(tensor.shape[d]);
    }
    const auto elements = checked_element_count(tensor.shape);
    if (!elements || *elements > INT32_MAX)
      return fail(DiagnosticId::kTfliteUnsupportedOption,
                  fmt::format("its shape would be [{}]", fmt::join(tensor.shape, ", ")),
                  "Give smaller sizes.", place(tensor.name));
    if (is_chosen) continue;
    import_.module.notes.push_back(
        {.id = DiagnosticId::kTfliteUnsupportedOption,
         .reason = fmt::format("its shape is open ([{}]) and read as [{}]",
                               fmt::join(tensor.signature, ", "), fmt::join(tensor.shape, ", ")),
         .fix = fmt::format("Give --dim {}=N for another size.", fmt::join(names, "=N, --dim ")),
         .place = place(tensor.name),
         .severity = Severity::kNote});
  }
  for (const auto& [name, size] : sizes_.given) {
    if (used.contains(name)) continue;
    if (names.empty())
      return check_no_dimensions({.given = {{name, size}}}, "this .tflite file",
                                 "convert the model again with that size, for example with "
                                 "tf.keras.Input(shape, batch_size=N)",
                                 import_.module.file);
    return fail(DiagnosticId::kTfliteUnsupportedOption,
                fmt::format("`{}` is no open dimension of the model, which has {}", name,
                            fmt::join(names, ", ")),
                "Give one of these names; dimensions of images count N, C, H, W.", place({}));
  }
  return {};
}

// Extents that the file has for the first output, with the open one such that it has `elements`.
Shape Importer::filled_output(int64_t elements) const {
  Shape shape = output().shape;
  const Ints& open = output().signature;
  if (element_count(shape) == elements || std::ranges::count(open, -1) != 1) return shape;
  const auto at = static_cast<size_t>(std::ranges::find(open, -1) - open.begin());
  shape[at] = 1;
  const int64_t rest = element_count(shape);
  if (rest > 0 && elements % rest == 0) shape[at] = elements / rest;
  return shape;
}

}  // namespace dtr::tflite
