// Operators that choose among overlapping boxes. They compute in float: codes are dequantized
// before. Their outputs have the shapes that follow from their options, as LiteRT gives them; files
// often have none.
//
// FlexBuffers turn strings into numbers, which no option is, by the locale, which takes
// FlatBuffers' library. This file does without both.
#define FLATBUFFERS_LOCALE_INDEPENDENT 0
#include <flatbuffers/flexbuffers.h>
#include <fmt/format.h>

#include <cstring>

#include "compiler/frontends/tflite/importer.h"

namespace dtr::tflite {
namespace {

using fb::BuiltinOperator;

// Operands: boxes, scores, how many are selected, thresholds of overlap and score, of _V5 sigma.
Result<std::vector<ValueId>> non_max_suppression(Importer& importer) {
  const bool has_scores = importer.op().code == BuiltinOperator::NON_MAX_SUPPRESSION_V5;
  DTR_ASSIGN(const ValueId boxes, importer.real_value(0));
  DTR_ASSIGN(const ValueId scores, importer.real_value(1));
  DTR_ASSIGN(const Ints most, importer.integers(2));
  if (most.size() != 1)
    return importer.invalid(
        fmt::format("`{}` has {} elements", importer.tensor(2).name, most.size()));
  DTR_ASSIGN(const double iou_threshold, importer.real(3));
  DTR_ASSIGN(const double score_threshold, importer.real(4));
  double sigma = 0;
  if (has_scores) {
    DTR_ASSIGN(sigma, importer.real(5));
  }
  DTR_ASSIGN(std::vector<ValueId> results,
             importer.append_several(ops::kNonMaxSuppression, {boxes, scores},
                                     {{"max_output_size", most.front()},
                                      {"iou_threshold", iou_threshold},
                                      {"score_threshold", score_threshold},
                                      {"sigma", sigma}}));
  if (!has_scores) results.erase(results.begin() + 1);
  return results;
}

constexpr OperatorDef kDetectionOperators[] = {
    {BuiltinOperator::NON_MAX_SUPPRESSION_V4, 5, 5, nullptr, non_max_suppression, true},
    {BuiltinOperator::NON_MAX_SUPPRESSION_V5, 6, 6, nullptr, non_max_suppression, true},
};

}  // namespace

std::span<const OperatorDef> detection_operators() { return kDetectionOperators; }

Result<std::vector<ValueId>> detection_postprocess(Importer& importer) {
  // Numbers in a FlexBuffer are aligned to its beginning, which in the file has any place.
  const std::span<const uint8_t> bytes = importer.op().custom_options;
  std::vector<uint64_t> aligned(bytes.size() / sizeof(uint64_t) + 1);
  if (!bytes.empty()) std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const auto* const begin = reinterpret_cast<const uint8_t*>(aligned.data());
  if (bytes.empty() || !flexbuffers::VerifyBuffer(begin, bytes.size()) ||
      !flexbuffers::GetRoot(begin, bytes.size()).IsMap())
    return importer.invalid("its options are no map of a FlexBuffer");
  const flexbuffers::Map options = flexbuffers::GetRoot(begin, bytes.size()).AsMap();
  const auto integer = [&](const char* name) { return options[name].AsInt64(); };
  const auto number = [&](const char* name) { return double{options[name].AsFloat()}; };
  const bool regular = options["use_regular_nms"].AsBool();
  constexpr int64_t kDetectionsPerClass = 100;  // LiteRT's; of the regular form alone
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 3; ++i) {
    DTR_ASSIGN(operands.emplace_back(), importer.real_value(i));
  }
  return importer.append_several(
      ops::kDetectionPostprocess, std::move(operands),
      {{"max_detections", integer("max_detections")},
       {"max_classes_per_detection", integer("max_classes_per_detection")},
       {"detections_per_class", regular && !options["detections_per_class"].IsNull()
                                    ? integer("detections_per_class")
                                    : kDetectionsPerClass},
       {"use_regular_nms", regular},
       {"nms_score_threshold", number("nms_score_threshold")},
       {"nms_iou_threshold", number("nms_iou_threshold")},
       {"num_classes", integer("num_classes")},
       {"scales",
        Floats{number("y_scale"), number("x_scale"), number("h_scale"), number("w_scale")}}});
}

}  // namespace dtr::tflite
