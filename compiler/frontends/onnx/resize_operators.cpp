// Resize, and Upsample of older versions: nearest neighbours by aten.upsample_nearest2d or by
// index, interpolation by aten.upsample_bilinear2d or by a matrix along each dimension.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "compiler/frontends/onnx/operators.h"
#include "compiler/ops/resize.h"

namespace dtr::onnx {
namespace {

constexpr int64_t kMostWeights = int64_t{1} << 22;

// How one dimension is resized.
struct Axis {
  int64_t in = 1, out = 1;
  double scale = 1;           // outputs an input
  double start = 0, end = 1;  // of the region of tf_crop_and_resize
};

struct Rule {
  std::string mode, transform, rounding;
  double cubic = -0.75, outside = 0;
  bool excludes_outside = false, antialias = false;
};

// The place of output `o` in the input. Nearest neighbours are found in float, as ONNX Runtime
// does: places between two elements depend on the last bit.
template <class T>
T place_in(const Axis& axis, const Rule& rule, int64_t o) {
  const auto at = static_cast<T>(o), scale = static_cast<T>(axis.scale);
  const auto in = static_cast<T>(axis.in), out = static_cast<T>(axis.out);
  const T half{0.5};
  if (rule.transform == "asymmetric") return at / scale;
  if (rule.transform == "align_corners") return axis.out == 1 ? T{0} : at * (in - 1) / (out - 1);
  if (rule.transform == "pytorch_half_pixel")
    return axis.out == 1 ? T{0} : (at + half) / scale - half;
  if (rule.transform == "half_pixel_symmetric") {
    const T adjusted = out / (scale * in), centre = in / 2;
    return centre * (1 - adjusted) + (at + half) / scale - half;
  }
  if (rule.transform == "tf_crop_and_resize") {
    const auto start = static_cast<T>(axis.start), end = static_cast<T>(axis.end);
    return axis.out > 1 ? start * (in - 1) + at * (end - start) * (in - 1) / (out - 1)
                        : half * (start + end) * (in - 1);
  }
  return (at + half) / scale - half;  // half_pixel
}
double place_of(const Axis& axis, const Rule& rule, int64_t o) {
  return place_in<double>(axis, rule, o);
}

bool is_outside(const Axis& axis, const Rule& rule, double place) {
  return rule.transform == "tf_crop_and_resize" &&
         (place < 0 || place > static_cast<double>(axis.in - 1));
}

int64_t nearest(const Axis& axis, const Rule& rule, int64_t o) {
  const auto place = static_cast<double>(place_in<float>(axis, rule, o));
  double at = 0;
  if (rule.rounding == "floor") {
    at = std::floor(place);
  } else if (rule.rounding == "ceil") {
    at = std::ceil(place);
  } else if (rule.rounding == "round_prefer_ceil") {
    at = std::floor(place + 0.5);
  } else {
    at = std::ceil(place - 0.5);
  }
  return std::clamp<int64_t>(static_cast<int64_t>(at), 0, axis.in - 1);
}

double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// Row o has the parts of the input's elements in output o; elements outside count as those of the
// edge.
std::vector<double> weights_of(const Axis& axis, const Rule& rule) {
  std::vector<double> weights(static_cast<size_t>(axis.in * axis.out));
  const double stretch = rule.antialias ? std::max(1.0, 1 / axis.scale) : 1;
  const double reach = (rule.mode == "cubic" ? 2 : 1) * stretch;
  for (int64_t o = 0; o < axis.out; ++o) {
    const auto row = static_cast<size_t>(o * axis.in);
    const double place = place_of(axis, rule, o);
    if (is_outside(axis, rule, place)) continue;
    const auto first = static_cast<int64_t>(std::floor(place - reach)) + 1;
    const auto last = static_cast<int64_t>(std::ceil(place + reach)) - 1;
    double sum = 0;
    for (int64_t j = first; j <= last; ++j) {
      const double distance = (static_cast<double>(j) - place) / stretch;
      const double part = rule.mode == "cubic" ? cubic(distance, rule.cubic)
                                               : std::max(0.0, 1 - std::abs(distance));
      const bool inside = j >= 0 && j < axis.in;
      if (!inside && rule.excludes_outside) continue;
      sum += part;
      weights[row + static_cast<size_t>(std::clamp<int64_t>(j, 0, axis.in - 1))] += part;
    }
    if (sum != 0)
      for (int64_t j = 0; j < axis.in; ++j) weights[row + static_cast<size_t>(j)] /= sum;
  }
  return weights;
}

// Our op for the last two of four dimensions, if it samples as the rule does.
Result<std::optional<ValueId>> by_op(NodeImport& node, ValueId x, const std::vector<Axis>& axes,
                                     const Rule& rule) {
  if (axes.size() != 4 || axes[0].in != axes[0].out || axes[1].in != axes[1].out)
    return std::nullopt;
  const Ints size{axes[2].out, axes[3].out};
  const bool whole = std::ranges::all_of(axes, [](const Axis& axis) {
    return std::abs(static_cast<double>(axis.in) * axis.scale - static_cast<double>(axis.out)) <
           1e-6;
  });
  Attributes attributes{{"output_size", size}};
  if (!whole) attributes.set("scales", Floats{axes[2].scale, axes[3].scale});
  if (rule.mode == "linear") {
    if (rule.antialias || rule.excludes_outside) return std::nullopt;
    const bool shrinks_to_one = axes[2].out == 1 || axes[3].out == 1;
    const bool half = rule.transform == "half_pixel" ||
                      (rule.transform == "pytorch_half_pixel" && !shrinks_to_one);
    if (!half && rule.transform != "align_corners" && rule.transform != "asymmetric")
      return std::nullopt;
    attributes.set("align_corners", rule.transform == "align_corners");
    if (rule.transform == "asymmetric") attributes.set("half_pixel_centers", false);
    DTR_ASSIGN(const ValueId y, node.emit("aten.upsample_bilinear2d", {x}, attributes));
    return std::optional(y);
  }
  for (const bool align : {false, true})
    for (const bool half : {false, true}) {
      bool same = true;
      for (size_t i = 2; i < 4 && same; ++i) {
        const ops::ResizeRule ours{.in = axes[i].in,
                                   .out = axes[i].out,
                                   .factor = whole ? 0 : axes[i].scale,
                                   .align_corners = align,
                                   .half_pixel_centers = half};
        for (int64_t o = 0; o < axes[i].out && same; ++o)
          same = ops::nearest_input(ours, o) == nearest(axes[i], rule, o);
      }
      if (!same) continue;
      if (align) attributes.set("align_corners", true);
      if (half) attributes.set("half_pixel_centers", true);
      DTR_ASSIGN(const ValueId y, node.emit("aten.upsample_nearest2d", {x}, attributes));
      return std::optional(y);
    }
  return std::nullopt;
}

Result<ValueId> by_index(NodeImport& node, ValueId x, const std::vector<Axis>& axes,
                         const Rule& rule) {
  for (size_t i = 0; i < axes.size(); ++i) {
    std::vector<double> places;
    bool same = axes[i].in == axes[i].out;
    for (int64_t o = 0; o < axes[i].out; ++o) {
      const int64_t place = nearest(axes[i], rule, o);
      same = same && place == o;
      places.push_back(static_cast<double>(place));
    }
    if (same) continue;
    DTR_ASSIGN(const ValueId index, node.constant(DType::kInt64, places));
    DTR_ASSIGN(x, node.emit("aten.index_select", {x, index}, {{"dim", static_cast<int64_t>(i)}}));
  }
  return x;
}

Result<ValueId> by_matrices(NodeImport& node, ValueId x, const std::vector<Axis>& axes,
                            const Rule& rule) {
  const size_t rank = axes.size();
  for (size_t i = 0; i < rank; ++i) {
    const Axis& axis = axes[i];
    if (axis.in * axis.out > kMostWeights)
      return node.unsupported(fmt::format("{} elements are resized to {}", axis.in, axis.out),
                              "Resize smaller images.");
    const std::vector<double> weights = weights_of(axis, rule);
    bool identity = axis.in == axis.out;
    for (int64_t o = 0; o < axis.out && identity; ++o)
      identity = weights[static_cast<size_t>(o * axis.in + o)] == 1;
    if (identity) continue;
    DTR_ASSIGN(const ValueId weight,
               node.constant(DType::kFloat32, weights, Shape{axis.out, axis.in}));
    Ints order;
    for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int64_t>(d));
    std::swap(order[i], order[rank - 1]);
    DTR_ASSIGN(x, node.permute(x, order));
    DTR_ASSIGN(x, node.emit("aten.linear", {x, weight}));
    DTR_ASSIGN(x, node.permute(x, order));
  }
  if (rule.transform != "tf_crop_and_resize" || rule.outside == 0) return x;
  // Outputs outside of the image are a number.
  if (node.type(x).elements() > kMostWeights)
    return node.unsupported("a region of more than 2^22 elements", "Resize smaller images.");
  Shape of;
  std::vector<double> outside(1);
  for (const Axis& axis : axes) {
    of.push_back(axis.out);
    std::vector<double> next;
    for (const double before : outside)
      for (int64_t o = 0; o < axis.out; ++o)
        next.push_back(before != 0 || is_outside(axis, rule, place_of(axis, rule, o)) ? 1 : 0);
    outside = std::move(next);
  }
  DTR_ASSIGN(const ValueId mask, node.constant(DType::kBool, outside, of));
  DTR_ASSIGN(const ValueId number, node.scalar(rule.outside, x));
  return node.emit("aten.where.self", {mask, number, x});
}

// Extents and scales of all dimensions.
Result<std::vector<Axis>> axes_of(NodeImport& node, const Shape& of, size_t scales_at,
                                  size_t sizes_at, size_t region_at) {
  std::vector<Axis> all;
  for (const int64_t extent : of) all.push_back({.in = extent, .out = extent});
  Ints named(of.size());
  for (size_t i = 0; i < of.size(); ++i) named[i] = static_cast<int64_t>(i);
  DTR_ASSIGN(named, node.ints("axes", named));
  DTR_ASSIGN(const std::string policy, node.string("keep_aspect_ratio_policy", "stretch"));
  std::vector<double> scales, sizes, region;
  if (node.has(scales_at)) {
    DTR_ASSIGN(scales, node.known(scales_at));
  } else if (node.has_attribute("scales")) {
    DTR_ASSIGN(scales, node.floats("scales"));
  }
  if (sizes_at != 0 && node.has(sizes_at)) {
    DTR_ASSIGN(sizes, node.known(sizes_at));
  }
  if (region_at != 0 && node.has(region_at)) {
    DTR_ASSIGN(region, node.known(region_at));
  }
  const std::vector<double>& given = sizes.empty() ? scales : sizes;
  if (given.size() != named.size() || (!region.empty() && region.size() != 2 * named.size()))
    return node.invalid(fmt::format("{} sizes for {}", given.size(), to_string(of)));
  std::vector<size_t> dims;
  for (const int64_t each : named) {
    DTR_ASSIGN(const int64_t dim, node.axis(each, of.size()));
    dims.push_back(static_cast<size_t>(dim));
  }
  double joint = 0;  // the scale of all dimensions where the ratio of the extents is kept
  for (size_t i = 0; i < dims.size() && !sizes.empty() && policy != "stretch"; ++i) {
    const double scale = sizes[i] / static_cast<double>(of[dims[i]]);
    joint = i == 0                   ? scale
            : policy == "not_larger" ? std::min(joint, scale)
                                     : std::max(joint, scale);
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    Axis& axis = all[dims[i]];
    const auto in = static_cast<double>(axis.in);
    if (!region.empty()) {
      axis.start = region[i];
      axis.end = region[dims.size() + i];
    }
    double out = sizes.empty() ? 0 : sizes[i];
    if (sizes.empty()) {
      axis.scale = static_cast<double>(static_cast<float>(scales[i]));
      const bool crops = !region.empty();
      out = std::floor(in * (crops ? axis.end - axis.start : 1) * axis.scale);
    } else if (joint > 0) {
      axis.scale = joint;
      out = std::floor(joint * in + 0.5);
    } else {
      axis.scale = out / in;
    }
    if (!(out >= 1) || out > 1e6 || !(axis.scale > 0))
      return node.unsupported(fmt::format("{} elements are resized to {}", axis.in, out));
    axis.out = static_cast<int64_t>(out);
  }
  return all;
}

Result<ValueId> resized(NodeImport& node, ValueId x, const std::vector<Axis>& axes,
                        const Rule& rule) {
  const bool real = is_float(node.dtype(x));
  if (rule.mode == "nearest" && rule.transform == "tf_crop_and_resize")
    return node.unsupported("nearest neighbours of a region");
  if (real && rule.mode != "cubic") {
    DTR_ASSIGN(const std::optional<ValueId> made, by_op(node, x, axes, rule));
    if (made) return *made;
  }
  if (rule.mode == "nearest") return by_index(node, x, axes, rule);
  const DType dtype = node.dtype(x);
  DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
  DTR_ASSIGN(x, by_matrices(node, x, axes, rule));
  return node.cast(x, dtype);
}

Result<Values> resize(NodeImport& node) {
  Rule rule;
  DTR_ASSIGN(rule.mode, node.word("mode", "nearest", {"nearest", "linear", "cubic"}));
  DTR_ASSIGN(rule.transform, node.string("coordinate_transformation_mode", "half_pixel"));
  DTR_ASSIGN(rule.rounding, node.string("nearest_mode", "round_prefer_floor"));
  DTR_ASSIGN(rule.cubic, node.number("cubic_coeff_a", -0.75));
  DTR_ASSIGN(rule.outside, node.number("extrapolation_value", 0));
  DTR_ASSIGN(rule.excludes_outside, node.flag("exclude_outside"));
  DTR_ASSIGN(rule.antialias, node.flag("antialias"));
  DTR_ASSIGN(const ValueId x, node.value(0));
  const bool crops = rule.transform == "tf_crop_and_resize";
  if (node.version() < 11) {
    // Operands: x, scales.
    rule.transform = "asymmetric";
    rule.rounding = "floor";
    DTR_ASSIGN(const std::vector<Axis> old, axes_of(node, node.shape(x), 1, 0, 0));
    return only(resized(node, x, old, rule));
  }
  DTR_ASSIGN(const std::vector<Axis> axes, axes_of(node, node.shape(x), 2, 3, crops ? 1 : 0));
  return only(resized(node, x, axes, rule));
}

Result<Values> upsample(NodeImport& node) {
  Rule rule{.transform = "asymmetric", .rounding = "floor"};
  DTR_ASSIGN(rule.mode, node.word("mode", "nearest", {"nearest", "linear", "cubic"}));
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const std::vector<Axis> axes, axes_of(node, node.shape(x), 1, 0, 0));
  return only(resized(node, x, axes, rule));
}

}  // namespace

std::vector<Operator> resize_operators() {
  return {
      row("Resize", 1, 4, resize),
      row("Upsample", 1, 2, upsample),
  };
}

}  // namespace dtr::onnx
