// Detections among boxes, as LiteRT's kernels give them (device/numerics/boxes.h); float.
// deuteron::non_max_suppression.out(boxes, scores, max_output_size, iou_threshold, score_threshold,
// sigma, scratch, indices, scores, count) and deuteron::detection_postprocess.out(box_encodings,
// class_predictions, anchors, max_detections, max_classes_per_detection, detections_per_class,
// use_regular_nms, nms_score_threshold, nms_iou_threshold, num_classes, scales, scratch, boxes,
// classes, scores, count). Scratch: numerics::suppression_bytes(…), numerics::detection_bytes(…).
#include "device/numerics/boxes.h"

#include <span>

#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {
namespace {

using numerics::Rows;

bool has_shape(const Tensor& tensor, std::initializer_list<int64_t> shape) {
  return std::equal(shape.begin(), shape.end(), tensor.sizes, tensor.sizes + tensor.rank);
}

// The last two dimensions, or with `as_column` the last one, as rows of one element.
template <class T>
Rows<T> rows_of(const Tensor& tensor, bool as_column = false) {
  const Strides strides = strides_of(tensor);
  const int last = tensor.rank - 1;
  if (as_column) return {tensor.values<T>(), strides.of[last], 0};
  return {tensor.values<T>(), strides.of[last - 1], strides.of[last]};
}

// Takes parts of the scratch memory.
struct Memory {
  std::byte* next;

  template <class T>
  T* take(int64_t count) {
    T* const taken = reinterpret_cast<T*>(next);
    next += count * static_cast<int64_t>(sizeof(T));
    return taken;
  }
};

// Whether the scratch memory has that size and nothing that is written beside it lies in it.
bool is_own_scratch(const Tensor& scratch, int64_t bytes,
                    std::initializer_list<const Tensor*> outputs) {
  return is_scratch(scratch, bytes) && std::ranges::all_of(outputs, [&](const Tensor* output) {
           return is_disjoint(*output, scratch.data, bytes);
         });
}

bool are_floats(std::initializer_list<const Tensor*> tensors) {
  return std::ranges::all_of(
      tensors, [](const Tensor* tensor) { return tensor->dtype == ScalarType::kFloat; });
}

}  // namespace

Error non_max_suppression_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor &boxes = arguments.tensor(0), &scores = arguments.tensor(1);
  const int64_t most = arguments.integer(2);
  numerics::Suppression<float> of{.iou_threshold = static_cast<float>(arguments.number(3)),
                                  .score_threshold = static_cast<float>(arguments.number(4)),
                                  .sigma = static_cast<float>(arguments.number(5))};
  const Tensor& scratch = arguments.output(6);
  const Tensor &indices = arguments.output(7), &kept = arguments.output(8),
               &count = arguments.output(9);
  if (!arguments.good() || boxes.rank != 2 || !has_shape(boxes, {boxes.sizes[0], 4}) ||
      !has_shape(scores, {boxes.sizes[0]}) || most < 0 || most > INT32_MAX ||
      !has_shape(indices, {most}) || !has_shape(kept, {most}) || count.rank != 0 ||
      !(of.sigma >= 0))
    return Error::kKernelArguments;
  if (!are_floats({&boxes, &scores, &kept}) || indices.dtype != ScalarType::kInt ||
      count.dtype != ScalarType::kInt)
    return Error::kKernelDtype;
  of.boxes = boxes.sizes[0];
  of.most = static_cast<int32_t>(most);
  if (!is_own_scratch(scratch, numerics::suppression_bytes(of.boxes, most),
                      {&indices, &kept, &count}))
    return Error::kKernelArguments;
  Memory memory{scratch.data};
  auto* const heap = memory.take<numerics::Candidate<float>>(of.boxes);
  *count.values<int32_t>() =
      numerics::suppress<float>(of, rows_of<const float>(boxes), rows_of<const float>(scores, true),
                                heap, memory.take<int32_t>(of.boxes < most ? of.boxes : most),
                                rows_of<int32_t>(indices, true), rows_of<float>(kept, true));
  return Error::kOk;
}

Error detection_postprocess_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor &encoded = arguments.tensor(0), &scores = arguments.tensor(1),
               &anchors = arguments.tensor(2);
  const int64_t most = arguments.integer(3), per_box = arguments.integer(4),
                per_class = arguments.integer(5);
  numerics::Detection<float> of{.regular = arguments.flag(6),
                                .score_threshold = static_cast<float>(arguments.number(7)),
                                .iou_threshold = static_cast<float>(arguments.number(8)),
                                .scales = {}};
  const int64_t classes = arguments.integer(9);
  const std::span<const double> scales = arguments.doubles(10);
  const Tensor& scratch = arguments.output(11);
  const Tensor &boxes = arguments.output(12), &labels = arguments.output(13),
               &kept = arguments.output(14), &count = arguments.output(15);
  if (!arguments.good() || encoded.rank != 3 || encoded.sizes[0] != 1 || encoded.sizes[2] < 4 ||
      scores.rank != 3 || !has_shape(scores, {1, encoded.sizes[1], scores.sizes[2]}) ||
      !has_shape(anchors, {encoded.sizes[1], 4}) || classes < 1 || classes >= INT32_MAX ||
      (scores.sizes[2] != classes && scores.sizes[2] != classes + 1) || scales.size() != 4 ||
      most < 1 || most > INT32_MAX || per_box < 1 || per_box > INT32_MAX || per_class < 1 ||
      per_class > INT32_MAX || !has_shape(boxes, {1, most * per_box, 4}) ||
      !has_shape(labels, {1, most * per_box}) || !has_shape(kept, {1, most * per_box}) ||
      !has_shape(count, {1}))
    return Error::kKernelArguments;
  if (!are_floats({&encoded, &scores, &anchors, &boxes, &labels, &kept, &count}))
    return Error::kKernelDtype;
  of.boxes = encoded.sizes[1];
  of.columns = scores.sizes[2];
  of.classes = static_cast<int32_t>(classes);
  of.most = static_cast<int32_t>(most);
  of.classes_per_box = static_cast<int32_t>(per_box);
  of.per_class = static_cast<int32_t>(per_class);
  for (size_t i = 0; i < scales.size(); ++i) of.scales[i] = static_cast<float>(scales[i]);
  if (!is_own_scratch(scratch, numerics::detection_bytes(of), {&boxes, &labels, &kept, &count}))
    return Error::kKernelArguments;
  Memory memory{scratch.data};
  const numerics::DetectionScratch<float> parts{
      .boxes = memory.take<numerics::Box<float>>(of.boxes),
      .heap = memory.take<numerics::Scored<float>>(numerics::detection_heap(of)),
      .selected = memory.take<int32_t>(of.boxes),
      .merged = memory.take<numerics::Scored<float>>(numerics::detection_merged(of))};
  *count.values<float>() = static_cast<float>(numerics::detect<float>(
      of, rows_of<const float>(encoded), rows_of<const float>(scores),
      rows_of<const float>(anchors), parts,
      {rows_of<float>(boxes), rows_of<float>(labels, true), rows_of<float>(kept, true)}));
  return Error::kOk;
}

}  // namespace dtr::runtime::portable
