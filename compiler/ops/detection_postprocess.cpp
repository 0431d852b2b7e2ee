// tflite.detection_postprocess: the detections of an SSD: boxes (operand 0) are decoded relative to
// anchors (operand 2), what overlaps a better box by scores (operand 1) is left out, and the best
// ones are given: corners, classes and scores by falling score, 0 behind the last one, and their
// number. TensorFlow Lite's custom operator TFLite_Detection_PostProcess.
#include "compiler/ops/define.h"
#include "device/numerics/boxes.h"

namespace dtr::ops {
namespace {

Result<void> verify_options(const OpView& view) {
  for (const char* name :
       {"max_detections", "max_classes_per_detection", "detections_per_class", "num_classes"})
    if (const int64_t value = view.attribute<int64_t>(name); value < 1 || value > kMaxExtent)
      return broken(view, fmt::format("`{}` is {}, expected 1 or more", name, value));
  const double iou = view.attribute<double>("nms_iou_threshold");
  if (!(iou > 0 && iou <= 1))
    return broken(view, fmt::format("`nms_iou_threshold` is {}, expected one in (0, 1]", iou));
  if (view.attribute<Floats>("scales").size() != 4)
    return broken(view, "`scales` has not four numbers");
  return {};
}

Result<void> verify(const OpView& view) {
  DTR_TRY(verify_options(view));
  const Type &boxes = view.operand(0), &scores = view.operand(1), &anchors = view.operand(2);
  for (const Type* type : {&boxes, &scores, &anchors})
    if (type->dtype != boxes.dtype || !is_float(type->dtype))
      return broken(view, fmt::format("an operand is {}, expected floats", name(type->dtype)));
  if (boxes.rank() != 3 || boxes.shape[0] != 1 || boxes.shape[2] < 4)
    return broken(view, fmt::format("the boxes are {}, expected 1xNx4, of one image",
                                    to_string(boxes.shape)));
  const int64_t count = boxes.shape[1], classes = view.attribute<int64_t>("num_classes");
  if (anchors.shape != Shape{count, 4})
    return broken(view, fmt::format("the anchors are {}, expected {}", to_string(anchors.shape),
                                    to_string(Shape{count, 4})));
  if (scores.rank() != 3 || scores.shape[0] != 1 || scores.shape[1] != count ||
      scores.shape[2] < classes || scores.shape[2] > classes + 1)
    return broken(view, fmt::format("the scores are {}, expected 1x{}x{}, or one more of the "
                                    "background",
                                    to_string(scores.shape), count, classes));
  return check_result_shape(view, {1,
                                   view.attribute<int64_t>("max_detections") *
                                       view.attribute<int64_t>("max_classes_per_detection"),
                                   4});
}

std::vector<Type> infer(const OpView& view) {
  const DType dtype = view.operand(0).dtype;
  const int64_t rows = view.attribute<int64_t>("max_detections") *
                       view.attribute<int64_t>("max_classes_per_detection");
  return {{.dtype = dtype, .shape = {1, rows, 4}},
          {.dtype = dtype, .shape = {1, rows}},
          {.dtype = dtype, .shape = {1, rows}},
          {.dtype = dtype, .shape = {1}}};
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const auto number = [&](const char* name) {
    return static_cast<int32_t>(view.attribute<int64_t>(name));
  };
  numerics::Detection<T> of{
      .boxes = static_cast<int32_t>(operands[0].shape[1]),
      .columns = static_cast<int32_t>(operands[1].shape[2]),
      .classes = number("num_classes"),
      .most = number("max_detections"),
      .classes_per_box = number("max_classes_per_detection"),
      .per_class = number("detections_per_class"),
      .regular = view.attribute<bool>("use_regular_nms"),
      .score_threshold = static_cast<T>(view.attribute<double>("nms_score_threshold")),
      .iou_threshold = static_cast<T>(view.attribute<double>("nms_iou_threshold")),
      .scales = {}};
  for (size_t i = 0; i < 4; ++i) of.scales[i] = static_cast<T>(view.attribute<Floats>("scales")[i]);
  const auto room = [](int64_t count) { return static_cast<size_t>(count); };
  std::vector<numerics::Box<T>> boxes(room(of.boxes));
  std::vector<numerics::Scored<T>> heap(room(numerics::detection_heap(of)));
  std::vector<numerics::Scored<T>> merged(room(numerics::detection_merged(of)));
  std::vector<int32_t> selected(room(of.boxes));
  results[3].values<T>()[0] = static_cast<T>(numerics::detect<T>(
      of, {operands[0].values<T>().data(), static_cast<int32_t>(operands[0].shape[2]), 1},
      {operands[1].values<T>().data(), of.columns, 1}, {operands[2].values<T>().data(), 4, 1},
      {boxes.data(), heap.data(), selected.data(), merged.data()},
      {{results[0].values<T>().data(), 4, 1},
       {results[1].values<T>().data(), 1, 0},
       {results[2].values<T>().data(), 1, 0}}));
}

}  // namespace

constinit const OpDef kDetectionPostprocess{
    .name = "tflite.detection_postprocess",
    .summary = "boxes relative to anchors without those that overlap better ones",
    .schema =
        "(Tensor box_encodings, Tensor class_predictions, Tensor anchors, int max_detections, "
        "int max_classes_per_detection, int detections_per_class, bool use_regular_nms, "
        "float nms_score_threshold, float nms_iou_threshold, int num_classes, float[] scales)",
    .kernel = "deuteron::detection_postprocess.out",
    .verify = verify,
    .infer = infer,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>};

}  // namespace dtr::ops
