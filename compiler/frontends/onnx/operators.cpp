// Which of the format's operators are read, and why the others are not.
#include "compiler/frontends/onnx/operators.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "compiler/plugins/plugins.h"

namespace dtr::onnx {
namespace {

using Table = std::map<std::pair<std::string_view, std::string_view>, Operator>;

const Table& table() {
  static const Table all = [] {
    Table made;
    for (std::vector<Operator>& family : std::vector<std::vector<Operator>>{
             composed_operators(), control_operators(), elementwise_operators(), index_operators(),
             normalization_operators(), quantized_operators(), recurrent_operators(),
             reduction_operators(), resize_operators(), sampling_operators(), shape_operators(),
             signal_operators(), window_operators()})
      for (Operator& each : family)
        made.emplace(std::pair(each.domain, each.name), std::move(each));
    return made;
  }();
  return all;
}

struct Refused {
  WhyRefused why;
  std::span<const std::string_view> names;
};

constexpr std::string_view kRandom[] = {
    "Bernoulli",        "Multinomial",   "RandomNormal",
    "RandomNormalLike", "RandomUniform", "RandomUniformLike",
};
constexpr std::string_view kDataDependentShape[] = {
    "NonMaxSuppression",
    "Unique",
};
constexpr std::string_view kText[] = {
    "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer",
};
constexpr std::string_view kOptional[] = {
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "SequenceMap",
};
constexpr std::string_view kTraining[] = {
    "Adagrad",
    "Adam",
    "Gradient",
    "Momentum",
};
constexpr std::string_view kFiles[] = {"ImageDecoder"};
constexpr std::string_view kPlaces[] = {"MaxRoiPool"};
constexpr std::string_view kNobody[] = {"TensorScatter"};
constexpr Refused kRefused[] = {
    {{"random numbers", "Draw them in the application and make them an input."}, kRandom},
    {{"a shape that depends on the data",
      "End the model before it, and select elements or boxes in the application."},
     kDataDependentShape},
    {{"text", "Look words up in the application and make their numbers an input."}, kText},
    {{"values that are no tensors", "Export the model with tensors alone."}, kOptional},
    {{"training", "Export the model in evaluation mode, without its loss."}, kTraining},
    {{"a decoder of files", "Decode images in the application and make their pixels an input."},
     kFiles},
    {{"places that depend on the data", "End the model before it."}, kPlaces},
    {{"", "Replace them before the export, or end the model before them."}, kNobody},
};

}  // namespace

std::string_view plain_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

const Operator* find_operator(std::string_view domain, std::string_view name) {
  const auto at = table().find({domain, name});
  if (at != table().end()) return &at->second;
  static const Operator plugin_row{.max_inputs = kAnyNumber, .build = plugin_operator};
  return find_plugin_kernel(plugin_kernel_name(domain, name)) == nullptr ? nullptr : &plugin_row;
}

bool is_foreign(std::string_view domain) {
  return !domain.empty() && domain != kMicrosoft && domain != kClassic;
}

WhyRefused why_refused(std::string_view domain, std::string_view name) {
  if (domain.empty())
    for (const Refused& group : kRefused)
      if (std::ranges::find(group.names, name) != group.names.end()) return group.why;
  if (domain == kClassic)
    return {"a model that is no network",
            "Convert the part of the pipeline that is a network or linear, and compute the rest "
            "in the application."};
  if (is_foreign(domain))
    return {"a definition that the file does not hold",
            "Export the model with the operators of ai.onnx alone, or with functions that define "
            "the others."};
  return {"", "Replace them before the export, or end the model before them."};
}

std::vector<OperatorSupport> operators_of_format() {
  std::vector<OperatorSupport> all;
  for (const auto& [key, each] : table()) all.push_back({each.domain, each.name, true, {}});
  for (const Refused& group : kRefused)
    for (const std::string_view name : group.names)
      all.push_back({{}, name, false, group.why.needs});
  std::ranges::sort(all, [](const OperatorSupport& a, const OperatorSupport& b) {
    return std::pair(a.domain, a.name) < std::pair(b.domain, b.name);
  });
  return all;
}

}  // namespace dtr::onnx
