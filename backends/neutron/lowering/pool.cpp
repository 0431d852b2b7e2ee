// Pools and means over dimensions that are neighbours in memory.
#include "backends/neutron/lowering/image.h"
#include "backends/neutron/lowering/padding.h"
#include "backends/neutron/lowering/rules.h"
#include "numerics/mean.h"
#include "ops/window.h"

namespace dtr::neutron {
namespace {

uint32_t word(int64_t value) { return static_cast<uint32_t>(value); }

ImageDims dims_of(const Shape& shape) { return shape.size() == 4 ? kBatchOfImages : kSingleImage; }

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

void set_clamp(npu::Pool& pool, const Group& group, const Quantization& out) {
  const numerics::Range range = group.clamp.value_or(numerics::Range{out.qmin, out.qmax});
  pool.clamp_low = range.low;
  pool.clamp_high = range.high;
}

// ---- max_pool2d, avg_pool2d

// Elements of the padding count: the padded tensor is made first.
bool pads_first(const OpView& view, const ops::Window& window) {
  const bool padded = (window.h.pad | window.w.pad | window.h.pad_end | window.w.pad_end) != 0;
  return view.def == &ops::kAvgPool2d && view.attribute<bool>("count_include_pad") && padded;
}
Image image_of(const Shape& shape) {
  return {shape.size() == 4 ? shape[0] : 1, shape[shape.size() - 3], image_order(shape, dims_of(shape))};
}

ops::Window window_of_question(const Question& q) { return ops::pool_window(q.view); }
uint64_t padded_first(const Question& q) {
  const ops::Window window = ops::pool_window(q.view);
  return pads_first(q.view, window) ? static_cast<uint64_t>(padded_bytes(image_of(q.view.operand(0).shape), window)) : 0;
}
constexpr Check kNoDivisor{"npu-divisor-override", "the NPU divides by the number of elements of the window",
                           "leave `divisor_override` out", [](const Question& q) {
                             return q.view.attributes->find("divisor_override") == nullptr
                                        ? std::nullopt
                                        : std::optional<std::string>("this pool has a `divisor_override`");
                           }};
constexpr const Check* kMaxPoolChecks[] = {&kInt8Operand,
                                           &kNotEmpty,
                                           &kKernelSize<window_of_question>,
                                           &kStride<window_of_question>,
                                           &kDilation<window_of_question>,
                                           &kWindowNotOfPadding<window_of_question>,
                                           &kFitsSram<padded_first>};
constexpr const Check* kAvgPoolChecks[] = {&kInt8Operand,
                                           &kNotEmpty,
                                           &kNoDivisor,
                                           &kKernelSize<window_of_question>,
                                           &kStride<window_of_question>,
                                           &kWindowNotOfPadding<window_of_question>,
                                           &kFitsSram<padded_first>};

std::optional<Kernel> estimate_pool(const Machine&, const OpView& view) {
  return npu::Pool{.window = window_of_pool(view.operand(0).shape, ops::pool_window(view))};
}

void lower_pool(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const BoundOpView view(graph, group.head);
  const Op& op = graph.op(group.head);
  const Type& x = view->operand(0);
  ops::Window window = ops::pool_window(*view);
  const Image image = image_of(x.shape);
  const ImageDims dims = dims_of(x.shape);
  const bool padded = pads_first(*view, window);
  const Pixels input =
      padded ? Pixels{read_padded(builder, op.operands[0], image, window, op.origin), {}} : read_image(builder, op.operands[0], dims);
  npu::Pool pool{.window = window_of_pool(x.shape, window),
                 .input = input.address,
                 .kind = view->def == &ops::kMaxPool2d ? npu::PoolKind::kMax : npu::PoolKind::kAverage};
  set_clamp(pool, group, view->def == &ops::kMaxPool2d ? Quantization{} : *view->result().quantization);
  const Pixels output = define_image(builder, graph.op(group.root()).results[0], dims, std::array{op.operands[0]});
  pool.output = output.address;
  pool.window.out = output.strides;
  if (!padded) pool.window.in = input.strides;
  builder.emit(pool, origin_of(graph, group));
}

// ---- mean.dim

// The mean as a pool over (outer, height, width, inner) elements of memory.
struct Mean {
  int64_t outer = 1, height = 1, width = 1, inner = 1;
  Order x_order, result_order;
};

std::vector<bool> reduced_dims(const OpView& view) {
  const size_t rank = view.operand(0).rank();
  const Ints& dims = view.attribute<Ints>("dim");
  std::vector<bool> reduced(rank, dims.empty());
  for (const int64_t dim : dims) reduced[*ops::normalize_dim(dim, rank)] = true;
  return reduced;
}

// Divides `total` into height · width, both at most `limit`.
bool divide(int64_t total, int64_t limit, int64_t& height, int64_t& width) {
  if (total <= limit) {
    height = total;
    return true;
  }
  for (width = std::min(limit, total / 2); width > 1; --width)
    if (total % width == 0 && total / width <= limit) break;
  height = total / width;
  return height <= limit;
}

// nullopt if the reduced elements are not neighbours in that order, or their number has no divisors that fit the kernel.
std::optional<Mean> mean_over(const OpView& view, const Order& order, int64_t max_kernel) {
  const Shape& shape = view.operand(0).shape;
  const std::vector<bool> reduced = reduced_dims(view);
  const std::vector<int64_t> places = strides(shape, Layout::kContiguous);
  const auto digits = split_at(order, places);
  if (!digits) return std::nullopt;
  // Place of each kept dimension in the result.
  std::vector<int64_t> result_places(shape.size());
  int64_t place = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    result_places[i] = place;
    if (!reduced[i]) place *= shape[i];
  }
  Mean mean{.x_order = order};
  int64_t count = 1;
  Order kept;
  enum class At : uint8_t { kOuter, kReduced, kInner } at = At::kOuter;
  for (const Digit& digit : *digits) {
    if (digit.extent == 1) continue;
    size_t dim = 0;
    while (shape[dim] == 1 || digit.place < places[dim] || digit.place >= places[dim] * shape[dim]) ++dim;
    if (reduced[dim]) {
      if (at == At::kInner) return std::nullopt;
      at = At::kReduced;
      count *= digit.extent;
      continue;
    }
    if (at == At::kReduced) at = At::kInner;
    (at == At::kOuter ? mean.outer : mean.inner) *= digit.extent;
    kept.push_back({digit.extent, digit.place / places[dim] * result_places[dim], 0});
  }
  int64_t step = 1;
  for (size_t i = kept.size(); i-- > 0;) {
    kept[i].step = step;
    step *= kept[i].extent;
  }
  mean.result_order = normalized(std::move(kept));
  if (!divide(count, max_kernel, mean.height, mean.width)) return std::nullopt;
  return mean;
}

// Kept dimensions outside, reduced ones innermost: an order in which the mean is always one pool.
Order reduced_last(const OpView& view) {
  const std::vector<bool> reduced = reduced_dims(view);
  std::vector<int> dims;
  for (const bool wanted : {false, true})
    for (size_t i = 0; i < reduced.size(); ++i)
      if (reduced[i] == wanted) dims.push_back(static_cast<int>(i));
  return dense_order(view.operand(0).shape, dims);
}

npu::Pool pool_of(const Mean& mean) {
  npu::Pool pool{.kind = npu::PoolKind::kMean};
  pool.window = npu::dense({.batch = word(mean.outer),
                            .in_height = word(mean.height),
                            .in_width = word(mean.width),
                            .in_channels = word(mean.inner),
                            .out_height = 1,
                            .out_width = 1,
                            .out_channels = word(mean.inner),
                            .kernel_height = word(mean.height),
                            .kernel_width = word(mean.width),
                            .stride_height = 1,
                            .stride_width = 1,
                            .dilation_height = 1,
                            .dilation_width = 1});
  return pool;
}

constexpr Check kMeanElements{"npu-mean-elements", "the NPU takes the mean of height x width elements, each at most {max_kernel}",
                              "reduce in two steps, or choose another extent", [](const Question& q) -> std::optional<std::string> {
                                if (mean_over(q.view, reduced_last(q.view), q.machine.target.max_kernel)) return std::nullopt;
                                return fmt::format("{} elements do not divide so",
                                                   q.view.operand(0).elements() / q.view.result().elements());
                              }};
constexpr const Check* kMeanChecks[] = {&kInt8Operand, &kNotEmpty, &kRank, &kFitsSram<nothing_staged>, &kMeanElements};

std::optional<Kernel> estimate_mean(const Machine& machine, const OpView& view) {
  // In channels-last memory where that does it, as the solver will place it.
  const Shape& shape = view.operand(0).shape;
  auto mean = mean_over(view, order_of(shape, Layout::kChannelsLast), machine.target.max_kernel);
  if (!mean) mean = mean_over(view, reduced_last(view), machine.target.max_kernel);
  return mean ? std::optional<Kernel>(pool_of(*mean)) : std::nullopt;
}

LayoutChoice mean_layouts(const OpView& view) {
  // Over height and width, channels-last keeps all lanes busy. The result's order follows from the operand's.
  if (view.operand(0).rank() != 4) return {};
  const std::vector<bool> reduced = reduced_dims(view);
  const bool spatial = !reduced[0] && !reduced[1] && reduced[2] && reduced[3];
  return {.contiguous = !spatial, .channels_last = true, .mixed = spatial};
}

void lower_mean(Builder& builder, const Group& group) {
  const Graph& graph = builder.graph();
  const BoundOpView view(graph, group.head);
  const Op& op = graph.op(group.head);
  const Type& x = view->operand(0);
  const int64_t max_kernel = builder.target().max_kernel;
  std::optional<Mean> mean;
  if (!graph.is_constant(op.operands[0])) mean = mean_over(*view, builder.order(op.operands[0]), max_kernel);
  if (!mean) mean = mean_over(*view, reduced_last(*view), max_kernel);
  DTR_CHECK(mean.has_value());
  npu::Pool pool = pool_of(*mean);
  const Quantization& in = *x.quantization;
  const Quantization& out = *view->result().quantization;
  const auto by = numerics::mean_requantization(in.scale(), out.scale(), mean->height * mean->width);
  pool.pad_value = in.zero_point();
  pool.zero_point_in = in.zero_point();
  pool.zero_point_out = out.zero_point();
  pool.rescale = {by.multiplier, by.shift};
  set_clamp(pool, group, out);
  pool.input = builder.read(op.operands[0], mean->x_order);
  pool.output = builder.define(graph.op(group.root()).results[0], mean->result_order);
  builder.emit(pool, origin_of(graph, group));
}

constexpr Rule kRules[] = {
    {&ops::kAvgPool2d, kAvgPoolChecks, channels_last, estimate_pool, lower_pool, Absorbs::kClamp},
    {&ops::kMaxPool2d, kMaxPoolChecks, channels_last, estimate_pool, lower_pool, Absorbs::kClamp},
    {&ops::kMeanDim, kMeanChecks, mean_layouts, estimate_mean, lower_mean, Absorbs::kClamp},
};

}  // namespace

std::span<const Rule> pool_rules() { return kRules; }

}  // namespace dtr::neutron
