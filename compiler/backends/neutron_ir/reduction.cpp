// Converts reductions (sums, means, extremes, softmax, pools) and resizing.
#include "compiler/ops/reduction.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/backends/neutron_ir/forms.h"
#include "compiler/ops/ops.h"
#include "compiler/ops/resize.h"

namespace dtr::neutron_ir {
namespace {

template <BuiltinOperator kCode>
void reduce(Emitter& emitter) {
  const Tensor x = emitter.operand(0);
  const std::vector<bool> reduced = *ops::reduced_dims(emitter.view());
  const bool keep = emitter.view().attribute<bool>("keepdim");
  Ints axes;
  Order order;
  for (size_t place = 0; place < x.order.size(); ++place) {
    const int64_t dim = x.order[place];
    if (reduced[static_cast<size_t>(dim)]) axes.push_back(static_cast<int64_t>(place));
    if (keep || !reduced[static_cast<size_t>(dim)])
      order.push_back(keep ? dim : dim - std::count(reduced.begin(), reduced.begin() + dim, true));
  }
  emitter.add(kCode, 2, {x.index, emitter.integers(axes)}, emitter.result(order),
              Emitter::options(OptionsType::ReducerOptions,
                               fb::CreateReducerOptions(emitter.tables(), keep)));
}

// Over the last dimension of the file's tensor.
void softmax(Emitter& emitter) {
  const size_t rank = emitter.type(0).rank();
  const int64_t wanted = emitter.view().attribute<int64_t>("dim");
  const int64_t dim = wanted < 0 ? wanted + static_cast<int64_t>(rank) : wanted;
  Order order = emitter.operand(0).order;
  std::erase(order, dim);
  order.push_back(dim);
  const TensorIndex x = emitter.operand(0, order);
  emitter.add(BuiltinOperator::SOFTMAX, 2, {x}, emitter.result(order),
              Emitter::options(OptionsType::SoftmaxOptions,
                               fb::CreateSoftmaxOptions(emitter.tables(), 1.0F)));
}

constexpr Condition kNoMask{kNoForm, "SOFTMAX takes no mask", kOtherForm,
                            [](const OpQuery& query) -> std::optional<std::string> {
                              return query.view.operands.size() > 1
                                         ? std::optional<std::string>("this one has one")
                                         : std::nullopt;
                            }};
constexpr Condition kSoftmaxScale{
    kNoForm, "SOFTMAX gives results of scale 1/256 and zero point -128", kOtherForm,
    [](const OpQuery& query) -> std::optional<std::string> {
      const Quantization& q = *query.view.result().quantization;
      if (q.scale() == 1.0F / 256 && q.zero_point() == -128) return std::nullopt;
      return fmt::format("this one has {} and {}", q.scale(), q.zero_point());
    }};
constexpr const Condition* kSoftmaxConditions[] = {&kNoMask, &kSoftmaxScale};

// ---- pools

template <BuiltinOperator kCode>
void pool(Emitter& emitter) {
  const OpView& view = emitter.view();
  const ops::Window window = ops::pool_window(view);
  const auto& [h, w] = window;
  const Image x = image_of(emitter, 0, true);
  const Quantization& q = *view.operand(0).quantization;
  const Padding padding = padding_of(window);
  const bool average = kCode == BuiltinOperator::AVERAGE_POOL_2D;
  const bool counts = average && view.attribute<bool>("count_include_pad");
  // SAME leaves out what it adds; what counts is added before.
  const Padding added =
      counts && padding.kind == fb::Padding::SAME
          ? Padding{.top = h.pad, .bottom = h.pad_end, .left = w.pad, .right = w.pad_end}
          : padding;
  const TensorIndex input = padded(emitter, x.tensor, x.shape, added,
                                   average ? static_cast<int8_t>(q.zero_point()) : int8_t{-128}, q);
  const TensorIndex result = image_result(emitter, {x.shape[0], h.out, w.out, x.shape[3]});
  const auto table = fb::CreatePool2DOptions(
      emitter.tables(), added.kind, static_cast<int32_t>(w.stride), static_cast<int32_t>(h.stride),
      static_cast<int32_t>(w.kernel), static_cast<int32_t>(h.kernel));
  emitter.add(kCode, 2, {input}, result, Emitter::options(OptionsType::Pool2DOptions, table));
  finish_image(emitter, result, true);
}

constexpr Condition kDense{kNoForm, "MAX_POOL_2D has no dilation", kOtherForm,
                           [](const OpQuery& query) -> std::optional<std::string> {
                             const auto [h, w] = ops::pool_window(query.view);
                             if (h.dilation * w.dilation == 1) return std::nullopt;
                             return fmt::format("this one has {}x{}", h.dilation, w.dilation);
                           }};
constexpr const Condition* kMaxPoolConditions[] = {&kDense};

constexpr Condition kAveragesCodes{
    kNoForm,
    "AVERAGE_POOL_2D keeps its operand's quantization and divides by the window's elements",
    kOtherForm, [](const OpQuery& query) -> std::optional<std::string> {
      if (ops::averages_codes(query.view)) return std::nullopt;
      return "this one does not";
    }};
constexpr Condition kSamePadding{
    kNoForm, "AVERAGE_POOL_2D leaves padding out of the mean where it is SAME padding", kOtherForm,
    [](const OpQuery& query) -> std::optional<std::string> {
      if (query.view.attribute<bool>("count_include_pad")) return std::nullopt;
      const Padding padding = padding_of(ops::pool_window(query.view));
      if (padding.kind == fb::Padding::SAME || !padding.added()) return std::nullopt;
      return "this one has another";
    }};
constexpr Condition kWholeWindows{
    kNoForm, "AVERAGE_POOL_2D divides by whole windows where padding counts", kOtherForm,
    [](const OpQuery& query) -> std::optional<std::string> {
      if (!query.view.attribute<bool>("count_include_pad")) return std::nullopt;
      const ops::Window window = ops::pool_window(query.view);
      for (const ops::WindowAxis* axis : {&window.h, &window.w})
        if ((axis->out - 1) * axis->stride + axis->kernel > axis->in + axis->pad + axis->pad_end)
          return "one of this reaches behind its padding";
      return std::nullopt;
    }};
constexpr const Condition* kAveragePoolConditions[] = {&kAveragesCodes, &kSamePadding,
                                                       &kWholeWindows};

// ---- resizing

template <BuiltinOperator kCode>
void resize(Emitter& emitter) {
  const Image x = image_of(emitter, 0, true);
  const Shape& to = emitter.result_type().shape;
  const ops::ResizeRule rule = ops::resize_rule(emitter.view(), 0);
  const bool half = rule.half_pixel_centers;
  Options options;
  if constexpr (kCode == BuiltinOperator::RESIZE_BILINEAR) {
    options = Emitter::options(
        OptionsType::ResizeBilinearOptions,
        fb::CreateResizeBilinearOptions(emitter.tables(), rule.align_corners, half));
  } else {
    options = Emitter::options(
        OptionsType::ResizeNearestNeighborOptions,
        fb::CreateResizeNearestNeighborOptions(emitter.tables(), rule.align_corners, half));
  }
  const TensorIndex result =
      image_result(emitter, {x.shape[0], to[to.size() - 2], to[to.size() - 1], x.shape[3]});
  emitter.add(kCode, 3, {x.tensor, emitter.integers({to[to.size() - 2], to[to.size() - 1]})},
              result, options);
  finish_image(emitter, result, true);
}

constexpr Condition kRatioOfExtents{
    kNoForm, "TensorFlow Lite resizes by the ratio of the extents", kOtherForm,
    [](const OpQuery& query) -> std::optional<std::string> {
      for (const size_t axis : {size_t{0}, size_t{1}}) {
        const ops::ResizeRule rule = ops::resize_rule(query.view, axis);
        if (rule.factor == 0 || rule.align_corners ||
            rule.factor * static_cast<double>(rule.in) == static_cast<double>(rule.out))
          continue;
        return fmt::format("this one has factor {} from {} to {}", rule.factor, rule.in, rule.out);
      }
      return std::nullopt;
    }};
constexpr const Condition* kResizeConditions[] = {&kRatioOfExtents};

constexpr Form kReductionForms[] = {
    {&ops::kAmax, any_layout, reduce<BuiltinOperator::REDUCE_MAX>},
    {&ops::kAmin, any_layout, reduce<BuiltinOperator::REDUCE_MIN>},
    {&ops::kAvgPool2d, channels_last, pool<BuiltinOperator::AVERAGE_POOL_2D>,
     kAveragePoolConditions},
    {&ops::kMaxPool2d, channels_last, pool<BuiltinOperator::MAX_POOL_2D>, kMaxPoolConditions},
    {&ops::kMeanDim, any_layout, reduce<BuiltinOperator::MEAN>},
    {&ops::kSoftmax, any_layout, softmax, kSoftmaxConditions},
    {&ops::kSumDim, any_layout, reduce<BuiltinOperator::SUM>},
    {&ops::kUpsampleBilinear2d, channels_last, resize<BuiltinOperator::RESIZE_BILINEAR>,
     kResizeConditions},
    {&ops::kUpsampleNearest2d, channels_last, resize<BuiltinOperator::RESIZE_NEAREST_NEIGHBOR>,
     kResizeConditions},
};

}  // namespace

std::span<const Form> reduction_forms() { return kReductionForms; }

}  // namespace dtr::neutron_ir
