// Pools. Windows that exceed the limits of the Pool command, or differ in size, use the Reduce
// command.
#include <numeric>

#include "compiler/backends/neutron/lowering/image.h"
#include "compiler/backends/neutron/lowering/padding.h"
#include "compiler/backends/neutron/lowering/reduction.h"
#include "compiler/ops/adaptive_pool.h"
#include "compiler/ops/integer.h"
#include "compiler/ops/window.h"

namespace dtr::neutron {
namespace {

ImageDims dims_of(const Shape& shape) { return shape.size() == 4 ? kBatchOfImages : kSingleImage; }
// (N, C, H, W) or (C, H, W) as NHWC.
StridedLayout pool_layout(const Shape& shape) { return image_layout(shape, dims_of(shape)); }

npu::Window window_of_pool(const Shape& shape, const ops::Window& window) {
  const auto& [h, w] = window;
  const size_t rank = shape.size();
  const uint32_t channels = word(shape[rank - 3]);
  return npu::dense({.batch = rank == 4 ? word(shape[0]) : 1,
                     .in_height = word(h.in),
                     .in_width = word(w.in),
                     .in_channels = channels,
                     .out_height = word(h.out),
                     .out_width = word(w.out),
                     .out_channels = channels,
                     .kernel_height = word(h.kernel),
                     .kernel_width = word(w.kernel),
                     .stride_height = word(h.stride),
                     .stride_width = word(w.stride),
                     .dilation_height = word(h.dilation),
                     .dilation_width = word(w.dilation),
                     .pad_top = static_cast<int32_t>(h.pad),
                     .pad_left = static_cast<int32_t>(w.pad)});
}

NhwcImage image_of(const Shape& shape) {
  return {shape.size() == 4 ? shape[0] : 1, shape[shape.size() - 3], pool_layout(shape)};
}

// ---- max_pool2d, avg_pool2d

bool is_max(const OpView& view) { return view.def == &ops::kMaxPool2d; }

// A mean of codes divides by the taps inside of the input. Where elements of the padding count, the
// padded tensor is made first.
bool pads_first(const OpView& view, const ops::Window& window) {
  const bool padded = (window.h.pad | window.w.pad | window.h.pad_end | window.w.pad_end) != 0;
  return !is_max(view) && ops::averages_codes(view) && view.attribute<bool>("count_include_pad") &&
         padded;
}

// True for windows of any size that are all inside of the input and divide by one number.
bool is_reduction(const npu::Target& target, const OpView& view, const ops::Window& window) {
  bool larger = false;
  for (const ops::WindowAxis* axis : {&window.h, &window.w}) {
    if (axis->pad != 0 || axis->pad_end != 0 ||
        (axis->out - 1) * axis->stride + (axis->kernel - 1) * axis->dilation >= axis->in)
      return false;
    larger = larger || std::max({axis->kernel, axis->stride, axis->dilation}) > target.max_kernel;
  }
  return larger && (is_max(view) || !ops::averages_codes(view));
}

// The window that the bounds of the Pool command apply to.
ops::Window pool_window_of(const OpQuery& q) {
  const ops::Window window = ops::pool_window(q.view);
  return is_reduction(machine_of(q).target, q.view, window) ? ops::Window{} : window;
}
uint64_t padded_first(const OpQuery& q) {
  const ops::Window window = ops::pool_window(q.view);
  return pads_first(q.view, window)
             ? static_cast<uint64_t>(padded_bytes(image_of(q.view.operand(0).shape), window))
             : 0;
}
// A padded copy is made of the whole operand.
int64_t rows_of_pool(const OpQuery& q) {
  return padded_first(q) > 0 ? 0 : rows_under(pool_window_of(q).h);
}
constexpr Condition kOneDivisor{
    "npu-average-divisor",
    "the NPU divides the windows of an average with a range of its own by one number",
    "count the padding (`count_include_pad`), or leave out padding and `ceil_mode`",
    [](const OpQuery& q) {
      return ops::averages_codes(q.view) || ops::average_divisor(q.view)
                 ? std::nullopt
                 : std::optional<std::string>(
                       "windows at the border of this one count fewer elements");
    }};
constexpr const Condition* kMaxPoolConditions[] = {&kInt8Operand,
                                                   &kNotEmpty,
                                                   &kKernelSize<pool_window_of>,
                                                   &kStride<pool_window_of>,
                                                   &kDilation<pool_window_of>,
                                                   &kWindowNotOfPadding<pool_window_of>,
                                                   &kRowFitsSram<padded_first, rows_of_pool>};
constexpr const Condition* kAvgPoolConditions[] = {&kInt8Operand,
                                                   &kNotEmpty,
                                                   &kOneDivisor,
                                                   &kKernelSize<pool_window_of>,
                                                   &kStride<pool_window_of>,
                                                   &kWindowNotOfPadding<pool_window_of>,
                                                   &kRowFitsSram<padded_first, rows_of_pool>};

std::optional<Kernel> estimate_pool(const Machine&, const OpView& view) {
  return npu::Pool{.window = window_of_pool(view.operand(0).shape, ops::pool_window(view))};
}

void lower_pool(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const BoundOpView view(graph, group.head);
  const Op& op = graph.op(group.head);
  const Type& x = view->operand(0);
  const Quantization& in = *x.quantization;
  const Quantization& out = *view->result().quantization;
  const ValueId result = graph.op(group.root()).results[0];
  const StridedLayout result_layout = pool_layout(view->result().shape);
  const numerics::Range range =
      group.clamp.value_or(is_max(*view) ? numerics::Range{} : ops::range_of(out));
  const bool sums = !is_max(*view) && !ops::averages_codes(*view);
  const numerics::Requantization by =
      sums ? ops::mean_multiplier(*view, *ops::average_divisor(*view)) : numerics::Requantization{};
  ops::Window window = ops::pool_window(*view);
  const NhwcImage image = image_of(x.shape);
  if (is_reduction(builder.target(), *view, window)) {
    const auto loops = [](const ops::WindowAxis& axis) {
      return WindowLoops{.in = axis.in,
                         .out = axis.out,
                         .count = axis.out,
                         .step = axis.stride,
                         .kernel = axis.kernel,
                         .dilation = axis.dilation};
    };
    const npu::Address from = builder.read(op.operands[0], image.layout);
    npu::Reduce reduce = reduce_windows(
        sums ? npu::ReduceKind::kSum : npu::ReduceKind::kMaximum, image.batch, image.channels,
        loops(window.h), loops(window.w), from, builder.define(result, result_layout));
    if (sums) set_sum(reduce, in, out, by);
    set_clamp(reduce, range);
    return builder.emit(reduce, origin_of(graph, group));
  }
  const ImageDims dims = dims_of(x.shape);
  const bool padded = pads_first(*view, window);
  const Pixels input =
      padded ? Pixels{read_padded(builder, op.operands[0], image, window, op.origin), {}}
             : read_image(builder, op.operands[0], dims);
  npu::Pool pool{.window = window_of_pool(x.shape, window),
                 .input = input.address,
                 .kind = is_max(*view) ? npu::PoolKind::kMax
                         : sums        ? npu::PoolKind::kMean
                                       : npu::PoolKind::kAverage};
  if (sums) {
    pool.pad_value = pool.zero_point_in = in.zero_point();
    pool.zero_point_out = out.zero_point();
    pool.rescale = {by.multiplier, by.shift};
  }
  pool.clamp_low = range.low;
  pool.clamp_high = range.high;
  const Pixels output = define_image(builder, result, dims, std::array{op.operands[0]});
  pool.output = output.address;
  pool.window.out = output.strides;
  if (!padded) pool.window.in = input.strides;
  builder.emit(pool, origin_of(graph, group));
}

// ---- adaptive pools

// Windows of an axis repeat after `period` outputs, `step` inputs further on.
struct Repeat {
  int64_t period, step, count;
  explicit Repeat(const ops::AdaptiveAxis& axis)
      : period(axis.out / std::gcd(axis.in, axis.out)),
        step(axis.in / std::gcd(axis.in, axis.out)),
        count(std::gcd(axis.in, axis.out)) {}
};
int64_t different_windows(const OpView& view) {
  const ops::AdaptiveWindow window = ops::adaptive_window(view);
  return Repeat(window.h).period * Repeat(window.w).period;
}

constexpr int64_t kMaxWindowCalls = 64;
constexpr Condition kFewWindows{
    "npu-adaptive-windows",
    "the NPU pools to a given size with at most 64 calls, one for each position of a window that "
    "repeats",
    "choose an output size that divides the input size", [](const OpQuery& q) {
      const int64_t calls = different_windows(q.view);
      return calls <= kMaxWindowCalls
                 ? std::nullopt
                 : std::optional(fmt::format("this pool would take {}", calls));
    }};
constexpr const Condition* kAdaptiveConditions[] = {&kInt8Operand, &kNotEmpty, &kFewWindows,
                                                    &kFitsSram<nothing_staged>};

WindowLoops adaptive_loops(const ops::AdaptiveAxis& axis, int64_t position) {
  const Repeat repeat(axis);
  return {.in = axis.in,
          .out = axis.out,
          .first = axis.first(position),
          .count = repeat.count,
          .step = repeat.step,
          .to_first = position,
          .to_step = repeat.period,
          .kernel = axis.end(position) - axis.first(position)};
}

// As if all windows were one command.
std::optional<Kernel> estimate_adaptive(const Machine&, const OpView& view) {
  const ops::AdaptiveWindow window = ops::adaptive_window(view);
  const NhwcImage image = image_of(view.operand(0).shape);
  const auto loops = [](const ops::AdaptiveAxis& axis) {
    return WindowLoops{.in = axis.in,
                       .out = axis.out,
                       .count = axis.out,
                       .kernel = (axis.in + axis.out - 1) / axis.out};
  };
  return reduce_windows(npu::ReduceKind::kSum, image.batch, image.channels, loops(window.h),
                        loops(window.w), {}, {});
}

void lower_adaptive(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const BoundOpView view(graph, group.head);
  const Quantization& in = *view->operand(0).quantization;
  const Quantization& out = *view->result().quantization;
  const bool max = view->def == &ops::kAdaptiveMaxPool2d;
  const NhwcImage image = image_of(view->operand(0).shape);
  const ops::AdaptiveWindow window = ops::adaptive_window(*view);
  npu::Address output{};
  for (int64_t h = 0; h < Repeat(window.h).period; ++h)
    for (int64_t w = 0; w < Repeat(window.w).period; ++w) {
      const WindowLoops rows = adaptive_loops(window.h, h), columns = adaptive_loops(window.w, w);
      const npu::Address input = builder.read(graph.op(group.head).operands[0], image.layout);
      if (h == 0 && w == 0)
        output =
            builder.define(graph.op(group.root()).results[0], pool_layout(view->result().shape));
      npu::Reduce reduce =
          reduce_windows(max ? npu::ReduceKind::kMaximum : npu::ReduceKind::kSum, image.batch,
                         image.channels, rows, columns, input, output);
      if (!max) set_sum(reduce, in, out, ops::mean_multiplier(*view, rows.kernel * columns.kernel));
      set_clamp(reduce, group.clamp.value_or(max ? numerics::Range{} : ops::range_of(out)));
      builder.emit(reduce, origin_of(graph, group));
    }
}

constexpr LoweringRule kRules[] = {
    {&ops::kAdaptiveAvgPool2d, kAdaptiveConditions, channels_last, estimate_adaptive,
     lower_adaptive, Absorbs::kClamp},
    {&ops::kAdaptiveMaxPool2d, kAdaptiveConditions, channels_last, estimate_adaptive,
     lower_adaptive, Absorbs::kClamp},
    {&ops::kAvgPool2d, kAvgPoolConditions, channels_last, estimate_pool, lower_pool,
     Absorbs::kClamp},
    {&ops::kMaxPool2d, kMaxPoolConditions, channels_last, estimate_pool, lower_pool,
     Absorbs::kClamp},
};

}  // namespace

std::span<const LoweringRule> pool_rules() { return kRules; }

}  // namespace dtr::neutron
