// tflite.non_max_suppression: indices and scores of the boxes (operand 0: rows of two opposite
// corners) that remain of those with these scores (operand 1) when what overlaps a better one is
// left out, and their number. TensorFlow Lite's NON_MAX_SUPPRESSION_V5; _V4 has no `sigma`.
#include "compiler/ops/define.h"
#include "device/numerics/boxes.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  const Type &boxes = view.operand(0), &scores = view.operand(1);
  if (!is_float(boxes.dtype) || scores.dtype != boxes.dtype)
    return broken(view, fmt::format("the operands are {} and {}, expected floats",
                                    name(boxes.dtype), name(scores.dtype)));
  if (boxes.rank() != 2 || boxes.shape[1] != 4 || scores.shape != Shape{boxes.shape[0]})
    return broken(view, fmt::format("boxes {} and scores {}, expected Nx4 and N",
                                    to_string(boxes.shape), to_string(scores.shape)));
  const int64_t most = view.attribute<int64_t>("max_output_size");
  if (most < 0 || most > kMaxExtent)
    return broken(view, fmt::format("`max_output_size` is {}", most));
  if (const double sigma = view.attribute<double>("sigma"); !(sigma >= 0))
    return broken(view, fmt::format("`sigma` is {}, expected 0 or more", sigma));
  return {};
}

std::vector<Type> infer(const OpView& view) {
  const Shape selected{view.attribute<int64_t>("max_output_size")};
  return {{.dtype = DType::kInt32, .shape = selected},
          {.dtype = view.operand(0).dtype, .shape = selected},
          {.dtype = DType::kInt32, .shape = {}}};
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const numerics::Suppression<T> of{
      .boxes = static_cast<int32_t>(operands[0].shape[0]),
      .most = static_cast<int32_t>(results[0].shape[0]),
      .iou_threshold = static_cast<T>(view.attribute<double>("iou_threshold")),
      .score_threshold = static_cast<T>(view.attribute<double>("score_threshold")),
      .sigma = static_cast<T>(view.attribute<double>("sigma"))};
  std::vector<numerics::Candidate<T>> heap(static_cast<size_t>(of.boxes));
  std::vector<int32_t> selected(static_cast<size_t>(of.most));
  results[2].values<int32_t>()[0] = numerics::suppress<T>(
      of, {operands[0].values<T>().data(), 4, 1}, {operands[1].values<T>().data(), 1, 0},
      heap.data(), selected.data(), {results[0].values<int32_t>().data(), 1, 0},
      {results[1].values<T>().data(), 1, 0});
}

}  // namespace

constinit const OpDef kNonMaxSuppression{
    .name = "tflite.non_max_suppression",
    .summary = "indices and scores of boxes without those that overlap better ones",
    .schema =
        "(Tensor boxes, Tensor scores, int max_output_size, float iou_threshold, "
        "float score_threshold, float sigma)",
    .kernel = "deuteron::non_max_suppression.out",
    .verify = verify,
    .infer = infer,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>};

}  // namespace dtr::ops
