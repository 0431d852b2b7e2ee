#include "compiler/ops/resize.h"

#include <algorithm>
#include <cmath>

namespace dtr::ops {
namespace {

// Input elements an output element steps.
template <class T>
T step_of(const ResizeRule& rule) {
  if (rule.align_corners && rule.out > 1)
    return static_cast<T>(rule.in - 1) / static_cast<T>(rule.out - 1);
  if (rule.align_corners) return 0;
  return rule.factor > 0 ? static_cast<T>(1.0 / rule.factor)
                         : static_cast<T>(rule.in) / static_cast<T>(rule.out);
}

// As many fractional bits as a step has room for.
int32_t fraction_bits_for(double step) {
  int32_t bits = 30;
  while (bits > numerics::kResizeWeightBits && std::ldexp(step, bits) >= 1073741824.0) --bits;
  return bits;
}

}  // namespace

ResizeRule resize_rule(const OpView& view, size_t axis) {
  const Floats factors = view.attribute_or("scales", Floats{0, 0});
  const bool align = view.attribute_or("align_corners", false);
  const bool bilinear = view.def->name == "aten.upsample_bilinear2d";
  return {.in = view.operand(0).shape[2 + axis],
          .out = view.attribute<Ints>("output_size")[axis],
          .factor = factors[axis],
          .align_corners = align,
          .half_pixel_centers = view.attribute_or("half_pixel_centers", bilinear && !align)};
}

Result<void> verify_resize(const OpView& view) {
  DTR_TRY(check_activation(view));
  DTR_TRY(check_keeps_quantization(view));
  const Shape& shape = view.operand(0).shape;
  if (shape.size() != 4)
    return broken(view,
                  fmt::format("the operand has shape {}, expected 4 dimensions", to_string(shape)));
  for (const int64_t extent : shape)
    if (extent < 1 || extent > kMaxExtent)
      return broken(view, fmt::format("the operand has shape {}", to_string(shape)));
  DTR_TRY(check_ints(view, "output_size", 2, 1, kMaxExtent));
  const Floats factors = view.attribute_or("scales", Floats{0, 0});
  const auto sane = [](double factor) { return factor == 0 || (factor >= 1e-6 && factor <= 1e6); };
  if (factors.size() != 2 || !sane(factors[0]) || !sane(factors[1]))
    return broken(view, fmt::format("`scales` is [{}], expected 2 factors from 1e-6 to 1e6",
                                    fmt::join(factors, ", ")));
  if (const int64_t bits = view.attribute_or<int64_t>("fraction_bits", 10); bits != 10)
    return broken(view, fmt::format("`fraction_bits` is {}, expected 10", bits));
  return check_result_shape(view, infer_resize(view).front().shape);
}

std::vector<Type> infer_resize(const OpView& view) {
  std::vector<Type> types = infer_like_first(view);
  const Ints& size = view.attribute<Ints>("output_size");
  std::copy(size.begin(), size.end(), types[0].shape.begin() + 2);
  return types;
}

int64_t nearest_input(const ResizeRule& rule, int64_t o) {
  const float at =
      (static_cast<float>(o) + (rule.half_pixel_centers ? 0.5F : 0.0F)) * step_of<float>(rule);
  const auto index = static_cast<int64_t>(rule.align_corners ? std::round(at) : std::floor(at));
  return std::clamp<int64_t>(index, 0, rule.in - 1);
}

double resize_position(const ResizeRule& rule, double o) {
  const double step = step_of<double>(rule);
  return rule.half_pixel_centers ? (o + 0.5) * step - 0.5 : o * step;
}

std::vector<BilinearTaps> bilinear_taps(const ResizeRule& rule) {
  std::vector<BilinearTaps> taps;
  for (int64_t o = 0; o < rule.out; ++o) {
    const double at = std::max(resize_position(rule, static_cast<double>(o)), 0.0);
    const auto lower = std::min(static_cast<int64_t>(at), rule.in - 1);
    taps.push_back(
        {lower, std::min(lower + 1, rule.in - 1), std::min(at - static_cast<double>(lower), 1.0)});
  }
  return taps;
}

std::optional<numerics::ResizeAxis> nearest_axis(const ResizeRule& rule) {
  numerics::ResizeAxis axis{.in = rule.in, .out = rule.out};
  const auto step = static_cast<double>(step_of<float>(rule));
  axis.fraction_bits = fraction_bits_for(step);
  axis.step = std::llround(std::ldexp(step, axis.fraction_bits));
  // ⌊(o · step + start) / 2^bits⌋ has to be the wanted index for each o; beyond the ends the index
  // is limited anyway.
  const int64_t one = int64_t{1} << axis.fraction_bits;
  int64_t low = INT32_MIN;
  int64_t high = INT32_MAX;
  for (int64_t o = 0; o < rule.out; ++o) {
    const int64_t index = nearest_input(rule, o);
    if (index > 0) low = std::max(low, index * one - o * axis.step);
    if (index < rule.in - 1) high = std::min(high, (index + 1) * one - 1 - o * axis.step);
  }
  if (low > high) return std::nullopt;
  axis.start = std::clamp<int64_t>(0, low, high);
  return axis;
}

numerics::ResizeAxis bilinear_axis(const ResizeRule& rule, bool as_tflite) {
  numerics::ResizeAxis axis{.in = rule.in, .out = rule.out};
  if (as_tflite) {
    const bool aligned = rule.align_corners && rule.out > 1;
    const int64_t from = aligned ? rule.in - 1 : rule.in;
    const int64_t to = aligned ? rule.out - 1 : rule.out;
    axis.step = (numerics::kResizeOne * from + to / 2) / to;
    axis.start = rule.half_pixel_centers ? axis.step / 2 - numerics::kResizeOne / 2 : 0;
    return axis;
  }
  const auto step = step_of<double>(rule);
  axis.fraction_bits = fraction_bits_for(step);
  axis.step = std::llround(std::ldexp(step, axis.fraction_bits));
  axis.start = std::llround(std::ldexp(resize_position(rule, 0), axis.fraction_bits));
  return axis;
}

}  // namespace dtr::ops
