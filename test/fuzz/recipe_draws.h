// What recipes of valid calls are written with: random shapes, orders, parameters; tensors of all
// kinds.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "test/fuzz/call_maker.h"

namespace dtr::fuzz {

using enum ScalarType;
using Sizes = std::vector<int32_t>;
inline constexpr std::monostate kNone;

// What recipes are written with.
class RecipeDraws {
 public:
  explicit RecipeDraws(Draws& from) : draws(from) {}

  Draws& draws;  // NOLINT(misc-non-private-member-variables-in-classes)

  int32_t extent(int32_t low, int32_t high) const {
    return static_cast<int32_t>(draws.between(low, high));
  }
  int64_t number(int64_t low, int64_t high) const { return draws.between(low, high); }
  double real(double low, double high) const {
    return low + (high - low) * static_cast<double>(draws.below(1000)) / 1000;
  }
  bool flag() const { return draws.chance(50); }

  // At most 1,024 elements; now and then none.
  Sizes shape(size_t least, size_t most) const {
    Sizes sizes(static_cast<size_t>(
        draws.between(static_cast<int64_t>(least), static_cast<int64_t>(most))));
    int64_t room = 512;
    for (int32_t& size : sizes) {
      size = static_cast<int32_t>(
          std::min<int64_t>(draws.chance(8) ? draws.between(7, 40) : draws.between(1, 6), room));
      room = std::max<int64_t>(room / size, 1);
    }
    if (!sizes.empty() && draws.chance(4)) sizes[draws.below(sizes.size())] = 0;
    return sizes;
  }
  // Broadcasts to `sizes`.
  Sizes broadcast(Sizes sizes) const {
    for (int32_t& size : sizes)
      if (draws.chance(25)) size = 1;
    if (draws.chance(20))
      sizes.erase(sizes.begin(),
                  sizes.begin() + static_cast<ptrdiff_t>(draws.below(sizes.size() + 1)));
    return sizes;
  }
  std::vector<uint8_t> contiguous(size_t rank) const {
    std::vector<uint8_t> order(rank);
    for (size_t i = 0; i < rank; ++i) order[i] = static_cast<uint8_t>(i);
    return order;
  }
  std::vector<uint8_t> channels_last(size_t rank) const {
    return rank == 4   ? std::vector<uint8_t>{0, 2, 3, 1}
           : rank == 3 ? std::vector<uint8_t>{0, 2, 1}
                       : contiguous(rank);
  }
  std::vector<uint8_t> any_order(size_t rank) const {
    std::vector<uint8_t> order = contiguous(rank);
    if (draws.chance(60)) return order;
    if (draws.chance(50)) return channels_last(rank);
    for (size_t i = rank; i > 1; --i) std::swap(order[i - 1], order[draws.below(i)]);
    return order;
  }

  TensorSpec tensor(ScalarType dtype, const Sizes& sizes, Fill fill) const {
    return {.dtype = dtype, .sizes = sizes, .order = any_order(sizes.size()), .fill = fill};
  }
  TensorSpec tensor(ScalarType dtype, const Sizes& sizes) const {
    return tensor(dtype, sizes,
                  dtype == kFloat || dtype == kDouble ? Fill::kFloats
                  : dtype == kBool                    ? Fill::kFlags
                                                      : Fill::kBytes);
  }
  TensorSpec floats(const Sizes& sizes) const { return tensor(kFloat, sizes); }
  TensorSpec out(ScalarType dtype, const Sizes& sizes) const {
    TensorSpec made = tensor(dtype, sizes);
    made.writable = true;
    return made;
  }
  TensorSpec out(const Sizes& sizes) const { return out(kFloat, sizes); }
  // In the same order as `like`.
  TensorSpec out_like(const TensorSpec& like, ScalarType dtype) const {
    TensorSpec made = out(dtype, like.sizes);
    made.order = like.order;
    return made;
  }
  TensorSpec out_like(const TensorSpec& like) const { return out_like(like, like.dtype); }
  TensorSpec dense(TensorSpec spec) const {
    spec.order = contiguous(spec.sizes.size());
    return spec;
  }
  TensorSpec image(TensorSpec spec) const {
    spec.order = channels_last(spec.sizes.size());
    return spec;
  }
  TensorSpec codes(const Sizes& sizes) const { return tensor(kChar, sizes); }
  TensorSpec out_codes(const Sizes& sizes) const { return out(kChar, sizes); }
  TensorSpec scratch(int64_t bytes) const {
    return dense(out(kChar, {static_cast<int32_t>(bytes)}));
  }
  Argument maybe(TensorSpec spec) const {
    return draws.chance(30) ? Argument(kNone) : Argument(std::move(spec));
  }
  TensorSpec multipliers(int32_t count) const {
    return dense(tensor(kInt, {count}, Fill::kMultipliers));
  }
  TensorSpec shifts(int32_t count) const { return dense(tensor(kInt, {count}, Fill::kShifts)); }
  TensorSpec biases(int32_t count) const { return dense(tensor(kInt, {count})); }

  int64_t code() const { return draws.pick<int64_t>({0, -128, 127, draws.between(-128, 127)}); }
  int64_t multiplier() const {
    return draws.chance(10) ? draws.pick<int64_t>({0, 1, INT32_MAX})
                            : draws.between(1 << 30, INT32_MAX);
  }
  int64_t shift() const {
    return draws.chance(10) ? draws.pick<int64_t>({-31, 30, -1, 1}) : draws.between(-14, 1);
  }
  std::pair<int64_t, int64_t> range() const {
    return draws.chance(60)
               ? std::pair<int64_t, int64_t>{-128, 127}
               : std::pair<int64_t, int64_t>{draws.between(-128, 0), draws.between(0, 127)};
  }
  ScalarType any_type() const {
    return draws.pick({kByte, kChar, kShort, kInt, kLong, kFloat, kDouble, kBool});
  }
  int64_t dim(size_t rank) const {
    return rank == 0 ? draws.pick<int64_t>({0, -1})
                     : draws.between(-static_cast<int64_t>(rank), static_cast<int64_t>(rank) - 1);
  }
  static size_t wrapped(int64_t dim, size_t rank) {
    return static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
  }
};

using Arguments = std::vector<Argument>;
using Recipe = std::function<Arguments(const RecipeDraws&)>;
using Recipes = std::map<std::string, Recipe>;

inline Numbers numbers(const Sizes& sizes) { return {sizes.begin(), sizes.end()}; }
inline int64_t elements(const Sizes& sizes) {
  int64_t count = 1;
  for (const int32_t size : sizes) count *= size;
  return count;
}

struct Window {
  int32_t in = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;
  bool ceil = false;

  static Window draw(const RecipeDraws& draw, bool pool) {
    Window made;
    made.set(draw, pool);
    return made;
  }
  void set(const RecipeDraws& draw, bool pool) {
    kernel = draw.extent(1, 3);
    dilation = draw.draws.chance(20) ? 2 : 1;
    stride = draw.extent(1, 3);
    in = draw.extent((kernel - 1) * dilation + 1, 7);
    padding = pool ? draw.extent(0, kernel / 2) : draw.extent(0, 2);
    ceil = pool && draw.draws.chance(20);
  }
  int32_t out(bool dilated = true) const {
    const int32_t room = in + 2 * padding - (dilated ? dilation : 1) * (kernel - 1) - 1;
    int32_t count = (room + (ceil ? stride - 1 : 0)) / stride + 1;
    if (ceil && (count - 1) * stride >= in + padding) --count;
    return count;
  }
};

struct Windows {
  Window h, w;
  Numbers kernel, stride, padding, dilation;

  Windows(const RecipeDraws& draw, bool pool)
      : h(Window::draw(draw, pool)), w(Window::draw(draw, pool)) {
    w.ceil = h.ceil;
    kernel = {h.kernel, w.kernel};
    stride = {h.stride, w.stride};
    padding = {h.padding, w.padding};
    dilation = {h.dilation, w.dilation};
  }
};

// Of all portable kernels, in two parts, and of all of the Cortex-M.
void add_portable_recipes(Recipes& recipes);
void add_place_recipes(Recipes& recipes);
// The source file of a portable kernel, without .cpp; empty for other kernels.
std::string_view portable_file(std::string_view kernel);
void add_cortex_m_recipes(Recipes& recipes);

}  // namespace dtr::fuzz
