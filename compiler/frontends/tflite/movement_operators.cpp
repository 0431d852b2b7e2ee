// Operators that slice, repeat, reverse and join tensors. Those that are not permutations of whole
// dimensions are built from aten.slice.Tensor, aten.expand, aten.flip, aten.cat and aten.view.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/frontends/tflite/importer.h"

namespace dtr::tflite {
namespace {

using fb::BuiltinOperator;
using fb::OptionsType;

// Elements [start, start + (count − 1) · step] of a logical dimension.
Result<ValueId> part(Importer& importer, ValueId x, int64_t dim, int64_t start, int64_t count,
                     int64_t step = 1) {
  const int64_t end = count == 0 ? start : start + (count - 1) * step + 1;
  return importer.append_moving(ops::kSliceTensor, x,
                                {{"dim", dim}, {"start", start}, {"end", end}, {"step", step}});
}
Result<ValueId> reversed(Importer& importer, ValueId x, Ints dims) {
  return importer.append_moving(ops::kFlip, x, {{"dims", std::move(dims)}});
}
Result<ValueId> joined(Importer& importer, std::vector<ValueId> parts, int64_t dim) {
  if (parts.size() == 1) return parts.front();
  return importer.append(ops::kCat, std::move(parts), {{"dim", dim}});
}

// ---- parts

Result<ValueId> slice(Importer& importer) {
  const Shape& shape = importer.tensor(0).shape;
  DTR_ASSIGN(const Ints begin, importer.integers(1));
  DTR_ASSIGN(const Ints size, importer.integers(2));
  if (begin.size() != shape.size() || size.size() != shape.size())
    return importer.invalid(
        fmt::format("{} begins and {} sizes for rank {}", begin.size(), size.size(), shape.size()));
  DTR_ASSIGN(ValueId x, importer.value(0));
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t count = size[i] == -1 ? shape[i] - begin[i] : size[i];
    if (begin[i] < 0 || count < 0 || begin[i] > shape[i] || count > shape[i] - begin[i])
      return importer.invalid(
          fmt::format("it takes {} elements from {} of {}", size[i], begin[i], shape[i]));
    if (count == shape[i]) continue;
    DTR_ASSIGN(
        x, part(importer, x, static_cast<int64_t>(logical_dim(i, shape.size())), begin[i], count));
  }
  return x;
}

// One dimension of the operand as a strided slice takes it, or a new one of extent 1.
struct SlicedDim {
  int64_t begin = 0, end = 0, step = 1;
  bool whole = true, begins_open = false, ends_open = false;
  bool single = false;  // one index, whose dimension is dropped
  bool is_new = false;
};

// The masks of the format, written out for every dimension.
Result<std::vector<SlicedDim>> sliced_dims(Importer& importer, size_t rank) {
  DTR_ASSIGN(const fb::StridedSliceOptions* options,
             importer.options<fb::StridedSliceOptions>(OptionsType::StridedSliceOptions));
  Ints bounds[3];  // begins, ends, steps: beyond any extent they are all the same
  for (size_t i = 0; i < 3; ++i) {
    constexpr int64_t kBeyond = int64_t{1} << 40;
    DTR_ASSIGN(bounds[i], importer.integers(1 + i));
    for (int64_t& bound : bounds[i]) bound = std::clamp(bound, -kBeyond, kBeyond);
  }
  const Ints &begin = bounds[0], &end = bounds[1], &step = bounds[2];
  const auto flagged = [](int32_t mask, size_t i) {
    return i < 32 && (static_cast<uint32_t>(mask) >> i & 1u) != 0;
  };
  size_t taken = 0;  // dimensions of the operand that entries name
  for (size_t i = 0; i < begin.size(); ++i)
    if (!flagged(options->ellipsis_mask(), i) && !flagged(options->new_axis_mask(), i)) ++taken;
  if (taken > rank || end.size() != begin.size() || step.size() != begin.size())
    return importer.invalid(fmt::format("{} begins, {} ends and {} strides for rank {}",
                                        begin.size(), end.size(), step.size(), rank));
  std::vector<SlicedDim> dims;
  size_t whole = rank - taken;  // those of the ellipsis, or behind the last entry
  for (size_t i = 0; i < begin.size(); ++i) {
    if (flagged(options->ellipsis_mask(), i)) {
      dims.insert(dims.end(), whole, SlicedDim{});
      whole = 0;
    } else if (flagged(options->new_axis_mask(), i)) {
      dims.push_back({.is_new = true});
    } else {
      dims.push_back({.begin = begin[i],
                      .end = options->offset() ? begin[i] + end[i] : end[i],
                      .step = step[i],
                      .whole = false,
                      .begins_open = flagged(options->begin_mask(), i),
                      .ends_open = flagged(options->end_mask(), i),
                      .single = flagged(options->shrink_axis_mask(), i)});
    }
  }
  dims.insert(dims.end(), whole, SlicedDim{});
  return dims;
}

Result<ValueId> strided_slice(Importer& importer) {
  const Shape shape = importer.tensor(0).shape;
  DTR_ASSIGN(const std::vector<SlicedDim> dims, sliced_dims(importer, shape.size()));
  DTR_ASSIGN(ValueId x, importer.value(0));
  Shape kept = shape;  // of the file
  Shape result;        // with new dimensions, without those that are single indices
  size_t i = 0;        // dimension of the operand
  for (const SlicedDim& of : dims) {
    if (of.is_new) result.push_back(1);
    if (of.is_new) continue;
    const int64_t extent = shape[i];
    const auto dim = static_cast<int64_t>(logical_dim(i, shape.size()));
    const size_t at = i++;
    if (of.whole) {
      result.push_back(extent);
      continue;
    }
    const bool backwards = of.step < 0;
    if (of.step == 0) return importer.invalid("a stride is 0");
    // As Python clips: forwards to [0, extent], backwards to [−1, extent − 1].
    const auto clip = [&](int64_t bound) {
      if (bound < 0) bound += extent;
      return std::clamp<int64_t>(bound, backwards ? -1 : 0, backwards ? extent - 1 : extent);
    };
    const int64_t first = of.begins_open ? (backwards ? extent - 1 : 0) : clip(of.begin);
    const int64_t last = of.single      ? first + of.step
                         : of.ends_open ? (backwards ? -1 : extent)
                                        : clip(of.end);
    const int64_t stride = backwards ? -of.step : of.step;
    const int64_t room = backwards ? first - last : last - first;
    const int64_t count = room <= 0 ? 0 : (room - 1) / stride + 1;
    if (of.single && (first < 0 || first >= extent))
      return importer.invalid(fmt::format("index {} of {} elements", of.begin, extent));
    kept[at] = count;
    if (!of.single) result.push_back(count);
    if (count != extent) {
      DTR_ASSIGN(x, part(importer, x, dim, backwards ? first - (count - 1) * stride : first, count,
                         stride));
    }
    if (backwards && count > 1) {
      DTR_ASSIGN(x, reversed(importer, x, {dim}));
    }
  }
  return importer.reshape(x, kept, result);
}

// Parts of these sizes along an axis of operand `operand`.
Result<std::vector<ValueId>> parts(Importer& importer, size_t operand, int64_t axis,
                                   const Ints& sizes) {
  const Shape& shape = importer.tensor(operand).shape;
  DTR_ASSIGN(const int64_t dim, importer.logical_axis(axis, shape.size()));
  const int64_t extent = logical_shape(shape)[static_cast<size_t>(dim)];
  DTR_ASSIGN(const ValueId x, importer.value(operand));
  std::vector<ValueId> results;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > extent - start)
      return importer.invalid(
          fmt::format("parts of sizes [{}] of {} elements", fmt::join(sizes, ", "), extent));
    DTR_ASSIGN(results.emplace_back(), part(importer, x, dim, start, size));
    start += size;
  }
  return results;
}

Result<int64_t> single_integer(Importer& importer, size_t operand) {
  DTR_ASSIGN(const Ints values, importer.integers(operand));
  if (values.size() != 1)
    return importer.invalid(fmt::format("an input has {} elements, expected 1", values.size()));
  return values.front();
}

// SPLIT: axis, x; SPLIT_V: x, sizes (one may be −1), axis.
Result<std::vector<ValueId>> split(Importer& importer) {
  DTR_ASSIGN(const int64_t axis, single_integer(importer, 0));
  const Shape& shape = importer.tensor(1).shape;
  DTR_ASSIGN(const int64_t dim, importer.logical_axis(axis, shape.size()));
  const int64_t extent = logical_shape(shape)[static_cast<size_t>(dim)];
  const auto count = static_cast<int64_t>(importer.op().outputs.size());
  if (extent % count != 0)
    return importer.invalid(fmt::format("{} elements do not divide into {} parts", extent, count));
  return parts(importer, 1, axis, Ints(static_cast<size_t>(count), extent / count));
}
Result<std::vector<ValueId>> split_v(Importer& importer) {
  DTR_ASSIGN(Ints sizes, importer.integers(1));
  DTR_ASSIGN(const int64_t axis, single_integer(importer, 2));
  const Shape& shape = importer.tensor(0).shape;
  DTR_ASSIGN(const int64_t dim, importer.logical_axis(axis, shape.size()));
  int64_t rest = logical_shape(shape)[static_cast<size_t>(dim)];
  for (const int64_t size : sizes) rest -= std::max<int64_t>(size, 0);
  if (const auto open = std::ranges::find(sizes, -1); open != sizes.end()) *open = rest;
  return parts(importer, 0, axis, sizes);
}

Result<std::vector<ValueId>> unpack(Importer& importer) {
  DTR_ASSIGN(const fb::UnpackOptions* options,
             importer.options<fb::UnpackOptions>(OptionsType::UnpackOptions));
  const Shape shape = importer.tensor(0).shape;
  const auto count = static_cast<int64_t>(importer.op().outputs.size());
  if (count > kMaxParts) return importer.unsupported(fmt::format("{} parts", count));
  DTR_ASSIGN(std::vector<ValueId> results,
             parts(importer, 0, options->axis(), Ints(static_cast<size_t>(count), 1)));
  const auto axis = static_cast<ptrdiff_t>(
      options->axis() < 0 ? options->axis() + static_cast<int64_t>(shape.size()) : options->axis());
  Shape from = shape;
  from[static_cast<size_t>(axis)] = 1;
  Shape to = shape;
  to.erase(to.begin() + axis);
  for (ValueId& result : results) {
    DTR_ASSIGN(result, importer.reshape(result, from, to));
  }
  return results;
}

// ---- joins and repetition

Result<ValueId> pack(Importer& importer) {
  DTR_ASSIGN(const fb::PackOptions* options,
             importer.options<fb::PackOptions>(OptionsType::PackOptions));
  const size_t rank = importer.output().shape.size();
  DTR_ASSIGN(const int64_t dim, importer.logical_axis(options->axis(), rank));
  const auto axis = static_cast<ptrdiff_t>(
      options->axis() < 0 ? options->axis() + static_cast<int64_t>(rank) : options->axis());
  std::vector<ValueId> operands;
  for (size_t i = 0; i < importer.op().inputs.size(); ++i) {
    if (!importer.has(i) || importer.tensor(i).shape.size() + 1 != rank)
      return importer.invalid(fmt::format("input {} is absent or of another rank", i));
    Shape with_axis = importer.tensor(i).shape;
    with_axis.insert(with_axis.begin() + axis, 1);
    DTR_ASSIGN(const ValueId x, importer.value(i));
    DTR_ASSIGN(operands.emplace_back(), importer.reshape(x, importer.tensor(i).shape, with_axis));
  }
  return importer.append(ops::kCat, std::move(operands), {{"dim", dim}});
}

// One dimension after the other, so that no tensor in between has many dimensions.
Result<ValueId> tile(Importer& importer) {
  const Shape& shape = importer.tensor(0).shape;
  DTR_ASSIGN(const Ints repeats, importer.integers(1));
  if (repeats.size() != shape.size())
    return importer.invalid(fmt::format("{} repeats for rank {}", repeats.size(), shape.size()));
  DTR_ASSIGN(ValueId x, importer.value(0));
  Shape logical = logical_shape(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (repeats[i] == 1) continue;
    const auto dim = static_cast<ptrdiff_t>(logical_dim(i, shape.size()));
    if (repeats[i] < 0 || repeats[i] > INT32_MAX)
      return importer.invalid(fmt::format("{} repeats", repeats[i]));
    Shape split = logical;
    split.insert(split.begin() + dim, 1);
    DTR_ASSIGN(x, importer.append_moving(ops::kView, x, {{"size", split}}));
    split[static_cast<size_t>(dim)] = repeats[i];
    DTR_ASSIGN(x, importer.append_moving(ops::kExpand, x, {{"size", split}}));
    logical[static_cast<size_t>(dim)] *= repeats[i];
    DTR_ASSIGN(x, importer.append_moving(ops::kView, x, {{"size", logical}}));
  }
  return x;
}

Result<ValueId> broadcast_to(Importer& importer) {
  const Shape& shape = importer.tensor(0).shape;
  DTR_ASSIGN(const Shape to, importer.integers(1));
  DTR_TRY(importer.check_shape(to));
  if (shape.size() > to.size())
    return importer.invalid(
        fmt::format("{} does not broadcast to {}", to_string(shape), to_string(to)));
  Shape aligned = shape;
  aligned.insert(aligned.begin(), to.size() - shape.size(), 1);
  DTR_ASSIGN(ValueId x, importer.value(0));
  DTR_ASSIGN(x, importer.reshape(x, shape, aligned));
  return importer.append(ops::kExpand, {x}, {{"size", logical_shape(to)}});
}

Result<ValueId> reverse(Importer& importer) {
  const size_t rank = importer.tensor(0).shape.size();
  DTR_ASSIGN(Ints axes, importer.integers(1));
  for (int64_t& axis : axes) {
    DTR_ASSIGN(axis, importer.logical_axis(axis, rank));
  }
  DTR_ASSIGN(const ValueId x, importer.value(0));
  return reversed(importer, x, std::move(axes));
}

// REFLECT leaves the element at the edge out, SYMMETRIC repeats it.
Result<ValueId> mirror_pad(Importer& importer) {
  DTR_ASSIGN(const fb::MirrorPadOptions* options,
             importer.options<fb::MirrorPadOptions>(OptionsType::MirrorPadOptions));
  const int64_t skip = options->mode() == fb::MirrorPadMode::REFLECT ? 1 : 0;
  const Shape& shape = importer.tensor(0).shape;
  DTR_ASSIGN(const Ints paddings, importer.integers(1));
  if (paddings.size() != 2 * shape.size())
    return importer.invalid(fmt::format("{} paddings for rank {}", paddings.size(), shape.size()));
  DTR_ASSIGN(ValueId x, importer.value(0));
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t before = paddings[2 * i], behind = paddings[2 * i + 1];
    for (const int64_t amount : {before, behind})
      if (amount < 0 || amount > shape[i] - skip)
        return importer.invalid(
            fmt::format("it pads {} elements to an extent of {}", amount, shape[i]));
    const auto dim = static_cast<int64_t>(logical_dim(i, shape.size()));
    std::vector<ValueId> pieces;
    if (before != 0) {
      DTR_ASSIGN(const ValueId edge, part(importer, x, dim, skip, before));
      DTR_ASSIGN(pieces.emplace_back(), reversed(importer, edge, {dim}));
    }
    pieces.push_back(x);
    if (behind != 0) {
      DTR_ASSIGN(const ValueId edge, part(importer, x, dim, shape[i] - skip - behind, behind));
      DTR_ASSIGN(pieces.emplace_back(), reversed(importer, edge, {dim}));
    }
    DTR_ASSIGN(x, joined(importer, std::move(pieces), dim));
  }
  return x;
}

// EXPAND_DIMS, SQUEEZE: the new shape is that of the output tensor.
Result<ValueId> reshape_to_output(Importer& importer) {
  if (importer.tensor(0).type == fb::TensorType::COMPLEX64)
    return importer.reshape_complex(importer.output().shape);
  DTR_ASSIGN(const ValueId x, importer.value(0));
  return importer.reshape(x, importer.tensor(0).shape,
                          importer.filled_output(element_count(importer.tensor(0).shape)));
}

// ---- elements by index, blocks of pixels

// `value` seen as `split`, its dimensions exchanged, seen as `joined`.
Result<ValueId> exchanged(Importer& importer, ValueId value, const Shape& split, const Ints& dims,
                          const Shape& joined) {
  Importer::Builder builder(importer);
  DTR_ASSIGN(value, builder.view(value, split));
  DTR_ASSIGN(value, builder.permute(value, dims));
  return builder.view(value, joined);
}

// Logical extents of an operand of rank 4, none of them 0.
Result<Shape> image(Importer& importer) {
  Shape shape = importer.tensor(0).shape;
  if (shape.size() != 4 || std::ranges::any_of(shape, [](int64_t extent) { return extent < 1; }))
    return importer.invalid(
        fmt::format("its input has shape {}, expected 4 dimensions", to_string(shape)));
  return logical_shape(shape);
}

tl::unexpected<Diagnostic> bad_blocks(Importer& importer, int64_t height, int64_t width) {
  return importer.invalid(
      fmt::format("blocks of {}x{} for {}", height, width, to_string(importer.tensor(0).shape)));
}

Result<ValueId> space_to_depth(Importer& importer) {
  DTR_ASSIGN(const fb::SpaceToDepthOptions* options,
             importer.options<fb::SpaceToDepthOptions>(OptionsType::SpaceToDepthOptions));
  DTR_ASSIGN(const Shape shape, image(importer));
  const int64_t n = shape[0], c = shape[1], h = shape[2], w = shape[3],
                block = options->block_size();
  if (block < 1 || h % block != 0 || w % block != 0) return bad_blocks(importer, block, block);
  DTR_ASSIGN(const ValueId x, importer.value(0));
  return exchanged(importer, x, {n, c, h / block, block, w / block, block}, {0, 3, 5, 1, 2, 4},
                   {n, c * block * block, h / block, w / block});
}

Result<ValueId> depth_to_space(Importer& importer) {
  DTR_ASSIGN(const fb::DepthToSpaceOptions* options,
             importer.options<fb::DepthToSpaceOptions>(OptionsType::DepthToSpaceOptions));
  DTR_ASSIGN(const Shape shape, image(importer));
  const int64_t n = shape[0], h = shape[2], w = shape[3], block = options->block_size();
  if (block < 1 || block > 65536 || shape[1] % (block * block) != 0)
    return bad_blocks(importer, block, block);
  const int64_t c = shape[1] / (block * block);
  DTR_ASSIGN(const ValueId x, importer.value(0));
  return exchanged(importer, x, {n, block, block, c, h, w}, {0, 3, 4, 1, 5, 2},
                   {n, c, h * block, w * block});
}

// The block's extents and the pairs of paddings or crops of height and width.
struct Blocks {
  int64_t height, width;
  Ints borders;
};
Result<Blocks> blocks(Importer& importer) {
  DTR_ASSIGN(const Ints block, importer.integers(1));
  DTR_ASSIGN(const Ints borders, importer.integers(2));
  const auto positive = [](int64_t extent) { return extent >= 1 && extent <= 65536; };
  if (block.size() != 2 || borders.size() != 4 || !std::ranges::all_of(block, positive) ||
      std::ranges::any_of(borders, [](int64_t border) { return border < 0 || border > INT32_MAX; }))
    return importer.invalid(fmt::format("blocks [{}] with borders [{}]", fmt::join(block, ", "),
                                        fmt::join(borders, ", ")));
  return Blocks{block[0], block[1], borders};
}

Result<ValueId> space_to_batch(Importer& importer) {
  DTR_ASSIGN(const Shape shape, image(importer));
  DTR_ASSIGN(const Blocks block, blocks(importer));
  const Ints& pad = block.borders;
  const int64_t n = shape[0], c = shape[1], h = shape[2] + pad[0] + pad[1],
                w = shape[3] + pad[2] + pad[3];
  if (h % block.height != 0 || w % block.width != 0)
    return bad_blocks(importer, block.height, block.width);
  DTR_ASSIGN(ValueId x, importer.value(0));
  DTR_ASSIGN(
      x, importer.append_moving(ops::kConstantPadNd, x,
                                {{"pad", Ints{pad[2], pad[3], pad[0], pad[1]}}, {"value", 0.0}}));
  return exchanged(
      importer, x, {n, c, h / block.height, block.height, w / block.width, block.width},
      {3, 5, 0, 1, 2, 4}, {n * block.height * block.width, c, h / block.height, w / block.width});
}

Result<ValueId> batch_to_space(Importer& importer) {
  DTR_ASSIGN(const Shape shape, image(importer));
  DTR_ASSIGN(const Blocks block, blocks(importer));
  const int64_t area = block.height * block.width;
  const int64_t n = shape[0] / area, c = shape[1], h = shape[2] * block.height,
                w = shape[3] * block.width;
  const Ints& crop = block.borders;
  if (shape[0] % area != 0 || crop[0] + crop[1] > h || crop[2] + crop[3] > w)
    return bad_blocks(importer, block.height, block.width);
  DTR_ASSIGN(ValueId x, importer.value(0));
  DTR_ASSIGN(x, exchanged(importer, x, {block.height, block.width, n, c, shape[2], shape[3]},
                          {2, 3, 4, 0, 5, 1}, {n, c, h, w}));
  DTR_ASSIGN(x, part(importer, x, 2, crop[0], h - crop[0] - crop[1]));
  return part(importer, x, 3, crop[2], w - crop[2] - crop[3]);
}

constexpr OperatorDef kMovementOperators[] = {
    {BuiltinOperator::BATCH_TO_SPACE_ND, 3, 3, batch_to_space},
    {BuiltinOperator::BROADCAST_TO, 2, 2, broadcast_to},
    {BuiltinOperator::DEPTH_TO_SPACE, 1, 1, depth_to_space},
    {BuiltinOperator::EXPAND_DIMS, 2, 2, reshape_to_output},
    {BuiltinOperator::MIRROR_PAD, 2, 2, mirror_pad},
    {BuiltinOperator::PACK, 1, kAnyNumber, pack},
    {BuiltinOperator::REVERSE_V2, 2, 2, reverse},
    {BuiltinOperator::SLICE, 3, 3, slice},
    {BuiltinOperator::SPACE_TO_BATCH_ND, 3, 3, space_to_batch},
    {BuiltinOperator::SPACE_TO_DEPTH, 1, 1, space_to_depth},
    {BuiltinOperator::SPLIT, 2, 2, nullptr, split},
    {BuiltinOperator::SPLIT_V, 3, 3, nullptr, split_v},
    {BuiltinOperator::SQUEEZE, 1, 1, reshape_to_output},
    {BuiltinOperator::STRIDED_SLICE, 4, 4, strided_slice},
    {BuiltinOperator::TILE, 2, 2, tile},
    {BuiltinOperator::UNPACK, 1, 1, nullptr, unpack},
};

}  // namespace

std::span<const OperatorDef> movement_operators() { return kMovementOperators; }

}  // namespace dtr::tflite
