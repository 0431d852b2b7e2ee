// What makes one element of several: sums, means, extremes, softmax, pools; and resizing.
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
              Emitter::options(OptionsType::ReducerOptions, fb::CreateReducerOptions(emitter.tables(), keep)));
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
              Emitter::options(OptionsType::SoftmaxOptions, fb::CreateSoftmaxOptions(emitter.tables(), 1.0F)));
}

std::optional<Refusal> refuse_softmax(const Graph&, const Op& op, const OpView& view) {
  if (op.operands.size() > 1) return no_form("SOFTMAX takes no mask; this one has one");
  const Quantization& q = *view.result().quantization;
  if (q.scale() == 1.0F / 256 && q.zero_point() == -128) return std::nullopt;
  return no_form(
      fmt::format("SOFTMAX gives results of scale 1/256 and zero point -128; this one has {} and {}", q.scale(), q.zero_point()));
}

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
      counts && padding.kind == fb::Padding::SAME ? Padding{.top = h.pad, .bottom = h.pad_end, .left = w.pad, .right = w.pad_end} : padding;
  const TensorIndex input = padded(emitter, x.tensor, x.shape, added, average ? static_cast<int8_t>(q.zero_point()) : int8_t{-128}, q);
  const TensorIndex result = image_result(emitter, {x.shape[0], h.out, w.out, x.shape[3]});
  const auto table = fb::CreatePool2DOptions(emitter.tables(), added.kind, static_cast<int32_t>(w.stride), static_cast<int32_t>(h.stride),
                                             static_cast<int32_t>(w.kernel), static_cast<int32_t>(h.kernel));
  emitter.add(kCode, 2, {input}, result, Emitter::options(OptionsType::Pool2DOptions, table));
  finish_image(emitter, result, true);
}

std::optional<Refusal> refuse_max_pool(const Graph&, const Op&, const OpView& view) {
  const auto [h, w] = ops::pool_window(view);
  if (h.dilation * w.dilation == 1) return std::nullopt;
  return no_form(fmt::format("MAX_POOL_2D has no dilation; this one has {}x{}", h.dilation, w.dilation));
}

std::optional<Refusal> refuse_average_pool(const Graph&, const Op&, const OpView& view) {
  if (!ops::averages_codes(view)) return no_form("AVERAGE_POOL_2D keeps its operand's quantization and divides by the window's elements");
  const ops::Window window = ops::pool_window(view);
  const Padding padding = padding_of(window);
  if (!view.attribute<bool>("count_include_pad")) {
    if (padding.kind == fb::Padding::SAME || !padding.added()) return std::nullopt;
    return no_form("AVERAGE_POOL_2D leaves padding out of the mean where it is SAME padding; this one has another");
  }
  for (const ops::WindowAxis* axis : {&window.h, &window.w})
    if ((axis->out - 1) * axis->stride + axis->kernel > axis->in + axis->pad + axis->pad_end)
      return no_form("AVERAGE_POOL_2D divides by whole windows; one of this reaches behind its padding");
  return std::nullopt;
}

// ---- resizing

template <BuiltinOperator kCode>
void resize(Emitter& emitter) {
  const Image x = image_of(emitter, 0, true);
  const Shape& to = emitter.result_type().shape;
  const ops::ResizeRule rule = ops::resize_rule(emitter.view(), 0);
  const bool half = rule.half_pixel_centers;
  Options options;
  if constexpr (kCode == BuiltinOperator::RESIZE_BILINEAR) {
    options =
        Emitter::options(OptionsType::ResizeBilinearOptions, fb::CreateResizeBilinearOptions(emitter.tables(), rule.align_corners, half));
  } else {
    options = Emitter::options(OptionsType::ResizeNearestNeighborOptions,
                               fb::CreateResizeNearestNeighborOptions(emitter.tables(), rule.align_corners, half));
  }
  const TensorIndex result = image_result(emitter, {x.shape[0], to[to.size() - 2], to[to.size() - 1], x.shape[3]});
  emitter.add(kCode, 3, {x.tensor, emitter.integers({to[to.size() - 2], to[to.size() - 1]})}, result, options);
  finish_image(emitter, result, true);
}

// Positions are those of the ratio of the extents.
std::optional<Refusal> refuse_resize(const Graph&, const Op&, const OpView& view) {
  for (const size_t axis : {size_t{0}, size_t{1}}) {
    const ops::ResizeRule rule = ops::resize_rule(view, axis);
    if (rule.factor == 0 || rule.align_corners || rule.factor * static_cast<double>(rule.in) == static_cast<double>(rule.out)) continue;
    return no_form(fmt::format("TensorFlow Lite resizes by the ratio of the extents; this one has factor {} from {} to {}", rule.factor,
                               rule.in, rule.out));
  }
  return std::nullopt;
}

constexpr Form kForms[] = {
    {&ops::kAmax, any_layout, reduce<BuiltinOperator::REDUCE_MAX>},
    {&ops::kAmin, any_layout, reduce<BuiltinOperator::REDUCE_MIN>},
    {&ops::kAvgPool2d, channels_last, pool<BuiltinOperator::AVERAGE_POOL_2D>, refuse_average_pool},
    {&ops::kMaxPool2d, channels_last, pool<BuiltinOperator::MAX_POOL_2D>, refuse_max_pool},
    {&ops::kMeanDim, any_layout, reduce<BuiltinOperator::MEAN>},
    {&ops::kSoftmax, any_layout, softmax, refuse_softmax},
    {&ops::kSumDim, any_layout, reduce<BuiltinOperator::SUM>},
    {&ops::kUpsampleBilinear2d, channels_last, resize<BuiltinOperator::RESIZE_BILINEAR>, refuse_resize},
    {&ops::kUpsampleNearest2d, channels_last, resize<BuiltinOperator::RESIZE_NEAREST_NEIGHBOR>, refuse_resize},
};

}  // namespace

std::span<const Form> reduction_forms() { return kForms; }

}  // namespace dtr::neutron_ir
