// Resizing of images → aten.upsample_nearest2d, aten.upsample_bilinear2d.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/frontends/pt2/operators.h"

namespace dtr::pt2 {
namespace {

// Result size and scale factors along `spatial` dimensions, as attributes for two. PyTorch computes
// positions from the factors where they are given.
Result<Attributes> resized(NodeImport& node, const Shape& shape, size_t spatial) {
  Floats factors;
  if (node.has("scale_factors")) {
    DTR_ASSIGN(factors, node.floats("scale_factors"));
    if (factors.size() != spatial)
      return node.unsupported(
          fmt::format("`scale_factors` has {} entries, expected {}", factors.size(), spatial));
  }
  Ints size;
  if (node.has("output_size")) {
    DTR_ASSIGN(size, node.spread("output_size", spatial));
  } else {
    for (size_t i = 0; i < factors.size(); ++i) {
      const double extent = std::floor(static_cast<double>(shape[2 + i]) * factors[i]);
      if (!(extent >= 1 && extent <= 1e9))
        return node.unsupported(fmt::format(
            "the factor {} resizes {} elements to none, or to too many", factors[i], shape[2 + i]));
      size.push_back(static_cast<int64_t>(extent));
    }
  }
  // The overloads without a list: scales, or scales_h and scales_w.
  if (factors.empty()) {
    for (const std::string_view name :
         spatial == 1   ? std::vector<std::string_view>{"scales"}
         : spatial == 2 ? std::vector<std::string_view>{"scales_h", "scales_w"}
                        : std::vector<std::string_view>{"scales_d", "scales_h", "scales_w"}) {
      DTR_ASSIGN(const double factor, node.number(name, 0));
      factors.push_back(factor);
    }
  }
  if (size.size() != spatial) return node.unsupported("neither a size nor scale factors");
  if (spatial == 1) {
    size.insert(size.begin(), 1);
    factors.insert(factors.begin(), 0);
  }
  Attributes attributes{{"output_size", std::move(size)}};
  if (std::any_of(factors.begin(), factors.end(), [](double factor) { return factor != 0; }))
    attributes.set("scales", std::move(factors));
  return attributes;
}

// (N, C, D, H, W): its planes, then the depth.
Result<Values> upsampled_in_space(NodeImport& node, std::string_view op, const Attributes& more) {
  DTR_ASSIGN(ValueId x, node.tensor(node.has("input") ? "input" : "self"));
  const Shape shape = node.type(x).shape;
  if (shape.size() != 5)
    return node.unsupported(
        fmt::format("the input has shape {}, expected 5 dimensions", to_string(shape)));
  DTR_ASSIGN(const Attributes all, resized(node, shape, 3));
  const Ints size = all.get<Ints>("output_size");
  const Floats factors = all.get_or("scales", Floats{0, 0, 0});
  const auto along = [&](Ints extents, const Floats& scales) {
    Attributes attributes = more;
    attributes.set("output_size", std::move(extents));
    if (scales[0] != 0 || scales[1] != 0) attributes.set("scales", scales);
    return attributes;
  };
  DTR_ASSIGN(x, node.view(x, {shape[0], shape[1] * shape[2], shape[3], shape[4]}));
  DTR_ASSIGN(x, node.emit(op, {x}, along({size[1], size[2]}, {factors[1], factors[2]})));
  DTR_ASSIGN(x, node.view(x, {shape[0], shape[1], shape[2], size[1] * size[2]}));
  DTR_ASSIGN(x, node.emit(op, {x}, along({size[0], size[1] * size[2]}, {factors[0], 0})));
  return one(node.view(x, {shape[0], shape[1], size[0], size[1], size[2]}));
}

// Resizes (N, C, H, W), or (N, C, W) as an image of height 1.
Result<Values> upsampled(NodeImport& node, size_t spatial, std::string_view op,
                         const Attributes& more) {
  DTR_ASSIGN(ValueId x, node.tensor(node.has("input") ? "input" : "self"));
  Shape shape = node.type(x).shape;
  if (shape.size() != spatial + 2)
    return node.unsupported(fmt::format("the input has shape {}, expected {} dimensions",
                                        to_string(shape), spatial + 2));
  DTR_ASSIGN(Attributes attributes, resized(node, shape, spatial));
  for (const auto& [name, value] : more) attributes.set(name, value);
  if (spatial == 1) {
    shape.insert(shape.begin() + 2, 1);
    DTR_ASSIGN(x, node.view(x, shape));
  }
  DTR_ASSIGN(x, node.emit(op, {x}, attributes));
  if (spatial == 1) {
    Shape back = node.type(x).shape;
    back.erase(back.begin() + 2);
    DTR_ASSIGN(x, node.view(x, back));
  }
  return Values{x};
}

template <size_t spatial, bool exact>
Result<Values> nearest(NodeImport& node) {
  const Attributes more = exact ? Attributes{{"half_pixel_centers", true}} : Attributes{};
  if (spatial == 3) return upsampled_in_space(node, "aten.upsample_nearest2d", more);
  return upsampled(node, spatial, "aten.upsample_nearest2d", more);
}

Result<Values> trilinear(NodeImport& node) {
  DTR_ASSIGN(const bool align_corners, node.boolean("align_corners"));
  return upsampled_in_space(node, "aten.upsample_bilinear2d", {{"align_corners", align_corners}});
}

template <size_t spatial>
Result<Values> linear(NodeImport& node) {
  DTR_ASSIGN(const bool align_corners, node.boolean("align_corners"));
  return upsampled(node, spatial, "aten.upsample_bilinear2d", {{"align_corners", align_corners}});
}

// ---- by a matrix product along each dimension

double cubic(double x) {
  constexpr double kA = -0.75;
  x = std::abs(x);
  if (x <= 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA : 0;
}
// What antialiasing takes in place of it, and of the linear function.
double smooth_cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? ((x - 5) * x + 8) * x * kA - 4 * kA : 0;
}
double hat(double x) { return std::max(0.0, 1 - std::abs(x)); }

enum class Filter : uint8_t { kCubic, kSmoothCubic, kSmoothLinear };

// Row i has the parts of the input's elements in the output's element i.
std::vector<double> weights_of(int64_t in, int64_t out, double factor, bool align_corners,
                               Filter filter) {
  std::vector<double> weights(static_cast<size_t>(in * out));
  const double scale =
      align_corners ? (out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0)
      : factor > 0  ? 1 / factor
                    : static_cast<double>(in) / static_cast<double>(out);
  for (int64_t i = 0; i < out; ++i) {
    const auto at = [&](int64_t j) -> double& {
      return weights[static_cast<size_t>(i * in + std::clamp<int64_t>(j, 0, in - 1))];
    };
    if (filter == Filter::kCubic) {
      const double place = align_corners ? scale * static_cast<double>(i)
                                         : scale * (static_cast<double>(i) + 0.5) - 0.5;
      const auto first = static_cast<int64_t>(std::floor(place));
      for (int64_t j = first - 1; j <= first + 2; ++j)
        at(j) += cubic(place - static_cast<double>(j));
      continue;
    }
    const double reach = filter == Filter::kSmoothCubic ? 2 : 1;
    const double width = std::max(scale, 1.0), centre = scale * (static_cast<double>(i) + 0.5);
    const auto low = std::max<int64_t>(static_cast<int64_t>(centre - reach * width + 0.5), 0);
    const auto high = std::min<int64_t>(static_cast<int64_t>(centre + reach * width + 0.5), in);
    double sum = 0;
    for (int64_t j = low; j < high; ++j) {
      const double x = (static_cast<double>(j) - centre + 0.5) / width;
      at(j) = filter == Filter::kSmoothCubic ? smooth_cubic(x) : hat(x);
      sum += at(j);
    }
    for (int64_t j = low; j < high && sum != 0; ++j) at(j) /= sum;
  }
  return weights;
}

template <Filter kFilter>
Result<Values> by_matrices(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.tensor(node.has("input") ? "input" : "self"));
  const Shape shape = node.type(x).shape;
  if (shape.size() != 4)
    return node.unsupported(
        fmt::format("the input has shape {}, expected 4 dimensions", to_string(shape)));
  DTR_ASSIGN(const bool align_corners, node.boolean("align_corners"));
  DTR_ASSIGN(const Attributes resize, resized(node, shape, 2));
  const Ints size = resize.get<Ints>("output_size");
  const Floats factors = resize.get_or("scales", Floats{0, 0});
  for (size_t d = 2; d-- > 0;) {
    const int64_t in = shape[2 + d];
    if (size[d] < 1 || in < 1 || in * size[d] > (int64_t{1} << 22))
      return node.unsupported(fmt::format("{} elements are resized to {}", in, size[d]),
                              "resize smaller images");
    DTR_ASSIGN(const ValueId weight,
               node.constant(node.type(x).dtype,
                             weights_of(in, size[d], factors[d], align_corners, kFilter),
                             Shape{size[d], in}));
    if (d == 0) {
      DTR_ASSIGN(x, node.permute(x, {0, 1, 3, 2}));
    }
    DTR_ASSIGN(x, node.emit("aten.linear", {x, weight}));
  }
  DTR_ASSIGN(x, node.permute(x, {0, 1, 3, 2}));
  return Values{x};
}

}  // namespace

std::vector<Operator> resize_operators() {
  const auto resize = [](std::string_view target, std::string_view op,
                         Result<Values> (*build)(NodeImport&)) -> Operator {
    return {.target = target, .op = op, .build = build};
  };
  constexpr std::string_view kNearest = "aten.upsample_nearest2d",
                             kBilinear = "aten.upsample_bilinear2d";
  return {
      resize("aten._upsample_nearest_exact1d.default", kNearest, nearest<1, true>),
      resize("aten._upsample_nearest_exact1d.vec", kNearest, nearest<1, true>),
      resize("aten._upsample_nearest_exact2d.default", kNearest, nearest<2, true>),
      resize("aten._upsample_nearest_exact2d.vec", kNearest, nearest<2, true>),
      resize("aten._upsample_nearest_exact3d.default", kNearest, nearest<3, true>),
      resize("aten._upsample_nearest_exact3d.vec", kNearest, nearest<3, true>),
      resize("aten._upsample_bicubic2d_aa.default", "aten.linear",
             by_matrices<Filter::kSmoothCubic>),
      resize("aten._upsample_bicubic2d_aa.vec", "aten.linear", by_matrices<Filter::kSmoothCubic>),
      resize("aten._upsample_bilinear2d_aa.default", "aten.linear",
             by_matrices<Filter::kSmoothLinear>),
      resize("aten._upsample_bilinear2d_aa.vec", "aten.linear", by_matrices<Filter::kSmoothLinear>),
      resize("aten.upsample_bicubic2d.default", "aten.linear", by_matrices<Filter::kCubic>),
      resize("aten.upsample_bicubic2d.vec", "aten.linear", by_matrices<Filter::kCubic>),
      resize("aten.upsample_bilinear2d.default", kBilinear, linear<2>),
      resize("aten.upsample_bilinear2d.vec", kBilinear, linear<2>),
      resize("aten.upsample_linear1d.default", kBilinear, linear<1>),
      resize("aten.upsample_linear1d.vec", kBilinear, linear<1>),
      resize("aten.upsample_nearest1d.default", kNearest, nearest<1, false>),
      resize("aten.upsample_nearest1d.vec", kNearest, nearest<1, false>),
      resize("aten.upsample_nearest2d.default", kNearest, nearest<2, false>),
      resize("aten.upsample_nearest2d.vec", kNearest, nearest<2, false>),
      resize("aten.upsample_nearest3d.default", kNearest, nearest<3, false>),
      resize("aten.upsample_nearest3d.vec", kNearest, nearest<3, false>),
      resize("aten.upsample_trilinear3d.default", kBilinear, trilinear),
      resize("aten.upsample_trilinear3d.vec", kBilinear, trilinear),
  };
}

}  // namespace dtr::pt2
