// Operators that reshape, permute, split, join and repeat tensors, and those whose result is a
// shape or is made of one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/compositions/pixels.h"
#include "compiler/compositions/tiling.h"
#include "compiler/frontends/onnx/importer.h"

namespace dtr::onnx {
namespace {

constexpr int64_t kMaxParts = 4096;  // of one split

// ---- shapes as numbers

Result<Values> shape(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.held(0));
  const Shape& of = node.shape(x);
  const auto rank = static_cast<int64_t>(of.size());
  DTR_ASSIGN(int64_t start, node.integer("start", int64_t{0}));
  DTR_ASSIGN(int64_t end, node.integer("end", rank));
  const auto clip = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  start = clip(start);
  end = std::max(clip(end), start);
  const std::vector<double> extents(of.begin() + start, of.begin() + end);
  return only(node.constant(DType::kInt64, extents));
}

Result<Values> size(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.held(0));
  return only(
      node.constant(DType::kInt64, {}, static_cast<double>(node.type(x).elements()), "size"));
}

Result<Values> constant(NodeImport& node) {
  if (node.has_attribute("value")) {
    DTR_ASSIGN(const Tensor tensor, node.tensor("value"));
    return only(node.constant_of(tensor));
  }
  if (node.has_attribute("value_float")) {
    DTR_ASSIGN(const double value, node.number("value_float"));
    return only(node.constant(DType::kFloat32, {}, value, "value"));
  }
  if (node.has_attribute("value_int")) {
    DTR_ASSIGN(const int64_t value, node.integer("value_int"));
    Tensor tensor(DType::kInt64, {});
    tensor.values<int64_t>()[0] = value;
    return only(node.constant_of(tensor));
  }
  if (node.has_attribute("value_floats")) {
    DTR_ASSIGN(const Floats values, node.floats("value_floats"));
    return only(node.constant(DType::kFloat32, values));
  }
  if (node.has_attribute("value_ints")) {
    DTR_ASSIGN(const Ints values, node.ints("value_ints"));
    return only(node.constant(DType::kInt64, std::vector<double>(values.begin(), values.end())));
  }
  return node.unsupported("its value is a string or sparse");
}

// The stored value, an element, or 0 as float.
Result<Values> constant_of_shape(NodeImport& node) {
  DTR_ASSIGN(const Shape shape, node.integers(0));
  DTR_TRY(node.check_shape(shape));
  if (!node.has_attribute("value")) return only(node.constant(DType::kFloat32, shape, 0, "zeros"));
  DTR_ASSIGN(const Tensor value, node.tensor("value"));
  if (value.elements() != 1) return node.invalid("its value is not one number");
  return only(node.constant(value.dtype(), shape, elements_of(value).front(), "value"));
}

Result<Values> eye_like(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.held(0));
  const Shape of = node.shape(x);
  DTR_ASSIGN(const int64_t diagonal, node.integer("k", int64_t{0}));
  DTR_ASSIGN(const int64_t stated, node.integer("dtype", int64_t{0}));
  const auto dtype =
      stated == 0 ? std::optional(node.dtype(x)) : dtype_of(static_cast<int32_t>(stated));
  if (of.size() != 2 || !dtype || element_count(of) > 1 << 22)
    return node.unsupported("it is no matrix of at most 2^22 numbers");
  std::vector<double> elements(static_cast<size_t>(element_count(of)));
  for (int64_t i = 0; i < of[0]; ++i)
    if (i + diagonal >= 0 && i + diagonal < of[1])
      elements[static_cast<size_t>(i * of[1] + i + diagonal)] = 1;
  return only(node.constant(*dtype, elements, of));
}

Result<Values> range(NodeImport& node) {
  DTR_ASSIGN(const double start, node.number(0));
  DTR_ASSIGN(const double limit, node.number(1));
  DTR_ASSIGN(const double step, node.number(2));
  const double count = std::ceil((limit - start) / step);
  if (step == 0 || !(count < 1 << 22))
    return node.invalid(fmt::format("from {} to {} by {}", start, limit, step));
  std::vector<double> values;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i)
    values.push_back(start + static_cast<double>(i) * step);
  DTR_ASSIGN(const ValueId first, node.value(0));
  return only(node.constant(node.dtype(first), values));
}

// ---- views

Result<Values> reshape(NodeImport& node) {
  DTR_ASSIGN(const bool keeps_zero, node.flag("allowzero"));
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(Shape to, node.ints_or_input("shape", 1));
  const Shape& from = node.shape(x);
  if (to.size() > kMaxRank) return node.invalid("its shape has too many dimensions");
  for (size_t i = 0; i < to.size(); ++i)
    if (to[i] == 0 && !keeps_zero) {
      if (i >= from.size()) return node.invalid("it keeps a dimension that is not there");
      to[i] = from[i];
    }
  const int64_t elements = element_count(from);
  if (const auto open = std::ranges::find(to, -1); open != to.end()) {
    *open = 1;
    const auto rest = checked_element_count(to);
    if (!rest || *rest == 0 || elements % *rest != 0)
      return node.invalid(fmt::format("the elements of {} do not fill {} times any number",
                                      to_string(from), to_string(to)));
    *open = elements / *rest;
  }
  return only(node.view(x, to));
}

Result<Values> flatten(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  const Shape& of = node.shape(x);
  DTR_ASSIGN(int64_t at, node.integer("axis", int64_t{1}));
  const auto rank = static_cast<int64_t>(of.size());
  if (at < 0) at += rank;
  if (at < 0 || at > rank) return node.invalid(fmt::format("axis {} of {}", at, to_string(of)));
  const int64_t outer = element_count(Shape(of.begin(), of.begin() + at));
  const int64_t inner = element_count(Shape(of.begin() + at, of.end()));
  return only(node.view(x, {outer, inner}));
}

Result<Values> squeeze(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  const Shape of = node.shape(x);
  const bool given = node.has(1) || node.has_attribute("axes");
  DTR_ASSIGN(const Ints stated, node.ints_or_input("axes", 1, Ints{}));
  DTR_ASSIGN(const Ints axes, node.axes(stated, of.size()));
  Shape to;
  for (size_t i = 0; i < of.size(); ++i) {
    const bool named = std::ranges::binary_search(axes, static_cast<int64_t>(i));
    if (named && of[i] != 1) return node.invalid(fmt::format("it drops a dimension of {}", of[i]));
    if (given ? !named : of[i] != 1) to.push_back(of[i]);
  }
  return only(node.view(x, to));
}

Result<Values> unsqueeze(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  const Shape of = node.shape(x);
  DTR_ASSIGN(const Ints stated, node.ints_or_input("axes", 1));
  if (of.size() + stated.size() > kMaxRank) return node.invalid("it makes too many dimensions");
  DTR_ASSIGN(const Ints axes, node.axes(stated, of.size() + stated.size()));
  if (axes.size() != stated.size()) return node.invalid("it names a dimension twice");
  Shape to = of;
  for (const int64_t axis : axes) to.insert(to.begin() + axis, 1);
  return only(node.view(x, to));
}

Result<Values> transpose(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  const size_t rank = node.type(x).rank();
  Ints reversed;
  for (size_t i = rank; i-- > 0;) reversed.push_back(static_cast<int64_t>(i));
  DTR_ASSIGN(const Ints order, node.ints("perm", reversed));
  return only(node.permute(x, order));
}

// ---- parts

Result<Values> slice(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  const Shape of = node.shape(x);
  DTR_ASSIGN(const Ints starts, node.ints_or_input("starts", 1));
  DTR_ASSIGN(const Ints ends, node.ints_or_input("ends", 2));
  Ints all(starts.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  DTR_ASSIGN(const Ints axes, node.ints_or_input("axes", 3, all));
  DTR_ASSIGN(const Ints steps, node.ints_or_input("steps", 4, Ints(starts.size(), 1)));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return node.invalid("its starts, ends, axes and steps differ in number");
  for (size_t i = 0; i < starts.size(); ++i) {
    DTR_ASSIGN(const int64_t dim, node.axis(axes[i], of.size()));
    const int64_t extent = node.shape(x)[static_cast<size_t>(dim)], step = steps[i];
    if (step == 0) return node.invalid("a step is 0");
    const bool backwards = step < 0;
    // Forwards bounds lie in [0, extent], backwards in [−1, extent − 1].
    const auto clip = [&](int64_t bound) {
      if (bound < 0) bound = bound < -extent ? -1 : bound + extent;
      return std::clamp<int64_t>(bound, backwards ? -1 : 0, backwards ? extent - 1 : extent);
    };
    const int64_t last = clip(ends[i]);
    const int64_t first = std::max<int64_t>(clip(starts[i]), 0);
    const int64_t stride =
        backwards ? (step < -extent ? extent + 1 : -step) : std::min(step, extent + 1);
    const int64_t room = backwards ? first - last : last - first;
    const int64_t count = room <= 0 ? 0 : (room - 1) / stride + 1;
    const int64_t begin = backwards ? first - (count - 1) * stride : first;
    if (count == 0) {
      DTR_ASSIGN(x, node.slice(x, dim, 0, 0));
      continue;
    }
    DTR_ASSIGN(x, node.slice(x, dim, begin, begin + (count - 1) * stride + 1, stride));
    if (backwards && count > 1) {
      DTR_ASSIGN(x, node.flip(x, {dim}));
    }
  }
  return Values{x};
}

}  // namespace

Result<Values> parts(NodeImport& node, ValueId x, int64_t dim, const Ints& sizes) {
  const int64_t extent = node.shape(x)[static_cast<size_t>(dim)];
  if (static_cast<int64_t>(sizes.size()) > kMaxParts)
    return node.unsupported(fmt::format("{} parts", sizes.size()));
  Values results;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > extent - start)
      return node.invalid(
          fmt::format("parts of sizes [{}] of {} elements", fmt::join(sizes, ", "), extent));
    DTR_ASSIGN(results.emplace_back(), node.slice(x, dim, start, start + size));
    start += size;
  }
  if (start != extent)
    return node.invalid(
        fmt::format("parts of sizes [{}] of {} elements", fmt::join(sizes, ", "), extent));
  return results;
}

namespace {

// Equal parts, of which the last may be smaller.
Ints equal_parts(int64_t extent, int64_t count) {
  const int64_t each = count < 1 ? 0 : (extent + count - 1) / count;
  Ints sizes;
  for (int64_t i = 0; i < count; ++i)
    sizes.push_back(std::clamp<int64_t>(extent - i * each, 0, each));
  return sizes;
}

Result<Values> split(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const int64_t stated, node.integer("axis", int64_t{0}));
  DTR_ASSIGN(const int64_t dim, node.axis(stated, node.type(x).rank()));
  DTR_ASSIGN(const int64_t count,
             node.integer("num_outputs", static_cast<int64_t>(node.outputs())));
  if (count < 1 || count > kMaxParts) return node.invalid(fmt::format("{} parts", count));
  DTR_ASSIGN(
      const Ints sizes,
      node.ints_or_input("split", 1, equal_parts(node.shape(x)[static_cast<size_t>(dim)], count)));
  return parts(node, x, dim, sizes);
}

// ---- joins

Result<Values> concat(NodeImport& node) {
  DTR_ASSIGN(Values all, node.values());
  DTR_ASSIGN(const int64_t stated, node.integer("axis"));
  DTR_ASSIGN(const int64_t dim, node.axis(stated, node.type(all.front()).rank()));
  // Codes of different scales are joined as numbers.
  for (const ValueId each : all)
    if (node.type(each).quantization != node.type(all.front()).quantization) {
      for (ValueId& one : all) {
        DTR_ASSIGN(one, node.plain(one));
      }
      break;
    }
  return only(node.concatenate(std::move(all), dim));
}

Result<Values> expand(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(Shape to, node.integers(1));
  Shape from = node.shape(x);
  if (to.size() > kMaxRank) return node.invalid("its shape has too many dimensions");
  if (to.size() < from.size()) to.insert(to.begin(), from.size() - to.size(), 1);
  from.insert(from.begin(), to.size() - from.size(), 1);
  for (size_t i = 0; i < to.size(); ++i)
    if (to[i] == 1) to[i] = from[i];
  DTR_TRY(node.check_shape(to));
  DTR_ASSIGN(const ValueId aligned, node.view(x, from));
  return only(node.expand(aligned, to));
}

Result<Values> tile(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const Ints repeats, node.integers(1));
  Shape to = node.shape(x);
  if (repeats.size() != to.size())
    return node.invalid(fmt::format("{} repeats for {}", repeats.size(), to_string(to)));
  for (size_t i = 0; i < to.size(); ++i) {
    if (repeats[i] < 0 || repeats[i] > INT32_MAX || to[i] > INT32_MAX)
      return node.invalid(fmt::format("{} repeats", repeats[i]));
    to[i] *= repeats[i];
  }
  DTR_TRY(node.check_shape(to));
  if (element_count(to) == 0) return only(node.constant(node.dtype(x), to, 0, "empty"));
  return only(compositions::repeat(node, x, repeats, compositions::Repetition::kWhole));
}

// Pairs of counts, begins first, as those of aten.constant_pad_nd.
Result<Ints> pad_pairs(NodeImport& node, size_t rank) {
  DTR_ASSIGN(const Ints amounts, node.ints_or_input("pads", 1));
  Ints stated;
  if (node.has(3)) {
    DTR_ASSIGN(stated, node.integers(3));
  } else {
    for (size_t i = 0; i < rank; ++i) stated.push_back(static_cast<int64_t>(i));
  }
  if (amounts.size() != 2 * stated.size())
    return node.invalid(fmt::format("{} amounts for {} dimensions", amounts.size(), stated.size()));
  Ints pairs(2 * rank);
  for (size_t i = 0; i < stated.size(); ++i) {
    DTR_ASSIGN(const int64_t dim, node.axis(stated[i], rank));
    const size_t from_end = rank - 1 - static_cast<size_t>(dim);
    for (const int64_t amount : {amounts[i], amounts[stated.size() + i]})
      if (amount > INT32_MAX || amount < -INT32_MAX)
        return node.invalid(fmt::format("an amount of {}", amount));
    pairs[2 * from_end] = amounts[i];
    pairs[2 * from_end + 1] = amounts[stated.size() + i];
  }
  return pairs;
}

Result<Values> pad(NodeImport& node) {
  DTR_ASSIGN(const std::string mode,
             node.word("mode", "constant", {"constant", "reflect", "edge", "wrap"}));
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const Ints pairs, pad_pairs(node, node.type(x).rank()));
  if (mode == "constant") {
    double fill = 0;
    if (node.has(2)) {
      DTR_ASSIGN(fill, node.number(2));
    } else {
      DTR_ASSIGN(fill, node.number("value", 0));
    }
    if (!node.type(x).quantized()) return only(node.pad(x, pairs, fill));
    // Codes around codes.
    DTR_ASSIGN(const ValueId codes, node.plain(x));
    return only(node.pad(codes, pairs, fill));
  }
  using compositions::Border;
  const Border border = mode == "reflect" ? Border::kReflect
                        : mode == "edge"  ? Border::kReplicate
                                          : Border::kCircular;
  return only(compositions::pad_with_own_elements(node, x, pairs, border));
}

// Cut or padded with zeros to a size, the centre kept.
Result<Values> center_crop_pad(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(const Ints size, node.integers(1));
  const size_t rank = node.type(x).rank();
  Ints all(rank);
  for (size_t i = 0; i < rank; ++i) all[i] = static_cast<int64_t>(i);
  DTR_ASSIGN(const Ints axes, node.ints("axes", all));
  if (axes.size() != size.size()) return node.invalid("its sizes do not fit its axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    DTR_ASSIGN(const int64_t dim, node.axis(axes[i], rank));
    const int64_t extent = node.shape(x)[static_cast<size_t>(dim)];
    if (size[i] < 0 || size[i] > INT32_MAX)
      return node.invalid(fmt::format("a size of {}", size[i]));
    if (size[i] < extent) {
      const int64_t start = (extent - size[i]) / 2;
      DTR_ASSIGN(x, node.slice(x, dim, start, start + size[i]));
    } else {
      Ints pairs(2 * rank);
      const size_t from_end = 2 * (rank - 1 - static_cast<size_t>(dim));
      pairs[from_end] = (size[i] - extent) / 2;
      pairs[from_end + 1] = size[i] - extent - pairs[from_end];
      DTR_ASSIGN(x, node.pad(x, pairs, 0));
    }
  }
  return Values{x};
}

// ---- channels and pixels

Result<Values> depth_to_space(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const int64_t block, node.integer("blocksize"));
  DTR_ASSIGN(const std::string mode, node.word("mode", "DCR", {"DCR", "CRD"}));
  const Shape of = node.shape(x);
  if (of.size() != 4 || block < 1 || of[1] % (block * block) != 0)
    return node.invalid(fmt::format("blocks of {} of {}", block, to_string(of)));
  if (mode == "CRD") return only(compositions::pixel_shuffle(node, x, block, false));
  const int64_t channels = of[1] / (block * block);
  DTR_ASSIGN(const ValueId split, node.view(x, {of[0], block, block, channels, of[2], of[3]}));
  DTR_ASSIGN(const ValueId moved, node.permute(split, {0, 3, 4, 1, 5, 2}));
  return only(node.view(moved, {of[0], channels, of[2] * block, of[3] * block}));
}

Result<Values> space_to_depth(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const int64_t block, node.integer("blocksize"));
  DTR_ASSIGN(const std::string mode, node.word("mode", "DCR", {"DCR", "CRD"}));
  const Shape of = node.shape(x);
  if (of.size() != 4 || block < 1 || of[2] % block != 0 || of[3] % block != 0)
    return node.invalid(fmt::format("blocks of {} of {}", block, to_string(of)));
  if (mode == "CRD") return only(compositions::pixel_shuffle(node, x, block, true));
  const int64_t h = of[2] / block, w = of[3] / block;
  DTR_ASSIGN(const ValueId split, node.view(x, {of[0], of[1], h, block, w, block}));
  DTR_ASSIGN(const ValueId moved, node.permute(split, {0, 3, 5, 1, 2, 4}));
  return only(node.view(moved, {of[0], of[1] * block * block, h, w}));
}

}  // namespace

std::vector<Operator> shape_operators() {
  return {
      moving_row("CenterCropPad", 2, 2, center_crop_pad),
      moving_row("Concat", 1, kAnyNumber, concat),
      row("Constant", 0, 0, constant),
      row("ConstantOfShape", 1, 1, constant_of_shape),
      moving_row("DepthToSpace", 1, 1, depth_to_space),
      moving_row("Expand", 2, 2, expand),
      row("EyeLike", 1, 1, eye_like),
      moving_row("Flatten", 1, 1, flatten),
      moving_row("Pad", 1, 4, pad),
      row("Range", 3, 3, range),
      moving_row("Reshape", 1, 2, reshape),
      row("Shape", 1, 1, shape),
      row("Size", 1, 1, size),
      moving_row("Slice", 1, 5, slice),
      moving_row("SpaceToDepth", 1, 1, space_to_depth),
      moving_row("Split", 1, 2, split),
      moving_row("Squeeze", 1, 2, squeeze),
      moving_row("Tile", 2, 2, tile),
      moving_row("Transpose", 1, 1, transpose),
      moving_row("Unsqueeze", 1, 2, unsqueeze),
  };
}

}  // namespace dtr::onnx
