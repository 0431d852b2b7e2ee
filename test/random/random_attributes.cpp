// How the attributes of random ops are drawn.
#include <algorithm>
#include <numeric>

#include "test/random/random_graph.h"

namespace dtr::test {
namespace {

int64_t rank_of(const Shape& shape) {
  return std::max<int64_t>(1, static_cast<int64_t>(shape.size()));
}

AttributeValue draw_bool(Dice& dice, const Shape&) { return dice.coin(); }

AttributeValue draw_dim(Dice& dice, const Shape& shape) {
  const int64_t dim = dice.below(rank_of(shape));
  return dice.one_in(4) ? dim - rank_of(shape) : dim;
}

AttributeValue draw_dims(Dice& dice, const Shape& shape) {
  Ints dims;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
    if (dice.coin()) dims.push_back(d);
  if (dims.empty() && !shape.empty()) dims.push_back(static_cast<int64_t>(shape.size()) - 1);
  return dims;
}

AttributeValue draw_permutation(Dice& dice, const Shape& shape) {
  Ints dims(shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  for (size_t d = dims.size(); d > 1; --d)
    std::swap(dims[d - 1], dims[static_cast<size_t>(dice.below(static_cast<int64_t>(d)))]);
  return dims;
}

template <int64_t low, int64_t high>
AttributeValue draw_pair(Dice& dice, const Shape&) {
  return Ints{low + dice.below(high - low + 1), low + dice.below(high - low + 1)};
}

template <int64_t low, int64_t high>
AttributeValue draw_int(Dice& dice, const Shape&) {
  return low + dice.below(high - low + 1);
}

// Sixteenths between low and high.
template <int64_t low, int64_t high>
AttributeValue draw_float(Dice& dice, const Shape&) {
  return static_cast<double>(low * 16 + dice.below((high - low) * 16 + 1)) / 16;
}

AttributeValue draw_activation(Dice& dice, const Shape&) {
  constexpr const char* kNames[] = {"relu", "relu6", "relu_0_to_1", "relu_n1_to_1"};
  return std::string(kNames[dice.below(4)]);
}

AttributeValue draw_alpha(Dice& dice, const Shape&) {
  constexpr double kValues[] = {1, 1, 2, 0.5, -1};
  return kValues[dice.below(5)];
}

AttributeValue draw_false(Dice&, const Shape&) { return false; }
AttributeValue draw_layout(Dice& dice, const Shape&) {
  return std::string(dice.coin() ? "contiguous" : "channels_last");
}
AttributeValue draw_small(Dice&, const Shape&) { return 0x1p-10; }

// Of resizing; 0: the ratio of the extents.
AttributeValue draw_factors(Dice& dice, const Shape&) {
  constexpr double kValues[] = {0, 0.5, 1.7, 2};
  return Floats{kValues[dice.below(4)], kValues[dice.below(4)]};
}

AttributeValue draw_pad(Dice& dice, const Shape& shape) {
  Ints pad;
  const int64_t dims = 1 + dice.below(rank_of(shape));
  for (int64_t d = 0; d < dims && d < static_cast<int64_t>(shape.size()); ++d) {
    pad.push_back(dice.below(4) - 1);
    pad.push_back(dice.below(3) - 1);
  }
  return pad;
}

AttributeValue draw_approximate(Dice& dice, const Shape&) {
  return std::string(dice.coin() ? "none" : "tanh");
}
AttributeValue draw_exponent(Dice& dice, const Shape&) {
  constexpr double kValues[] = {2, 3, 0.5, -1, -0.5, 1.25};
  return kValues[dice.below(6)];
}

// Attributes whose useful values do not follow from their kind and default.
struct Row {
  std::string_view name;
  AttributeKind kind;
  AttributeDraw draw;
};
constexpr Row kRows[] = {
    {"activation", AttributeKind::kString, draw_activation},
    {"alpha", AttributeKind::kFloat, draw_alpha},
    {"approximate", AttributeKind::kString, draw_approximate},
    {"as_int32", AttributeKind::kBool, draw_false},  // int64 indexes what follows
    {"beta", AttributeKind::kFloat, draw_float<1, 3>},
    {"dilation", AttributeKind::kInts, draw_pair<1, 2>},
    {"dim", AttributeKind::kInt, draw_dim},
    {"dim", AttributeKind::kInts, draw_dims},
    {"dims", AttributeKind::kInts, draw_permutation},
    {"divisor_override", AttributeKind::kInt, draw_int<1, 9>},
    {"eps", AttributeKind::kFloat, draw_small},
    {"exponent", AttributeKind::kFloat, draw_exponent},
    {"input_scale", AttributeKind::kFloat, draw_float<1, 2>},
    {"fraction_bits", AttributeKind::kInt, draw_int<10, 10>},
    {"kernel_size", AttributeKind::kInts, draw_pair<1, 3>},
    {"layout", AttributeKind::kString, draw_layout},
    {"max", AttributeKind::kFloat, draw_float<0, 6>},
    {"min", AttributeKind::kFloat, draw_float<-4, 0>},
    {"negative_slope", AttributeKind::kFloat, draw_float<-1, 2>},
    {"output_size", AttributeKind::kInts, draw_pair<1, 9>},
    {"pad", AttributeKind::kInts, draw_pad},
    {"padding", AttributeKind::kInts, draw_pair<0, 1>},
    {"padding_end", AttributeKind::kInts, draw_pair<0, 1>},
    {"scale", AttributeKind::kFloat, draw_float<1, 2>},
    {"scales", AttributeKind::kFloats, draw_factors},
    {"stride", AttributeKind::kInts, draw_pair<1, 3>},
    {"threshold", AttributeKind::kFloat, draw_float<1, 20>},
    {"value", AttributeKind::kFloat, draw_float<0, 1>},
};

}  // namespace

AttributeDraw draw_of(const Param& attribute) {
  if (!attribute.is_attribute()) return nullptr;
  const auto* at = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& row) {
    return row.name == attribute.name && row.kind == attribute.kind;
  });
  if (at != std::end(kRows)) return at->draw;
  if (attribute.kind == AttributeKind::kBool) return draw_bool;
  if (attribute.kind == AttributeKind::kFloat && attribute.has_default) return draw_float<0, 2>;
  return nullptr;
}

}  // namespace dtr::test
