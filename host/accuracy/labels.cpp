#include "host/accuracy/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace dtr {

size_t argmax(std::span<const float> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

Result<std::vector<int64_t>> class_numbers(const Tensor& labels, size_t samples,
                                           const Place& place) {
  std::vector<int64_t> numbers;
  const auto take = [&](const auto& values) { numbers.assign(values.begin(), values.end()); };
  if (labels.dtype() == DType::kInt64) take(labels.values<int64_t>());
  if (labels.dtype() == DType::kInt32) take(labels.values<int32_t>());
  if (labels.dtype() == DType::kUint8) take(labels.values<uint8_t>());
  if (labels.dtype() == DType::kInt8) take(labels.values<int8_t>());
  if (labels.dtype() == DType::kInt16) take(labels.values<int16_t>());
  if (numbers.size() != samples)
    return fail(DiagnosticId::kDataShape,
                fmt::format("{} labels of dtype {} for {} samples", labels.elements(),
                            name(labels.dtype()), samples),
                "give one integer class number a sample", place);
  return numbers;
}

Diagnostic no_labels(const std::string& labels, std::span<const NamedTensor> arrays,
                     const std::string& file, std::string fix) {
  std::vector<std::string> names;
  for (const NamedTensor& array : arrays) names.push_back(array.name);
  if (arrays.empty())
    // Only names are wanted, so that no array is read; the file was read before.
    (void)read_tensors(file, [&](std::string_view array) {
      names.emplace_back(array);
      return false;
    });
  return Diagnostic{.id = DiagnosticId::kDataMissingArray,
                    .reason = fmt::format("there is no array `{}` of class numbers; there are `{}`",
                                          labels, fmt::join(names, "`, `")),
                    .fix = std::move(fix),
                    .place = {.file = file}};
}

Result<void> check_labels(const std::vector<int64_t>& labels, size_t classes, const Place& place) {
  const auto is_class = [&](int64_t label) {
    return label >= 0 && static_cast<uint64_t>(label) < classes;
  };
  const auto bad = std::ranges::find_if_not(labels, is_class);
  if (bad == labels.end()) return {};
  const auto [least, greatest] = std::ranges::minmax(labels);
  return fail(DiagnosticId::kDataShape,
              fmt::format("{} of {} labels are no class: the program has the classes 0 to {}, the "
                          "labels go from {} to {} (sample {} has {})",
                          std::ranges::count_if(labels, std::not_fn(is_class)), labels.size(),
                          classes - 1, least, greatest, bad - labels.begin(), *bad),
              least == 1 && greatest == static_cast<int64_t>(classes)
                  ? "subtract 1: classes are counted from 0"
                  : "leave samples without a class out, or name the right array with --labels",
              place);
}

}  // namespace dtr
