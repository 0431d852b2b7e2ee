#include "compiler/compositions/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace dtr::compositions {
namespace {

constexpr int64_t kMostPixels = int64_t{1} << 24;
constexpr int64_t kGridModes[] = {1, 0, 2};  // of the operator, by Between

// What the compositions below compute with, on float32.
class Arithmetic {
 public:
  explicit Arithmetic(GraphBuilder& builder) : builder_(builder) {}

  Result<ValueId> number(double value) const {
    return builder_.constant(DType::kFloat32, {}, value, "number");
  }
  Result<ValueId> add(ValueId a, ValueId b) const {
    return builder_.emit("aten.add.Tensor", {a, b});
  }
  Result<ValueId> sub(ValueId a, ValueId b) const {
    return builder_.emit("aten.sub.Tensor", {a, b});
  }
  Result<ValueId> mul(ValueId a, ValueId b) const {
    return builder_.emit("aten.mul.Tensor", {a, b});
  }
  Result<ValueId> plus(ValueId a, double summand) const {
    if (summand == 0) return a;
    DTR_ASSIGN(const ValueId b, number(summand));
    return add(a, b);
  }
  Result<ValueId> times(ValueId a, double factor) const {
    if (factor == 1) return a;
    DTR_ASSIGN(const ValueId b, number(factor));
    return mul(a, b);
  }
  Result<ValueId> clamp(ValueId a, double low, double high) const {
    return builder_.emit("aten.clamp", {a}, {{"min", low}, {"max", high}});
  }
  Result<ValueId> converted(ValueId a, DType dtype) const {
    if (builder_.type(a).dtype == dtype) return a;
    return builder_.emit("convert", {a}, {{"dtype", std::string(name(dtype))}});
  }
  // 1 where low ≤ a ≤ high, else 0.
  Result<ValueId> within(ValueId a, double low, double high) const {
    DTR_ASSIGN(const ValueId least, number(low));
    DTR_ASSIGN(const ValueId most, number(high));
    DTR_ASSIGN(const ValueId above, builder_.emit("aten.ge.Tensor", {a, least}));
    DTR_ASSIGN(const ValueId below, builder_.emit("aten.le.Tensor", {a, most}));
    DTR_ASSIGN(const ValueId both, builder_.emit("aten.logical_and", {above, below}));
    return converted(both, DType::kFloat32);
  }
  // A polynomial of `t`, the coefficient of the highest power first.
  Result<ValueId> polynomial(ValueId t, const Floats& factors) const {
    DTR_ASSIGN(ValueId y, number(factors[0]));
    for (size_t i = 1; i < factors.size(); ++i) {
      DTR_ASSIGN(y, mul(y, t));
      DTR_ASSIGN(y, plus(y, factors[i]));
    }
    return y;
  }
  // Column `index` of (R, columns), as (R, 1).
  Result<ValueId> column(ValueId x, int64_t index) const {
    return builder_.slice(x, 1, index, index + 1);
  }

 private:
  GraphBuilder& builder_;
};

// One of the pixels that a value is made of, along one dimension or several: its number and its
// part, both (R, S). Without a part it is taken whole.
struct Tap {
  ValueId index, part;
};

// A number of a pixel that exists, of `extent`, with part 0 where it did not.
Result<Tap> existing(GraphBuilder& builder, Tap tap, int64_t extent, const Sampling& how) {
  const Arithmetic math(builder);
  const auto last = static_cast<double>(extent - 1);
  if (how.outside == Outside::kReflection) {
    // Forth and back again, with the outermost pixels once or twice.
    const double period = how.aligned ? 2 * last : 2 * static_cast<double>(extent);
    if (period > 0) {
      DTR_ASSIGN(const ValueId length, math.number(period));
      DTR_ASSIGN(const ValueId rest, builder.emit("aten.remainder.Tensor", {tap.index, length}));
      DTR_ASSIGN(ValueId back, math.times(rest, -1));
      DTR_ASSIGN(back, math.plus(back, how.aligned ? period : period - 1));
      DTR_ASSIGN(tap.index, builder.emit("aten.minimum", {rest, back}));
    }
  } else if (how.outside == Outside::kZeros) {
    DTR_ASSIGN(const ValueId exists, math.within(tap.index, 0, last));
    if (tap.part.valid()) {
      DTR_ASSIGN(tap.part, math.mul(tap.part, exists));
    } else {
      tap.part = exists;
    }
  }
  DTR_ASSIGN(tap.index, math.clamp(tap.index, 0, last));
  return tap;
}

// The taps along a dimension of `extent` pixels.
Result<std::vector<Tap>> taps_at(GraphBuilder& builder, ValueId place, int64_t extent,
                                 const Sampling& how) {
  const Arithmetic math(builder);
  std::vector<Tap> taps;
  if (how.between == Between::kNearest) {
    DTR_ASSIGN(taps.emplace_back().index, builder.emit("aten.round", {place}));
  } else {
    DTR_ASSIGN(const ValueId first, builder.emit("aten.floor", {place}));
    DTR_ASSIGN(const ValueId t, math.sub(place, first));
    constexpr double kA = -0.75;
    const std::vector<Floats> linear{{-1, 1}, {1, 0}};
    const std::vector<Floats> cubic{{kA, -2 * kA, kA, 0},
                                    {kA + 2, -kA - 3, 0, 1},
                                    {-kA - 2, 2 * kA + 3, -kA, 0},
                                    {-kA, kA, 0, 0}};
    const bool is_cubic = how.between == Between::kCubic;
    double offset = is_cubic ? -1 : 0;
    for (const Floats& factors : is_cubic ? cubic : linear) {
      Tap tap;
      DTR_ASSIGN(tap.index, math.plus(first, offset));
      DTR_ASSIGN(tap.part, math.polynomial(t, factors));
      taps.push_back(tap);
      ++offset;
    }
  }
  for (Tap& tap : taps) {
    DTR_ASSIGN(tap, existing(builder, tap, extent, how));
  }
  return taps;
}

}  // namespace

Result<ValueId> sample_images(GraphBuilder& builder, ValueId x, const std::vector<ValueId>& places,
                              const Sampling& how, ValueId images) {
  const Arithmetic math(builder);
  const Shape of = builder.type(x).shape;
  const Shape of_places = places.empty() ? Shape{} : builder.type(places[0]).shape;
  if (of.size() != places.size() + 2 || of_places.size() != 2 || element_count(of) == 0)
    return builder.unsupported(fmt::format("{} places in {}", to_string(of_places), to_string(of)));
  const int64_t batch = of[0], channels = of[1], rows = of_places[0], samples = of_places[1];
  const int64_t pixels = element_count(Shape(of.begin() + 2, of.end()));
  if (batch > kMostPixels / pixels)
    return builder.unsupported(fmt::format("samples of {}, more than 2^24 pixels", to_string(of)));
  DTR_ASSIGN(ValueId table, builder.view(x, {batch, channels, pixels}));
  DTR_ASSIGN(table, builder.permute(table, {0, 2, 1}));
  DTR_ASSIGN(table, builder.view(table, {batch * pixels, channels}));
  std::vector<Tap> all{Tap{}};
  if (images.valid()) {
    DTR_ASSIGN(all[0].index, math.times(images, static_cast<double>(pixels)));
  } else {
    std::vector<double> starts;
    for (int64_t i = 0; i < batch; ++i) starts.push_back(static_cast<double>(i * pixels));
    DTR_ASSIGN(all[0].index, builder.constant(DType::kFloat32, starts, Shape{batch, 1}));
  }
  int64_t step = 1;
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t extent = of[of.size() - 1 - i];
    DTR_ASSIGN(const std::vector<Tap> taps, taps_at(builder, places[i], extent, how));
    std::vector<Tap> next;
    for (const Tap& before : all)
      for (const Tap& tap : taps) {
        Tap& made = next.emplace_back();
        DTR_ASSIGN(made.index, math.times(tap.index, static_cast<double>(step)));
        DTR_ASSIGN(made.index, math.add(made.index, before.index));
        made.part = before.part.valid() ? before.part : tap.part;
        if (before.part.valid() && tap.part.valid()) {
          DTR_ASSIGN(made.part, math.mul(before.part, tap.part));
        }
      }
    all = std::move(next);
    step *= extent;
  }
  ValueId sum;
  for (const Tap& tap : all) {
    DTR_ASSIGN(ValueId index, math.converted(tap.index, DType::kInt64));
    DTR_ASSIGN(index, builder.view(index, {rows * samples}));
    DTR_ASSIGN(ValueId value,
               builder.emit("aten.index_select", {table, index}, {{"dim", int64_t{0}}}));
    if (tap.part.valid()) {
      DTR_ASSIGN(const ValueId part, builder.view(tap.part, {rows * samples, 1}));
      DTR_ASSIGN(value, math.mul(value, part));
    }
    if (sum.valid()) {
      DTR_ASSIGN(sum, math.add(sum, value));
    } else {
      sum = value;
    }
  }
  DTR_ASSIGN(sum, builder.view(sum, {rows, samples, channels}));
  return builder.permute(sum, {0, 2, 1});
}

Result<ValueId> sample_grid(GraphBuilder& builder, ValueId x, ValueId grid, const Sampling& how) {
  const Arithmetic math(builder);
  const Shape of = builder.type(x).shape, of_grid = builder.type(grid).shape;
  const size_t spatial = of.size() < 4 ? 0 : of.size() - 2;
  if (spatial < 2 || spatial > 3 || of_grid.size() != of.size() || of_grid[0] != of[0] ||
      of_grid.back() != static_cast<int64_t>(spatial))
    return builder.unsupported(
        fmt::format("a grid of {} for {}", to_string(of_grid), to_string(of)));
  if (spatial == 2)
    return builder.emit("aten.grid_sampler_2d", {x, grid},
                        {{"interpolation_mode", kGridModes[static_cast<size_t>(how.between)]},
                         {"padding_mode", static_cast<int64_t>(how.outside)},
                         {"align_corners", how.aligned}});
  const int64_t samples = element_count(Shape(of_grid.begin() + 1, of_grid.end() - 1));
  DTR_ASSIGN(const ValueId flat,
             builder.view(grid, {of[0], samples, static_cast<int64_t>(spatial)}));
  std::vector<ValueId> places;
  for (size_t i = 0; i < spatial; ++i) {  // x, y, z
    const auto extent = static_cast<double>(of[of.size() - 1 - i]);
    const double half = (how.aligned ? extent - 1 : extent) / 2;
    DTR_ASSIGN(ValueId place,
               builder.slice(flat, 2, static_cast<int64_t>(i), static_cast<int64_t>(i) + 1));
    DTR_ASSIGN(place, builder.view(place, {of[0], samples}));
    DTR_ASSIGN(place, math.times(place, half));
    DTR_ASSIGN(place, math.plus(place, how.aligned ? half : half - 0.5));
    places.push_back(place);
  }
  DTR_ASSIGN(const ValueId values, sample_images(builder, x, places, how));
  Shape to{of[0], of[1]};
  to.insert(to.end(), of_grid.begin() + 1, of_grid.end() - 1);
  return builder.view(values, to);
}

Result<ValueId> affine_grid(GraphBuilder& builder, ValueId theta, const Ints& size, bool aligned) {
  const Shape of_theta = builder.type(theta).shape;
  const auto spatial = static_cast<int64_t>(size.size()) - 2;
  const Shape pixels(size.begin() + std::min<ptrdiff_t>(2, std::ssize(size)), size.end());
  const auto count = checked_element_count(pixels);
  if (spatial < 2 || spatial > 3 || of_theta != Shape{size[0], spatial, spatial + 1} || !count ||
      *count < 1 || *count > 1 << 22)
    return builder.unsupported(
        fmt::format("matrices of {} for {}", to_string(of_theta), to_string(size)),
        "transform images (N, C, H, W) by matrices (N, 2, 3), volumes by (N, 3, 4)");
  std::vector<double> places;
  for (int64_t flat = 0; flat < *count; ++flat) {
    int64_t rest = flat;
    for (auto extent = pixels.rbegin(); extent != pixels.rend(); ++extent) {  // x, y, z
      const auto at = static_cast<double>(rest % *extent), of = static_cast<double>(*extent);
      rest /= *extent;
      places.push_back(aligned ? (of == 1 ? 0 : 2 * at / (of - 1) - 1) : (2 * at + 1) / of - 1);
    }
    places.push_back(1);
  }
  DTR_ASSIGN(const ValueId weight,
             builder.constant(builder.type(theta).dtype, places, Shape{*count, spatial + 1}));
  DTR_ASSIGN(ValueId grid, builder.emit("aten.linear", {theta, weight}));
  DTR_ASSIGN(grid, builder.permute(grid, {0, 2, 1}));
  Shape to{size[0]};
  to.insert(to.end(), pixels.begin(), pixels.end());
  to.push_back(spatial);
  return builder.view(grid, to);
}

Result<ValueId> box_parts(GraphBuilder& builder, ValueId x, ValueId boxes, ValueId images,
                          const BoxParts& of) {
  const Arithmetic math(builder);
  const Shape of_x = builder.type(x).shape, of_boxes = builder.type(boxes).shape;
  constexpr int64_t kMost = 1024;  // parts along a dimension, and samples of each
  if (of_x.size() != 4 || of_boxes.size() != 2 || of_boxes[1] != 4 || of_boxes[0] < 1 ||
      of.height < 1 || of.width < 1 || of.samples < 1 || of.height > kMost || of.width > kMost ||
      of.samples > kMost)
    return builder.unsupported(fmt::format("boxes of {} in {}, in {} x {} parts of {} samples",
                                           to_string(of_boxes), to_string(of_x), of.height,
                                           of.width, of.samples));
  const int64_t rows = of_boxes[0], each = of.samples * of.samples;
  // The distance of a sample from the box's edge in extents of a part: of all samples, those of a
  // part beside each other.
  std::vector<double> across, down;
  for (int64_t part = 0; part < of.height * of.width; ++part)
    for (int64_t sample = 0; sample < each; ++sample) {
      const auto at = [&](int64_t of_part, int64_t of_sample) {
        return static_cast<double>(of_part) +
               (static_cast<double>(of_sample) + 0.5) / static_cast<double>(of.samples);
      };
      down.push_back(at(part / of.width, sample / of.samples));
      across.push_back(at(part % of.width, sample % of.samples));
    }
  DTR_ASSIGN(const ValueId numbers, math.converted(images, DType::kFloat32));
  DTR_ASSIGN(const ValueId of_image, builder.view(numbers, {rows, 1}));
  DTR_ASSIGN(ValueId edges, math.times(boxes, of.scale));
  DTR_ASSIGN(edges, math.plus(edges, of.centered ? -0.5 : 0));
  std::vector<ValueId> places;
  ValueId inside;
  for (const int64_t axis : {0, 1}) {  // x, y
    const auto extent = static_cast<double>(of_x[axis == 0 ? 3 : 2]);
    const auto parts = static_cast<double>(axis == 0 ? of.width : of.height);
    DTR_ASSIGN(const ValueId first, math.column(edges, axis));
    DTR_ASSIGN(const ValueId last, math.column(edges, axis + 2));
    DTR_ASSIGN(ValueId size, math.sub(last, first));
    if (!of.centered) {  // a box has a pixel or more
      DTR_ASSIGN(size, builder.emit("aten.clamp", {size}, {{"min", 1.0}}));
    }
    DTR_ASSIGN(size, math.times(size, 1 / parts));
    const std::vector<double>& steps = axis == 0 ? across : down;
    DTR_ASSIGN(const ValueId step, builder.constant(DType::kFloat32, steps,
                                                    Shape{1, static_cast<int64_t>(steps.size())}));
    DTR_ASSIGN(ValueId place, math.mul(size, step));
    DTR_ASSIGN(place, math.add(place, first));
    DTR_ASSIGN(const ValueId exists, math.within(place, -1, extent));
    if (inside.valid()) {
      DTR_ASSIGN(inside, math.mul(inside, exists));
    } else {
      inside = exists;
    }
    DTR_ASSIGN(place, math.clamp(place, 0, extent - 1));
    places.push_back(place);
  }
  DTR_ASSIGN(ValueId values,
             sample_images(builder, x, places,
                           {.between = Between::kLinear, .outside = Outside::kBorder}, of_image));
  const auto samples = static_cast<int64_t>(across.size());
  DTR_ASSIGN(inside, builder.view(inside, {rows, 1, samples}));
  DTR_ASSIGN(values, math.mul(values, inside));
  DTR_ASSIGN(values, builder.view(values, {rows, of_x[1], of.height * of.width, each}));
  DTR_ASSIGN(values,
             builder.emit("aten.mean.dim", {values}, {{"dim", Ints{3}}, {"keepdim", false}}));
  return builder.view(values, {rows, of_x[1], of.height, of.width});
}

Result<ValueId> moved_convolution(GraphBuilder& builder, ValueId x, const MovedConvolution& of) {
  const Arithmetic math(builder);
  const Shape image = builder.type(x).shape, kernel = builder.type(of.weight).shape,
              moves = builder.type(of.offset).shape;
  const auto refused = [&] {
    return builder.unsupported(fmt::format("offsets of {} for images {} and a weight of {}",
                                           to_string(moves), to_string(image), to_string(kernel)));
  };
  if (image.size() != 4 || kernel.size() != 4 || moves.size() != 4 || of.stride.size() != 2 ||
      of.padding.size() != 2 || of.dilation.size() != 2 || of.offset_groups < 1 || of.groups < 1 ||
      element_count(image) == 0 || element_count(moves) == 0)
    return refused();
  const int64_t taps = kernel[2] * kernel[3], groups = of.offset_groups;
  const int64_t batch = image[0], channels = image[1], height = moves[2], width = moves[3];
  const int64_t places = height * width;
  if (moves[0] != batch || moves[1] != groups * taps * 2 || channels % groups != 0 ||
      kernel[1] * of.groups != channels || taps > kMostPixels / places)
    return refused();
  DTR_ASSIGN(const ValueId offset, builder.view(of.offset, {batch * groups, taps, 2, places}));
  std::vector<ValueId> at;
  for (const size_t axis : {1U, 0U}) {  // x, y
    std::vector<double> plain;
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t place = 0; place < places; ++place) {
        const int64_t of_tap = axis == 1 ? tap % kernel[3] : tap / kernel[3];
        const int64_t of_place = axis == 1 ? place % width : place / width;
        plain.push_back(static_cast<double>(of_place * of.stride[axis] - of.padding[axis] +
                                            of_tap * of.dilation[axis]));
      }
    DTR_ASSIGN(const ValueId start,
               builder.constant(DType::kFloat32, plain, Shape{1, taps * places}));
    const auto index = static_cast<int64_t>(axis);
    DTR_ASSIGN(ValueId moved, builder.slice(offset, 2, index, index + 1));
    DTR_ASSIGN(moved, builder.view(moved, {batch * groups, taps * places}));
    DTR_ASSIGN(moved, math.add(moved, start));
    at.push_back(moved);
  }
  DTR_ASSIGN(ValueId columns,
             builder.view(x, {batch * groups, channels / groups, image[2], image[3]}));
  DTR_ASSIGN(columns, sample_images(builder, columns, at, {}));
  if (of.mask.valid()) {
    if (builder.type(of.mask).shape != Shape{batch, groups * taps, height, width}) return refused();
    DTR_ASSIGN(const ValueId mask, builder.view(of.mask, {batch * groups, 1, taps * places}));
    DTR_ASSIGN(columns, math.mul(columns, mask));
  }
  // The taps of a channel as channels of a convolution of one tap.
  DTR_ASSIGN(columns, builder.view(columns, {batch, channels * taps, height, width}));
  DTR_ASSIGN(const ValueId weight, builder.view(of.weight, {kernel[0], kernel[1] * taps, 1, 1}));
  std::vector<ValueId> operands{columns, weight};
  if (of.bias.valid()) operands.push_back(of.bias);
  return builder.emit("aten.convolution", std::move(operands),
                      {{"transposed", false},
                       {"stride", Ints{1, 1}},
                       {"padding", Ints{0, 0}},
                       {"dilation", Ints{1, 1}},
                       {"output_padding", Ints{0, 0}},
                       {"groups", of.groups}});
}

}  // namespace dtr::compositions
