// Convolutions, pools, resizing and other operators of images.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "compiler/compositions/norms.h"
#include "compiler/compositions/pools.h"
#include "compiler/compositions/windows.h"
#include "compiler/frontends/onnx/operators.h"

namespace dtr::onnx {
namespace {

// The arguments that convolutions and pools have in common, one entry a spatial dimension.
struct Window {
  Ints kernel, stride, dilation, begin, end;
  std::string automatic;
};

Result<Ints> spread(const NodeImport& node, const std::string& name, size_t count) {
  DTR_ASSIGN(Ints values, node.ints(name, Ints(count, 1)));
  if (values.size() != count)
    return node.invalid(
        fmt::format("attribute `{}` has {} entries, expected {}", name, values.size(), count));
  for (const int64_t value : values)
    if (value < 1 || value > int64_t{1} << 30)
      return node.invalid(fmt::format("attribute `{}` has {}", name, value));
  return values;
}

Result<Window> window_of(const NodeImport& node, const Ints& kernel) {
  const size_t spatial = kernel.size();
  Window window{.kernel = kernel};
  DTR_ASSIGN(window.stride, spread(node, "strides", spatial));
  DTR_ASSIGN(window.dilation, spread(node, "dilations", spatial));
  DTR_ASSIGN(window.automatic, node.string("auto_pad", "NOTSET"));
  DTR_ASSIGN(const Ints pads, node.ints("pads", Ints(2 * spatial, 0)));
  if (pads.size() != 2 * spatial)
    return node.invalid(fmt::format("{} pads for {} dimensions", pads.size(), spatial));
  window.begin.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(spatial));
  window.end.assign(pads.begin() + static_cast<ptrdiff_t>(spatial), pads.end());
  const std::string& mode = window.automatic;
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER" &&
      !mode.empty())
    return node.invalid(fmt::format("auto_pad is `{}`", mode));
  if (mode == "VALID") {
    window.begin.assign(spatial, 0);
    window.end.assign(spatial, 0);
  }
  return window;
}

// Padding so that there is an output for each `stride` inputs.
void pad_to_same(Window& window, const Shape& x) {
  if (!window.automatic.starts_with("SAME")) return;
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    const int64_t in = x[2 + i], out = (in + window.stride[i] - 1) / window.stride[i];
    const int64_t span = (window.kernel[i] - 1) * window.dilation[i] + 1;
    const int64_t total = std::max<int64_t>((out - 1) * window.stride[i] + span - in, 0);
    window.begin[i] = window.automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    window.end[i] = total - window.begin[i];
  }
}

Result<Ints> kernel_of_weight(const NodeImport& node, const Shape& weight) {
  if (weight.size() < 3 || weight.size() > 5)
    return node.unsupported(fmt::format("a weight of shape {}", to_string(weight)));
  Ints kernel(weight.begin() + 2, weight.end());
  DTR_ASSIGN(const Ints stated, node.ints("kernel_shape", kernel));
  if (stated != kernel) return node.invalid("its kernel_shape is not that of its weight");
  return kernel;
}

// ---- convolutions

Result<ValueId> convolution_3d(NodeImport& node, ValueId x, ValueId weight, ValueId bias,
                               const Window& window, int64_t groups) {
  DTR_ASSIGN(x, node.pad(x,
                         {window.begin[2], window.end[2], window.begin[1], window.end[1],
                          window.begin[0], window.end[0]},
                         0));
  return compositions::convolution3d(node, x,
                                     {.weight = weight,
                                      .bias = bias,
                                      .stride = window.stride,
                                      .padding = {0, 0, 0},
                                      .dilation = window.dilation,
                                      .groups = groups});
}

}  // namespace

Result<ValueId> convolved(NodeImport& node, ValueId x, ValueId weight, ValueId bias) {
  const Shape of = node.shape(x), of_weight = node.shape(weight);
  DTR_ASSIGN(const Ints kernel, kernel_of_weight(node, of_weight));
  DTR_ASSIGN(Window window, window_of(node, kernel));
  DTR_ASSIGN(const int64_t groups, node.integer("group", int64_t{1}));
  if (of.size() != of_weight.size())
    return node.invalid(
        fmt::format("an operand of {} and a weight of {}", to_string(of), to_string(of_weight)));
  pad_to_same(window, of);
  if (kernel.size() == 3) return convolution_3d(node, x, weight, bias, window, groups);
  Attributes attributes{{"transposed", false},
                        {"stride", window.stride},
                        {"dilation", window.dilation},
                        {"padding", window.begin},
                        {"output_padding", Ints(kernel.size(), 0)},
                        {"groups", groups}};
  if (window.begin != window.end) attributes.set("padding_end", window.end);
  Values operands{x, weight};
  if (bias.valid()) operands.push_back(bias);
  return node.emit("aten.convolution", std::move(operands), attributes);
}

namespace {

Result<Values> convolution(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId weight, node.value(1));
  DTR_ASSIGN(const ValueId bias, node.optional_value(2));
  return only(convolved(node, x, weight, bias));
}

// Operands: x, weight, bias, a summand; with an activation.
Result<Values> fused_convolution(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId weight, node.value(1));
  DTR_ASSIGN(const ValueId bias, node.optional_value(2));
  DTR_ASSIGN(ValueId y, convolved(node, x, weight, bias));
  if (node.has(3)) {
    DTR_ASSIGN(const ValueId summand, node.value(3));
    DTR_ASSIGN(y, node.add(y, summand));
  }
  DTR_ASSIGN(const std::string activation, node.string("activation", ""));
  DTR_ASSIGN(const Floats params, node.floats("activation_params", Floats{}));
  if (activation.empty()) return Values{y};
  if (activation == "Relu") return only(node.emit("aten.relu", {y}));
  if (activation == "Sigmoid") return only(node.emit("aten.sigmoid", {y}));
  if (activation == "Tanh") return only(node.emit("aten.tanh", {y}));
  if (activation == "LeakyRelu" && params.size() == 1)
    return only(node.emit("aten.leaky_relu", {y}, {{"negative_slope", params[0]}}));
  if (activation == "Clip" && params.size() == 2)
    return only(node.emit("aten.clamp", {y}, {{"min", params[0]}, {"max", params[1]}}));
  return node.unsupported(fmt::format("the activation {}", activation));
}

// `operands`: x, weight, bias, which may be invalid. Where the padding at the begin and at the end
// differ, the rest is cut off.
Result<ValueId> transposed_3d(NodeImport& node, const Values& operands, const Window& window,
                              const Ints& beyond, int64_t groups) {
  Ints common(3);
  for (size_t i = 0; i < 3; ++i) common[i] = std::min(window.begin[i], window.end[i]);
  const compositions::Convolution3d of{.weight = operands[1],
                                       .bias = operands[2],
                                       .stride = window.stride,
                                       .padding = common,
                                       .dilation = window.dilation,
                                       .groups = groups};
  DTR_ASSIGN(ValueId y, compositions::transposed_convolution3d(node, operands[0], of, beyond));
  for (size_t i = 0; i < 3; ++i) {
    const int64_t extent = node.shape(y)[2 + i];
    DTR_ASSIGN(y, node.slice(y, static_cast<int64_t>(2 + i), window.begin[i] - common[i],
                             extent - (window.end[i] - common[i])));
  }
  return y;
}

Result<Values> transposed_convolution(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId weight, node.value(1));
  DTR_ASSIGN(const ValueId bias, node.optional_value(2));
  const Shape of = node.shape(x), of_weight = node.shape(weight);
  DTR_ASSIGN(const Ints kernel, kernel_of_weight(node, of_weight));
  DTR_ASSIGN(Window window, window_of(node, kernel));
  DTR_ASSIGN(const int64_t groups, node.integer("group", int64_t{1}));
  const size_t spatial = kernel.size();
  if (of.size() != of_weight.size())
    return node.unsupported(
        fmt::format("a transposed convolution of {} by {}", to_string(of), to_string(of_weight)));
  DTR_ASSIGN(Ints beyond, node.ints("output_padding", Ints(spatial, 0)));
  DTR_ASSIGN(Ints wanted, node.ints("output_shape", Ints{}));
  if (wanted.size() == spatial + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (beyond.size() != spatial || (!wanted.empty() && wanted.size() != spatial))
    return node.invalid("its output_padding or output_shape does not fit");
  if (wanted.empty() && window.automatic.starts_with("SAME"))
    for (size_t i = 0; i < spatial; ++i) wanted.push_back(of[2 + i] * window.stride[i]);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int64_t total = window.stride[i] * (of[2 + i] - 1) + beyond[i] +
                          (kernel[i] - 1) * window.dilation[i] + 1 - wanted[i];
    const int64_t pads = std::max<int64_t>(total, 0);
    window.begin[i] = window.automatic == "SAME_UPPER" ? pads / 2 : pads - pads / 2;
    window.end[i] = pads - window.begin[i];
    beyond[i] += std::max<int64_t>(-total, 0);
  }
  if (spatial == 3) return only(transposed_3d(node, {x, weight, bias}, window, beyond, groups));
  Attributes attributes{{"transposed", true},          {"stride", window.stride},
                        {"dilation", window.dilation}, {"padding", window.begin},
                        {"output_padding", beyond},    {"groups", groups}};
  if (window.begin != window.end) attributes.set("padding_end", window.end);
  Values operands{x, weight};
  if (bias.valid()) operands.push_back(bias);
  return only(node.emit("aten.convolution", std::move(operands), attributes));
}

// ---- pools

enum class Pool : uint8_t { kMax, kAverage, kSum };

struct PoolRule {
  Pool kind = Pool::kMax;
  bool ceil_mode = false, counts_padding = false;
};

// The windows along dimension `i`, of `extent` elements.
ops::WindowAxis axis_of(const Window& window, size_t i, int64_t extent, bool ceil_mode) {
  ops::WindowAxis axis{.in = extent,
                       .kernel = window.kernel[i],
                       .stride = window.stride[i],
                       .pad = window.begin[i],
                       .pad_end = window.end[i],
                       .dilation = window.dilation[i]};
  axis.out = ops::window_outputs(axis, ceil_mode);
  return axis;
}

// How far the last window reaches beyond the padding.
int64_t beyond_padding(const ops::WindowAxis& axis) {
  const int64_t end = axis.first(axis.out - 1) + (axis.kernel - 1) * axis.dilation + 1;
  return std::max<int64_t>(end - axis.in - axis.pad_end, 0);
}

// By what the sum of each window is divided.
std::vector<double> divisors_of(const ops::WindowAxis& axis, bool counts_padding) {
  ops::WindowAxis counted = axis;
  if (counts_padding) {
    counted.in += axis.pad + axis.pad_end;
    counted.pad = counted.pad_end = 0;
  }
  std::vector<double> divisors;
  for (int64_t o = 0; o < axis.out; ++o) {
    const ops::WindowAxis::Taps taps = counted.taps(o);
    divisors.push_back(static_cast<double>(std::max<int64_t>(taps.end - taps.begin, 1)));
  }
  return divisors;
}

// Sums of windows as a convolution of each channel by ones, divided by the number of elements.
Result<ValueId> summed_with_gaps(NodeImport& node, ValueId x, const Window& window,
                                 const PoolRule& rule) {
  const Shape of = node.shape(x);
  const ops::WindowAxis down = axis_of(window, 0, of[2], rule.ceil_mode),
                        across = axis_of(window, 1, of[3], rule.ceil_mode);
  if (down.out < 1 || across.out < 1)
    return node.invalid(
        fmt::format("a window of [{}] over {}", fmt::join(window.kernel, ", "), to_string(of)));
  DTR_ASSIGN(
      const ValueId ones,
      node.constant(DType::kFloat32, {of[1], 1, window.kernel[0], window.kernel[1]}, 1, "ones"));
  Attributes attributes{{"transposed", false},          {"stride", window.stride},
                        {"dilation", window.dilation},  {"padding", window.begin},
                        {"output_padding", Ints{0, 0}}, {"groups", of[1]}};
  const Ints end{window.end[0] + beyond_padding(down), window.end[1] + beyond_padding(across)};
  if (window.begin != end) attributes.set("padding_end", end);
  DTR_ASSIGN(const ValueId sum, node.emit("aten.convolution", {x, ones}, attributes));
  if (rule.kind == Pool::kSum) return sum;
  std::vector<double> factors;
  for (const double rows : divisors_of(down, rule.counts_padding))
    for (const double columns : divisors_of(across, rule.counts_padding))
      factors.push_back(1 / (rows * columns));
  if (std::ranges::adjacent_find(factors, std::not_equal_to<>()) == factors.end())
    return node.times(sum, factors[0]);
  DTR_ASSIGN(const ValueId factor,
             node.constant(DType::kFloat32, factors, Shape{1, 1, down.out, across.out}));
  return node.mul(sum, factor);
}

// Our pools take padding of up to half of the kernel.
bool is_wide(const Window& window) {
  for (size_t i = 0; i < window.kernel.size(); ++i)
    if (std::max(window.begin[i], window.end[i]) > window.kernel[i] / 2) return true;
  return false;
}

// Over the last two dimensions of (N, C, H, W). Padding beyond half of the kernel is put around x;
// the windows that ceil_mode then starts in the padding behind x are none.
Result<ValueId> pooled_2d(NodeImport& node, ValueId x, Window window, const PoolRule& rule) {
  const Shape of = node.shape(x);
  const ops::WindowAxis down = axis_of(window, 0, of[2], rule.ceil_mode),
                        across = axis_of(window, 1, of[3], rule.ceil_mode);
  const bool wide = is_wide(window);
  if (rule.kind != Pool::kMax && window.dilation != Ints{1, 1})
    return summed_with_gaps(node, x, window, rule);
  if (wide && (rule.kind == Pool::kMax || rule.counts_padding || rule.kind == Pool::kSum)) {
    DTR_ASSIGN(x, node.pad(x, {window.begin[1], window.end[1], window.begin[0], window.end[0]},
                           rule.kind == Pool::kMax ? -std::numeric_limits<double>::infinity() : 0));
    window.begin = window.end = {0, 0};
  }
  Attributes attributes{{"kernel_size", window.kernel},
                        {"stride", window.stride},
                        {"padding", window.begin},
                        {"ceil_mode", rule.ceil_mode}};
  if (window.begin != window.end) attributes.set("padding_end", window.end);
  if (rule.kind == Pool::kMax) {
    attributes.set("dilation", window.dilation);
  } else {
    attributes.set("count_include_pad", rule.counts_padding);
    if (rule.kind == Pool::kSum) attributes.set("divisor_override", int64_t{1});
  }
  const std::string_view op = rule.kind == Pool::kMax ? "aten.max_pool2d" : "aten.avg_pool2d";
  DTR_ASSIGN(ValueId y, node.emit(op, {x}, attributes));
  if (!rule.ceil_mode || !wide) return y;
  DTR_ASSIGN(y, node.slice(y, 2, 0, down.out));
  return node.slice(y, 3, 0, across.out);
}

// The part of a window over dimension `i` alone, as one over two dimensions.
Window along(const Window& window, size_t i) {
  return {.kernel = {window.kernel[i], 1},
          .stride = {window.stride[i], 1},
          .dilation = {window.dilation[i], 1},
          .begin = {window.begin[i], 0},
          .end = {window.end[i], 0}};
}

Result<ValueId> pooled(NodeImport& node, ValueId x, const Window& window, const PoolRule& rule) {
  const Shape of = node.shape(x);
  const size_t spatial = window.kernel.size();
  const std::string sizes =
      fmt::format("a window of [{}] over {}", fmt::join(window.kernel, ", "), to_string(of));
  if (of.size() != spatial + 2) return node.invalid(sizes);
  if (spatial < 1 || spatial > 3) return node.unsupported(sizes);
  if (element_count(of) == 0) return node.unsupported("its operand is empty");
  const bool padded = std::ranges::any_of(window.begin, [](int64_t n) { return n != 0; }) ||
                      std::ranges::any_of(window.end, [](int64_t n) { return n != 0; });
  if (rule.kind == Pool::kAverage && !rule.counts_padding &&
      (is_wide(window) || (spatial == 3 && (padded || rule.ceil_mode)))) {
    // The sum of a window divided by the number of its elements.
    const PoolRule sums{.kind = Pool::kSum, .ceil_mode = rule.ceil_mode};
    DTR_ASSIGN(const ValueId sum, pooled(node, x, window, sums));
    DTR_ASSIGN(const ValueId ones, node.constant(DType::kFloat32, of, 1, "ones"));
    DTR_ASSIGN(const ValueId count, pooled(node, ones, window, sums));
    return node.div(sum, count);
  }
  if (spatial == 1) {
    DTR_ASSIGN(x, node.view(x, {of[0], of[1], of[2], 1}));
    DTR_ASSIGN(x, pooled_2d(node, x, along(window, 0), rule));
    return node.view(x, {of[0], of[1], node.shape(x)[2]});
  }
  if (spatial == 2) return pooled_2d(node, x, window, rule);
  // Height and width, then the depth.
  Window flat{.kernel = {window.kernel[1], window.kernel[2]},
              .stride = {window.stride[1], window.stride[2]},
              .dilation = {window.dilation[1], window.dilation[2]},
              .begin = {window.begin[1], window.begin[2]},
              .end = {window.end[1], window.end[2]}};
  DTR_ASSIGN(x, node.view(x, {of[0], of[1] * of[2], of[3], of[4]}));
  DTR_ASSIGN(x, pooled_2d(node, x, flat, rule));
  const int64_t h = node.shape(x)[2], w = node.shape(x)[3];
  DTR_ASSIGN(x, node.view(x, {of[0], of[1], of[2], h * w}));
  DTR_ASSIGN(x, pooled_2d(node, x, along(window, 0), rule));
  return node.view(x, {of[0], of[1], node.shape(x)[2], h, w});
}

// The window of a pool of operands of this shape.
Result<Window> pool_window(const NodeImport& node, const Shape& of) {
  DTR_ASSIGN(const Ints kernel, node.ints("kernel_shape"));
  for (const int64_t extent : kernel)
    if (extent < 1) return node.invalid(fmt::format("a kernel of {}", extent));
  DTR_ASSIGN(Window window, window_of(node, kernel));
  for (const Ints* padding : {&window.begin, &window.end})
    if (std::ranges::any_of(*padding, [](int64_t each) { return each < 0; }))
      return node.invalid(fmt::format("pads of [{}]", fmt::join(*padding, ", ")));
  if (of.size() == kernel.size() + 2) pad_to_same(window, of);
  return window;
}

Result<ValueId> pool_of(NodeImport& node, ValueId x, Pool kind) {
  const Shape& of = node.shape(x);
  DTR_ASSIGN(Window window, pool_window(node, of));
  for (size_t i = 0; i < window.kernel.size() && !window.automatic.starts_with("SAME"); ++i)
    if (std::max(window.begin[i], window.end[i]) >= window.kernel[i])
      return node.unsupported(
          fmt::format("pads of {} and {} around dimension {}, where the kernel has {}: a window "
                      "would hold padding alone",
                      window.begin[i], window.end[i], i + 2, window.kernel[i]),
          "Pad by less than the kernel, as ONNX Runtime wants it too.");
  PoolRule rule{.kind = kind};
  DTR_ASSIGN(rule.ceil_mode, node.flag("ceil_mode"));
  // With ceil_mode the only window may be larger than its operand, of whose elements it takes all.
  for (size_t i = 0; rule.ceil_mode && i < window.kernel.size() && i + 2 < of.size(); ++i)
    if (window.begin[i] == 0 && window.end[i] == 0 && window.dilation[i] == 1 && of[i + 2] > 0 &&
        window.kernel[i] - of[i + 2] < window.stride[i])
      window.kernel[i] = std::min(window.kernel[i], of[i + 2]);
  DTR_ASSIGN(rule.counts_padding, node.flag("count_include_pad"));
  return pooled(node, x, window, rule);
}

}  // namespace

Result<ValueId> average_pooled(NodeImport& node, ValueId x) {
  return pool_of(node, x, Pool::kAverage);
}

Result<ValueId> globally_reduced(NodeImport& node, ValueId x, std::string_view op) {
  const size_t rank = node.type(x).rank();
  if (rank < 3) return node.unsupported(fmt::format("a pool of {}", to_string(node.shape(x))));
  Ints dims;
  for (size_t i = 2; i < rank; ++i) dims.push_back(static_cast<int64_t>(i));
  return node.emit(op, {x}, {{"dim", dims}, {"keepdim", true}});
}

namespace {

// What the number of a plane's first element is: (N, C, 1, …).
Result<ValueId> plane_starts(NodeImport& node, const Shape& shape, int64_t elements) {
  std::vector<double> starts;
  for (int64_t i = 0; i < shape[0] * shape[1]; ++i)
    starts.push_back(static_cast<double>(i * elements));
  Shape of(shape.size(), 1);
  of[0] = shape[0];
  of[1] = shape[1];
  return node.constant(DType::kInt64, starts, of);
}

// The places of the greatest elements, numbered over the whole operand: of a plane in the order in
// which it is stored, or, where `by_columns`, with its first dimension as the innermost.
Result<ValueId> greatest(NodeImport& node, ValueId x, const Shape& result, bool by_columns) {
  const Shape of = node.shape(x);
  DTR_ASSIGN(const Window window, pool_window(node, of));
  compositions::Windows windows;
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    ops::WindowAxis axis = axis_of(window, i, of[2 + i], false);
    axis.out = result[2 + i];
    DTR_ASSIGN(windows.emplace_back(), compositions::windows_of(node, axis));
  }
  DTR_ASSIGN(ValueId places, compositions::places_of_greatest(node, x, windows, result));
  const int64_t elements = element_count(Shape(of.begin() + 2, of.end()));
  if (by_columns) {
    std::vector<double> numbers;
    for (int64_t flat = 0; flat < elements; ++flat) {
      int64_t rest = flat, number = 0, step = elements;
      for (size_t i = of.size(); i-- > 2; rest /= of[i]) {
        step /= of[i];
        number += rest % of[i] * step;
      }
      numbers.push_back(static_cast<double>(number));
    }
    DTR_ASSIGN(const ValueId table, node.constant(DType::kInt64, numbers));
    DTR_ASSIGN(places, node.view(places, {element_count(result)}));
    DTR_ASSIGN(places, node.emit("aten.index_select", {table, places}, {{"dim", int64_t{0}}}));
    DTR_ASSIGN(places, node.view(places, result));
  }
  DTR_ASSIGN(const ValueId starts, plane_starts(node, of, elements));
  return node.add(places, starts);
}

// Codes compare as their numbers do.
Result<Values> max_pool(NodeImport& node) {
  DTR_ASSIGN(const int64_t order, node.integer("storage_order", int64_t{0}));
  DTR_ASSIGN(const ValueId given, node.held(0));
  const Type of = node.type(given);
  const bool real = of.quantized() || is_float(of.dtype);
  ValueId x = given;
  if (!real) {
    DTR_ASSIGN(x, node.cast(given, DType::kFloat32));
  }
  Values made(1);
  DTR_ASSIGN(made[0], pool_of(node, x, Pool::kMax));
  const Shape result = node.shape(made[0]);
  if (!real) {
    DTR_ASSIGN(made[0], node.cast(made[0], of.dtype));
  }
  if (!node.wants(1)) return made;
  DTR_ASSIGN(const ValueId numbers, of.quantized() ? node.value(0) : Result<ValueId>(x));
  DTR_ASSIGN(made.emplace_back(), greatest(node, numbers, result, order != 0));
  return made;
}

// Zeros with each element at the place that its index names: of the whole result, whose planes are
// those of the operand.
Result<Values> max_unpool(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(ValueId places, node.value(1));
  const Shape of = node.shape(x);
  DTR_ASSIGN(const Window window, pool_window(node, of));
  const size_t spatial = window.kernel.size();
  if (of.size() != spatial + 2) return node.invalid(fmt::format("x is {}", to_string(of)));
  Ints size;
  for (size_t i = 0; i < spatial; ++i)
    size.push_back((of[2 + i] - 1) * window.stride[i] + window.kernel[i] - window.begin[i] -
                   window.end[i]);
  if (node.has(2)) {
    DTR_ASSIGN(const Ints stated, node.integers(2));
    if (stated.size() != of.size() || stated[0] != of[0] || stated[1] != of[1])
      return node.invalid(fmt::format("x is {}, the result {}", to_string(of), to_string(stated)));
    size.assign(stated.begin() + 2, stated.end());
  }
  Shape whole{of[0], of[1]};
  whole.insert(whole.end(), size.begin(), size.end());
  DTR_TRY(node.check_shape(whole));
  DTR_ASSIGN(const ValueId starts, plane_starts(node, of, element_count(size)));
  DTR_ASSIGN(places, node.sub(places, starts));
  return only(compositions::put_to_places(node, x, places, size));
}

Result<Values> average_pool(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  return only(average_pooled(node, x));
}

Result<Values> global_average_pool(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  return only(globally_reduced(node, x, "aten.mean.dim"));
}
Result<Values> global_max_pool(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  return only(globally_reduced(node, x, "aten.amax"));
}

// (Σ |x|^p)^(1/p) over windows.
Result<Values> lp_pool(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(const int64_t p, node.integer("p", int64_t{2}));
  if (p < 1) return node.invalid(fmt::format("p is {}", p));
  if (p == 2) {
    DTR_ASSIGN(x, node.mul(x, x));
  } else {
    DTR_ASSIGN(x, node.emit("aten.abs", {x}));
    if (p != 1) {
      DTR_ASSIGN(x,
                 node.emit("aten.pow.Tensor_Scalar", {x}, {{"exponent", static_cast<double>(p)}}));
    }
  }
  DTR_ASSIGN(x, pool_of(node, x, Pool::kSum));
  if (p == 1) return Values{x};
  if (p == 2) return only(node.emit("aten.sqrt", {x}));
  return only(node.emit("aten.pow.Tensor_Scalar", {x}, {{"exponent", 1 / static_cast<double>(p)}}));
}
Result<Values> global_lp_pool(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const int64_t p, node.integer("p", int64_t{2}));
  Ints dims;
  for (size_t i = 2; i < node.type(x).rank(); ++i) dims.push_back(static_cast<int64_t>(i));
  if (dims.empty() || p < 1) return node.invalid(fmt::format("p is {}", p));
  return only(compositions::vector_norm(node, x, static_cast<double>(p), dims, true));
}

// ---- columns of windows back to an image

Result<Values> col2im(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const Ints size, node.integers(1));
  DTR_ASSIGN(const Ints kernel, node.integers(2));
  if (size.size() != 2 || kernel.size() != 2)
    return node.unsupported(fmt::format("{} dimensions", size.size()));
  DTR_ASSIGN(const Ints stride, spread(node, "strides", 2));
  DTR_ASSIGN(const Ints dilation, spread(node, "dilations", 2));
  DTR_ASSIGN(const Ints pads, node.ints("pads", Ints(4, 0)));
  if (pads.size() != 4) return node.invalid("its pads do not fit");
  // Other padding at the end than at the begin: as if the image went on there.
  Ints whole = size, padding{std::max(pads[0], pads[2]), std::max(pads[1], pads[3])};
  if (pads[0] != pads[2] || pads[1] != pads[3]) {
    padding = {0, 0};
    whole = {size[0] + pads[0] + pads[2], size[1] + pads[1] + pads[3]};
  }
  DTR_ASSIGN(ValueId image,
             compositions::columns_to_image(
                 node, x, whole,
                 {.kernel = kernel, .dilation = dilation, .padding = padding, .stride = stride}));
  if (whole != size) {
    DTR_ASSIGN(image, node.slice(image, 2, pads[0], pads[0] + size[0]));
    DTR_ASSIGN(image, node.slice(image, 3, pads[1], pads[1] + size[1]));
  }
  return Values{image};
}

}  // namespace

std::vector<Operator> window_operators() {
  return {
      row("AveragePool", 1, 1, average_pool),
      row("Col2Im", 3, 3, col2im),
      row("Conv", 2, 3, convolution),
      row("ConvTranspose", 2, 3, transposed_convolution),
      row("FusedConv", 2, 4, fused_convolution, kMicrosoft),
      row("GlobalAveragePool", 1, 1, global_average_pool),
      row("GlobalLpPool", 1, 1, global_lp_pool),
      row("GlobalMaxPool", 1, 1, global_max_pool),
      row("LpPool", 1, 1, lp_pool),
      moving_row("MaxPool", 1, 1, max_pool),
      row("MaxUnpool", 2, 3, max_unpool),
  };
}

}  // namespace dtr::onnx
