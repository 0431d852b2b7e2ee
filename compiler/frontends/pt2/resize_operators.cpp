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
         spatial == 1 ? std::vector<std::string_view>{"scales"}
                      : std::vector<std::string_view>{"scales_h", "scales_w"}) {
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
  return upsampled(node, spatial, "aten.upsample_nearest2d",
                   exact ? Attributes{{"half_pixel_centers", true}} : Attributes{});
}

template <size_t spatial>
Result<Values> linear(NodeImport& node) {
  DTR_ASSIGN(const bool align_corners, node.boolean("align_corners"));
  return upsampled(node, spatial, "aten.upsample_bilinear2d", {{"align_corners", align_corners}});
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
      resize("aten.upsample_bilinear2d.default", kBilinear, linear<2>),
      resize("aten.upsample_bilinear2d.vec", kBilinear, linear<2>),
      resize("aten.upsample_linear1d.default", kBilinear, linear<1>),
      resize("aten.upsample_linear1d.vec", kBilinear, linear<1>),
      resize("aten.upsample_nearest1d.default", kNearest, nearest<1, false>),
      resize("aten.upsample_nearest1d.vec", kNearest, nearest<1, false>),
      resize("aten.upsample_nearest2d.default", kNearest, nearest<2, false>),
      resize("aten.upsample_nearest2d.vec", kNearest, nearest<2, false>),
  };
}

}  // namespace dtr::pt2
