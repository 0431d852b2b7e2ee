// Samples of images at computed places.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontends/onnx/operators.h"

namespace dtr::onnx {
namespace {

// The places of the pixels of an image of known size, transformed: [N, H, W, 2] or with depth.
Result<Values> affine_grid(NodeImport& node) {
  DTR_ASSIGN(const ValueId theta, node.value(0));
  DTR_ASSIGN(const Shape size, node.integers(1));
  DTR_ASSIGN(const bool aligned, node.flag("align_corners"));
  if (size.size() < 4 || size.size() > 5)
    return node.invalid(fmt::format("an image of {} dimensions", size.size()));
  const size_t spatial = size.size() - 2;
  const auto columns = static_cast<int64_t>(spatial) + 1;
  const Shape pixels(size.begin() + 2, size.end());
  const auto count = checked_element_count(pixels);
  if (!count || *count > 1 << 22 || *count < 1) return node.invalid("its size is out of range");
  std::vector<double> base;
  for (int64_t flat = 0; flat < *count; ++flat) {
    int64_t rest = flat;
    for (size_t i = spatial; i-- > 0;) {  // x, y, z
      const int64_t extent = pixels[i];
      const auto at = static_cast<double>(rest % extent), of = static_cast<double>(extent);
      rest /= extent;
      base.push_back(aligned ? (extent == 1 ? 0 : 2 * at / (of - 1) - 1) : (2 * at + 1) / of - 1);
    }
    base.push_back(1);
  }
  DTR_ASSIGN(const ValueId places, node.constant(DType::kFloat32, base, Shape{1, *count, columns}));
  DTR_ASSIGN(const ValueId turned, node.permute(theta, {0, 2, 1}));
  DTR_ASSIGN(const ValueId grid, node.emit("aten.matmul", {places, turned}));
  Shape to{size[0]};
  to.insert(to.end(), pixels.begin(), pixels.end());
  to.push_back(static_cast<int64_t>(spatial));
  return only(node.view(grid, to));
}

struct Sampling {
  std::string mode, padding;
  bool aligned = false;
};

// One of the elements that a sample is made of, along one dimension: its index, the part that it
// has, both [N, samples].
struct Tap {
  ValueId index, weight;
};

// An index of a dimension of `extent` elements that exists, and its part: 0 outside of the image.
Result<Tap> inside(NodeImport& node, Tap tap, int64_t extent, const Sampling& how) {
  const auto last = static_cast<double>(extent - 1);
  if (how.padding == "reflection") {
    // Forth and back again, with the elements at the edges once or twice.
    const double period = how.aligned ? 2 * last : 2 * static_cast<double>(extent);
    if (period > 0) {
      DTR_ASSIGN(const ValueId length, node.scalar(period, tap.index));
      DTR_ASSIGN(const ValueId rest, node.emit("aten.remainder.Tensor", {tap.index, length}));
      DTR_ASSIGN(ValueId back, node.times(rest, -1));
      DTR_ASSIGN(back, node.plus(back, how.aligned ? period : period - 1));
      DTR_ASSIGN(tap.index, node.emit("aten.minimum", {rest, back}));
    }
  } else if (how.padding == "zeros") {
    DTR_ASSIGN(const ValueId low, node.scalar(0, tap.index));
    DTR_ASSIGN(const ValueId high, node.scalar(last, tap.index));
    DTR_ASSIGN(const ValueId above, node.emit("aten.ge.Tensor", {tap.index, low}));
    DTR_ASSIGN(const ValueId below, node.emit("aten.le.Tensor", {tap.index, high}));
    DTR_ASSIGN(ValueId exists, node.emit("aten.logical_and", {above, below}));
    DTR_ASSIGN(exists, node.cast(exists, DType::kFloat32));
    DTR_ASSIGN(tap.weight, tap.weight.valid() ? node.mul(tap.weight, exists) : exists);
  }
  DTR_ASSIGN(tap.index, node.emit("aten.clamp", {tap.index}, {{"min", 0.0}, {"max", last}}));
  return tap;
}

// A polynomial of `t`, the coefficient of the highest power first.
Result<ValueId> polynomial(NodeImport& node, ValueId t, const Floats& factors) {
  ValueId y;
  for (const double factor : factors) {
    if (y.valid()) {
      DTR_ASSIGN(y, node.mul(y, t));
      DTR_ASSIGN(y, node.plus(y, factor));
    } else {
      DTR_ASSIGN(y, node.constant(DType::kFloat32, {}, factor, "factor"));
    }
  }
  return y;
}

// The taps along a dimension for places from −1 to 1.
Result<std::vector<Tap>> taps_of(NodeImport& node, ValueId place, int64_t extent,
                                 const Sampling& how) {
  const auto of = static_cast<double>(extent);
  const double half = (how.aligned ? of - 1 : of) / 2;
  DTR_ASSIGN(ValueId at, node.times(place, half));
  DTR_ASSIGN(at, node.plus(at, how.aligned ? half : half - 0.5));
  std::vector<Tap> taps;
  if (how.mode == "nearest") {
    DTR_ASSIGN(taps.emplace_back().index, node.emit("aten.round", {at}));
  } else {
    DTR_ASSIGN(const ValueId first, node.emit("aten.floor", {at}));
    DTR_ASSIGN(const ValueId t, node.sub(at, first));
    constexpr double kA = -0.75;
    const std::vector<Floats> linear{{-1, 1}, {1, 0}};
    const std::vector<Floats> cubic{{kA, -2 * kA, kA, 0},
                                    {kA + 2, -kA - 3, 0, 1},
                                    {-kA - 2, 2 * kA + 3, -kA, 0},
                                    {-kA, kA, 0, 0}};
    const bool is_cubic = how.mode == "cubic";
    double offset = is_cubic ? -1 : 0;
    for (const Floats& factors : is_cubic ? cubic : linear) {
      Tap tap;
      DTR_ASSIGN(tap.index, node.plus(first, offset));
      DTR_ASSIGN(tap.weight, polynomial(node, t, factors));
      taps.push_back(tap);
      ++offset;
    }
  }
  for (Tap& tap : taps) {
    DTR_ASSIGN(tap, inside(node, tap, extent, how));
  }
  return taps;
}

// Rows of the table of pixels, one a combination of taps, weighted and added up.
Result<Values> grid_sample(NodeImport& node) {
  Sampling how;
  DTR_ASSIGN(how.mode, node.string("mode", "linear"));
  DTR_ASSIGN(how.padding, node.string("padding_mode", "zeros"));
  DTR_ASSIGN(how.aligned, node.flag("align_corners"));
  if (how.mode == "bilinear") how.mode = "linear";
  if (how.mode == "bicubic") how.mode = "cubic";
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId grid, node.value(1));
  const Shape of = node.shape(x), of_grid = node.shape(grid);
  const size_t spatial = of.size() < 4 ? 0 : of.size() - 2;
  if (spatial < 2 || spatial > 3 || of_grid.size() != of.size() || of_grid[0] != of[0] ||
      of_grid.back() != static_cast<int64_t>(spatial) || element_count(of) == 0)
    return node.invalid(fmt::format("a grid of {} for {}", to_string(of_grid), to_string(of)));
  const int64_t batch = of[0], channels = of[1];
  const int64_t samples = element_count(Shape(of_grid.begin() + 1, of_grid.end() - 1));
  const int64_t pixels = element_count(Shape(of.begin() + 2, of.end()));
  if (batch * pixels > 1 << 24) return node.unsupported("more than 2^24 pixels");
  DTR_ASSIGN(ValueId table, node.view(x, {batch, channels, pixels}));
  DTR_ASSIGN(table, node.permute(table, {0, 2, 1}));
  DTR_ASSIGN(table, node.view(table, {batch * pixels, channels}));
  DTR_ASSIGN(const ValueId places,
             node.view(grid, {batch, samples, static_cast<int64_t>(spatial)}));
  std::vector<double> starts;
  for (int64_t i = 0; i < batch; ++i) starts.push_back(static_cast<double>(i * pixels));
  std::vector<Tap> all{{.index = {}, .weight = {}}};
  DTR_ASSIGN(all[0].index, node.constant(DType::kFloat32, starts, Shape{batch, 1}));
  int64_t step = 1;
  for (size_t i = 0; i < spatial; ++i) {  // x, y, z
    const auto at = static_cast<int64_t>(i);
    const int64_t extent = of[of.size() - 1 - i];
    DTR_ASSIGN(ValueId place, node.slice(places, 2, at, at + 1));
    DTR_ASSIGN(place, node.view(place, {batch, samples}));
    DTR_ASSIGN(const std::vector<Tap> taps, taps_of(node, place, extent, how));
    std::vector<Tap> next;
    for (const Tap& before : all)
      for (const Tap& tap : taps) {
        Tap& made = next.emplace_back();
        DTR_ASSIGN(made.index, node.times(tap.index, static_cast<double>(step)));
        DTR_ASSIGN(made.index, node.add(made.index, before.index));
        made.weight = before.weight.valid() ? before.weight : tap.weight;
        if (before.weight.valid() && tap.weight.valid()) {
          DTR_ASSIGN(made.weight, node.mul(before.weight, tap.weight));
        }
      }
    all = std::move(next);
    step *= extent;
  }
  ValueId sum;
  for (const Tap& tap : all) {
    DTR_ASSIGN(ValueId index, node.cast(tap.index, DType::kInt64));
    DTR_ASSIGN(index, node.view(index, {batch * samples}));
    DTR_ASSIGN(ValueId part, node.emit("aten.index_select", {table, index}, {{"dim", int64_t{0}}}));
    if (tap.weight.valid()) {
      DTR_ASSIGN(const ValueId weight, node.view(tap.weight, {batch * samples, 1}));
      DTR_ASSIGN(part, node.mul(part, weight));
    }
    DTR_ASSIGN(sum, sum.valid() ? node.add(sum, part) : Result<ValueId>(part));
  }
  DTR_ASSIGN(sum, node.view(sum, {batch, samples, channels}));
  DTR_ASSIGN(sum, node.permute(sum, {0, 2, 1}));
  Shape to{batch, channels};
  to.insert(to.end(), of_grid.begin() + 1, of_grid.end() - 1);
  return only(node.view(sum, to));
}

}  // namespace

std::vector<Operator> sampling_operators() {
  return {
      row("AffineGrid", 2, 2, affine_grid),
      row("GridSample", 2, 2, grid_sample),
  };
}

}  // namespace dtr::onnx
