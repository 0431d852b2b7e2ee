// Operators of StableHLO, and some like them, that pad, take and put elements or combine those of
// windows. All are built in the file's order of dimensions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/compositions/indices.h"
#include "compiler/compositions/windows.h"
#include "compiler/frontends/tflite/importer.h"

namespace dtr::tflite {
namespace {

using fb::BuiltinOperator;
using Builder = Importer::Builder;

// Bounds of what a file may say about a dimension.
constexpr int64_t kMostPadding = int64_t{1} << 20;

using Numbers = flatbuffers::Vector<int64_t>;

Ints list_of(const Numbers* numbers) {
  return numbers == nullptr ? Ints() : Ints(numbers->begin(), numbers->end());
}

// Numbers of an option that has one for each of `count` dimensions; missing ones are `missing`.
Result<Ints> one_each(Importer& importer, const Numbers* numbers, size_t count, int64_t missing,
                      int64_t least) {
  Ints list = list_of(numbers);
  if (list.empty()) list.assign(count, missing);
  if (list.size() != count)
    return importer.invalid(
        fmt::format("an option has {} numbers for {} dimensions", list.size(), count));
  for (const int64_t number : list)
    if (number < least || number > kMostPadding)
      return importer.invalid(fmt::format("an option of {}", number));
  return list;
}

// The element of a padding value or of an initial value, as a tensor without dimensions.
Result<ValueId> element_of(Importer& importer, size_t operand) {
  DTR_ASSIGN(ValueId value, importer.file_value(operand));
  DTR_ASSIGN(value, importer.dequantized(value));
  if (importer.type(value).elements() != 1)
    return importer.invalid(fmt::format("input {} is not one element", operand));
  return Builder(importer).view(value, {});
}

// `count` elements around or between those of x, along `dim`.
Result<ValueId> filled_part(Importer& importer, ValueId x, ValueId element, size_t dim,
                            int64_t count) {
  Builder builder(importer);
  Shape shape = importer.type(x).shape;
  shape[dim] = count;
  DTR_TRY(importer.check_shape(shape));
  DTR_ASSIGN(const ValueId one, builder.view(element, Shape(shape.size(), 1)));
  return builder.expand(one, shape);
}

struct Padding {
  int64_t low = 0, high = 0, between = 0;
};

// x with elements before, behind and between its own along a dimension; negative numbers remove.
Result<ValueId> padded(Importer& importer, ValueId x, ValueId element, size_t dim,
                       const Padding& by) {
  Builder builder(importer);
  const auto along = static_cast<int64_t>(dim);
  if (by.between > 0) {
    Shape wide = importer.type(x).shape;
    wide[dim] *= by.between + 1;
    DTR_TRY(importer.check_shape(wide));
    DTR_ASSIGN(x, compositions::spread(builder, x, along, by.between + 1, element));
  }
  std::vector<ValueId> parts(3);
  if (by.low > 0) {
    DTR_ASSIGN(parts[0], filled_part(importer, x, element, dim, by.low));
  }
  if (by.high > 0) {
    DTR_ASSIGN(parts[2], filled_part(importer, x, element, dim, by.high));
  }
  parts[1] = x;
  DTR_ASSIGN(x, builder.concatenate(std::move(parts), along));
  const int64_t made = importer.type(x).shape[dim];
  const int64_t from = std::max(-by.low, int64_t{0}), to = made + std::min(by.high, int64_t{0});
  if (from >= to) return importer.unsupported("its result is empty");
  return builder.slice(x, along, from, to);
}

Result<ValueId> stablehlo_pad(Importer& importer) {
  DTR_ASSIGN(const fb::StablehloPadOptions* options,
             importer.options<fb::StablehloPadOptions>(fb::Options2Type::StablehloPadOptions));
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  DTR_ASSIGN(x, importer.dequantized(x));
  DTR_ASSIGN(const ValueId element, element_of(importer, 1));
  const size_t rank = importer.type(x).rank();
  DTR_ASSIGN(const Ints low,
             one_each(importer, options->edge_padding_low(), rank, 0, -kMostPadding));
  DTR_ASSIGN(const Ints high,
             one_each(importer, options->edge_padding_high(), rank, 0, -kMostPadding));
  DTR_ASSIGN(const Ints between, one_each(importer, options->interior_padding(), rank, 0, 0));
  if (importer.type(x).elements() < 1) return importer.unsupported("its operand is empty");
  for (size_t d = 0; d < rank; ++d) {
    DTR_ASSIGN(x, padded(importer, x, element, d, {low[d], high[d], between[d]}));
  }
  return importer.file_output(x);
}

// ---- windows

// How the elements of a window are combined; empty if that is not here.
std::string_view combining(std::optional<BuiltinOperator> code) {
  switch (code.value_or(BuiltinOperator::CUSTOM)) {
    case BuiltinOperator::ADD:
    case BuiltinOperator::STABLEHLO_ADD:
      return "aten.add.Tensor";
    case BuiltinOperator::MUL:
    case BuiltinOperator::STABLEHLO_MULTIPLY:
      return "aten.mul.Tensor";
    case BuiltinOperator::MINIMUM:
    case BuiltinOperator::STABLEHLO_MINIMUM:
      return "aten.minimum";
    case BuiltinOperator::MAXIMUM:
    case BuiltinOperator::STABLEHLO_MAXIMUM:
      return "aten.maximum";
    case BuiltinOperator::LOGICAL_AND:
      return "aten.logical_and";
    case BuiltinOperator::LOGICAL_OR:
      return "aten.logical_or";
    default:
      return {};
  }
}

std::string_view combining(fb::ReduceWindowFunction function) {
  switch (function) {
    case fb::ReduceWindowFunction::ADD:
      return "aten.add.Tensor";
    case fb::ReduceWindowFunction::MUL:
      return "aten.mul.Tensor";
    case fb::ReduceWindowFunction::MINIMUM:
      return "aten.minimum";
    case fb::ReduceWindowFunction::MAXIMUM:
      return "aten.maximum";
    case fb::ReduceWindowFunction::ALL:
      return "aten.logical_and";
    case fb::ReduceWindowFunction::ANY:
      return "aten.logical_or";
    default:
      return {};
  }
}

struct Windows {
  Ints size, stride, dilation;
};

// The elements of every window combined, one dimension after the other, and with `initial`.
Result<ValueId> combined_windows(Importer& importer, ValueId x, ValueId initial,
                                 const Windows& windows, std::string_view op) {
  Builder builder(importer);
  if (op.empty())
    return importer.unsupported("it combines elements by another operator",
                                "Combine them by their sum, product, minimum or maximum.");
  for (size_t d = 0; d < importer.type(x).rank(); ++d) {
    const int64_t size = windows.size[d], extent = importer.type(x).shape[d];
    const int64_t room = extent - (size - 1) * windows.dilation[d] - 1;
    if (size > kMaxParts) return importer.unsupported(fmt::format("windows of {} elements", size));
    if (room < 0) return importer.unsupported("its result is empty");
    if (size == 1 && windows.stride[d] == 1) continue;
    ValueId sum;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t from = i * windows.dilation[d];
      DTR_ASSIGN(const ValueId part, builder.slice(x, static_cast<int64_t>(d), from,
                                                   from + room + 1, windows.stride[d]));
      if (!sum.valid()) {
        sum = part;
      } else {
        DTR_ASSIGN(sum, builder.emit(op, {sum, part}));
      }
    }
    x = sum;
  }
  DTR_ASSIGN(const ValueId one, builder.view(initial, Shape(importer.type(x).rank(), 1)));
  DTR_ASSIGN(x, builder.emit(op, {x, one}));
  return importer.file_output(x);
}

// Operands: x, the initial value, which pads too.
Result<ValueId> stablehlo_reduce_window(Importer& importer) {
  DTR_ASSIGN(const fb::StablehloReduceWindowOptions* options,
             importer.options<fb::StablehloReduceWindowOptions>(
                 fb::Options2Type::StablehloReduceWindowOptions));
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  DTR_ASSIGN(const ValueId initial, element_of(importer, 1));
  const size_t rank = importer.type(x).rank();
  if (importer.type(x).quantized()) return importer.unsupported("windows of codes");
  if (importer.type(x).elements() < 1) return importer.unsupported("its operand is empty");
  Windows windows;
  DTR_ASSIGN(windows.size, one_each(importer, options->window_dimensions(), rank, 1, 1));
  DTR_ASSIGN(windows.stride, one_each(importer, options->window_strides(), rank, 1, 1));
  DTR_ASSIGN(windows.dilation, one_each(importer, options->window_dilations(), rank, 1, 1));
  DTR_ASSIGN(const Ints spread, one_each(importer, options->base_dilations(), rank, 1, 1));
  DTR_ASSIGN(const Ints around, one_each(importer, options->padding(), 2 * rank, 0, -kMostPadding));
  for (size_t d = 0; d < rank; ++d) {
    DTR_ASSIGN(x,
               padded(importer, x, initial, d, {around[2 * d], around[2 * d + 1], spread[d] - 1}));
  }
  DTR_ASSIGN(const auto code, importer.combination(options->body_subgraph_index()));
  return combined_windows(importer, x, initial, windows, combining(code));
}

// Operands: x, the initial value, extents of windows, strides, dilations.
Result<ValueId> reduce_window(Importer& importer) {
  DTR_ASSIGN(const fb::ReduceWindowOptions* options,
             importer.options<fb::ReduceWindowOptions>(fb::Options2Type::ReduceWindowOptions));
  DTR_ASSIGN(const ValueId x, importer.file_value(0));
  DTR_ASSIGN(const ValueId initial, element_of(importer, 1));
  if (importer.type(x).quantized()) return importer.unsupported("windows of codes");
  Windows windows;
  Ints* const lists[] = {&windows.size, &windows.stride, &windows.dilation};
  for (size_t i = 0; i < 3; ++i) {
    DTR_ASSIGN(*lists[i], importer.integers(2 + i));
    if (lists[i]->size() != importer.type(x).rank() ||
        std::ranges::any_of(*lists[i], [](int64_t n) { return n < 1 || n > kMostPadding; }))
      return importer.invalid(fmt::format("input {} is no list of positive extents", 2 + i));
  }
  return combined_windows(importer, x, initial, windows, combining(options->reduce_function()));
}

// ---- elements by index

// Distances of neighbours along each dimension.
Ints steps_of(const Shape& shape) {
  Ints steps(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) steps[d - 1] = steps[d] * shape[d];
  return steps;
}

// The dimensions of a rank that are not in the list.
Ints others(size_t rank, const Ints& list) {
  Ints rest;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (std::ranges::find(list, d) == list.end()) rest.push_back(d);
  return rest;
}

bool are_dimensions(const Ints& list, size_t rank) {
  Ints sorted = list;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end() &&
         (sorted.empty() || (sorted.front() >= 0 && sorted.back() < static_cast<int64_t>(rank)));
}

// The columns of a tensor of indices along its index dimension, as int64, each of the shape of the
// rest.
Result<std::vector<ValueId>> index_columns(Importer& importer, size_t operand, int64_t along,
                                           size_t count) {
  Builder builder(importer);
  DTR_ASSIGN(ValueId index, importer.file_value(operand));
  DTR_ASSIGN(index, builder.emit("convert", {index}, {{"dtype", std::string("i64")}}));
  Shape shape = importer.type(index).shape;
  const auto rank = static_cast<int64_t>(shape.size());
  if (along == rank) {
    shape.push_back(1);
    DTR_ASSIGN(index, builder.view(index, shape));
  }
  if (along < 0 || along > rank || shape[static_cast<size_t>(along)] != static_cast<int64_t>(count))
    return importer.invalid(fmt::format("indices of shape {}", to_string(shape)));
  shape.erase(shape.begin() + along);
  std::vector<ValueId> columns;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
    DTR_ASSIGN(ValueId column, builder.slice(index, along, i, i + 1));
    DTR_ASSIGN(columns.emplace_back(), builder.view(column, shape));
  }
  return columns;
}

// Where the elements of a window begin: one number along the dimension of a column, of the shape
// (…, 1, …) that broadcasts with those of `window`.
Result<ValueId> beside(Importer& importer, ValueId column, size_t window_rank) {
  Shape shape = importer.type(column).shape;
  shape.insert(shape.end(), window_rank, 1);
  return Builder(importer).view(column, shape);
}

// Places of the elements of a window along dimension `dim` of `window`, which counts in steps.
Result<ValueId> places_along(Importer& importer, const Shape& window, size_t dim) {
  Shape shape(window.size(), 1);
  shape[dim] = window[dim];
  std::vector<double> values(static_cast<size_t>(window[dim]));
  std::iota(values.begin(), values.end(), 0.0);
  return Builder(importer).constant(DType::kInt64, values, shape);
}

Result<ValueId> number(Importer& importer, int64_t value) {
  return Builder(importer).constant(DType::kInt64, {}, static_cast<double>(value), "number");
}

// Dimension `order[i]` of the result is dimension i of x.
Result<ValueId> placed(Importer& importer, ValueId x, const Ints& order) {
  Ints inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return Builder(importer).permute(x, inverse);
}

// Slices of the operand that begin where the indices say, moved to fit into it.
Result<ValueId> stablehlo_gather(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(
      const fb::StablehloGatherOptions* options,
      importer.options<fb::StablehloGatherOptions>(fb::Options2Type::StablehloGatherOptions));
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  const Shape shape = importer.type(x).shape;
  const size_t rank = shape.size();
  const Ints offsets = list_of(options->offset_dims()),
             collapsed = list_of(options->collapsed_slice_dims()),
             starts = list_of(options->start_index_map());
  DTR_ASSIGN(const Ints sizes, one_each(importer, options->slice_sizes(), rank, 1, 1));
  const Ints kept = others(rank, collapsed);
  if (!are_dimensions(collapsed, rank) || !are_dimensions(starts, rank) || starts.empty() ||
      kept.size() != offsets.size())
    return importer.invalid("its dimension numbers contradict each other");
  for (size_t d = 0; d < rank; ++d)
    if (sizes[d] > shape[d] ||
        (sizes[d] != 1 && std::ranges::find(collapsed, d) != collapsed.end()))
      return importer.invalid(fmt::format("a slice of {} of {} elements", sizes[d], shape[d]));
  DTR_ASSIGN(const std::vector<ValueId> columns,
             index_columns(importer, 1, options->index_vector_dim(), starts.size()));
  const Ints steps = steps_of(shape);
  Shape window;
  for (const int64_t d : kept) window.push_back(sizes[static_cast<size_t>(d)]);
  ValueId place;
  const auto add = [&](ValueId along, size_t dim) -> Result<void> {
    DTR_ASSIGN(const ValueId step, number(importer, steps[dim]));
    DTR_ASSIGN(const ValueId distance, builder.emit("aten.mul.Tensor", {along, step}));
    if (!place.valid()) {
      place = distance;
    } else {
      DTR_ASSIGN(place, builder.emit("aten.add.Tensor", {place, distance}));
    }
    return {};
  };
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto dim = static_cast<size_t>(starts[i]);
    DTR_ASSIGN(const ValueId least, number(importer, 0));
    DTR_ASSIGN(const ValueId most, number(importer, shape[dim] - sizes[dim]));
    DTR_ASSIGN(ValueId start, builder.emit("aten.maximum", {columns[i], least}));
    DTR_ASSIGN(start, builder.emit("aten.minimum", {start, most}));
    DTR_ASSIGN(start, beside(importer, start, window.size()));
    DTR_TRY(add(start, dim));
  }
  for (size_t k = 0; k < kept.size(); ++k) {
    DTR_ASSIGN(const ValueId along, places_along(importer, window, k));
    DTR_TRY(add(along, static_cast<size_t>(kept[k])));
  }
  DTR_ASSIGN(x, builder.view(x, {element_count(shape)}));
  DTR_ASSIGN(ValueId y, builder.emit("aten.index_select", {x, place}, {{"dim", int64_t{0}}}));
  const size_t result_rank = importer.type(y).rank();
  if (!are_dimensions(offsets, result_rank))
    return importer.invalid("its dimension numbers contradict each other");
  Ints order = others(result_rank, offsets);
  order.insert(order.end(), offsets.begin(), offsets.end());
  DTR_ASSIGN(y, placed(importer, y, order));
  return importer.file_output(y);
}

// The operand with updates where the indices say, or with them added; those beyond it are left out.
Result<ValueId> scatter(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(
      const fb::StablehloScatterOptions* options,
      importer.options<fb::StablehloScatterOptions>(fb::Options2Type::StablehloScatterOptions));
  DTR_ASSIGN(const auto code, importer.combination(options->update_computation_subgraph_index()));
  const bool adds = combining(code) == "aten.add.Tensor";
  if (code && !adds)
    return importer.unsupported("it combines elements by another operator than a sum",
                                "Put elements or add them; combine them otherwise in front of it.");
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  DTR_ASSIGN(ValueId updates, importer.file_value(2));
  const Shape shape = importer.type(x).shape, of_updates = importer.type(updates).shape;
  const size_t rank = shape.size();
  const Ints windows = list_of(options->update_window_dims()),
             inserted = list_of(options->inserted_window_dims()),
             starts = list_of(options->scatter_dims_to_operand_dims());
  const Ints kept = others(rank, inserted), scattered = others(of_updates.size(), windows);
  if (!are_dimensions(windows, of_updates.size()) || !are_dimensions(inserted, rank) ||
      !are_dimensions(starts, rank) || starts.empty() || kept.size() != windows.size())
    return importer.invalid("its dimension numbers contradict each other");
  if (importer.type(updates).elements() < 1 || element_count(shape) < 1)
    return importer.unsupported("its operand is empty");
  DTR_ASSIGN(const std::vector<ValueId> columns,
             index_columns(importer, 1, options->index_vector_dim(), starts.size()));
  Ints order = scattered;
  order.insert(order.end(), windows.begin(), windows.end());
  DTR_ASSIGN(updates, builder.permute(updates, order));
  const Shape ordered = importer.type(updates).shape;
  const Shape window(ordered.begin() + static_cast<int64_t>(scattered.size()), ordered.end());
  if (importer.type(columns[0]).shape !=
      Shape(ordered.begin(), ordered.begin() + static_cast<int64_t>(scattered.size())))
    return importer.invalid(fmt::format("updates of shape {}", to_string(of_updates)));
  const Ints steps = steps_of(shape);
  ValueId place, inside;
  for (size_t dim = 0; dim < rank; ++dim) {
    ValueId along;
    if (const auto start = std::ranges::find(starts, dim); start != starts.end()) {
      DTR_ASSIGN(along, beside(importer, columns[static_cast<size_t>(start - starts.begin())],
                               window.size()));
    }
    if (const auto at = std::ranges::find(kept, dim); at != kept.end()) {
      DTR_ASSIGN(const ValueId places,
                 places_along(importer, window, static_cast<size_t>(at - kept.begin())));
      if (along.valid()) {
        DTR_ASSIGN(along, builder.emit("aten.add.Tensor", {along, places}));
      } else {
        along = places;
      }
    }
    if (!along.valid()) continue;  // the first element along it
    DTR_ASSIGN(const ValueId least, number(importer, 0));
    DTR_ASSIGN(const ValueId end, number(importer, shape[dim]));
    DTR_ASSIGN(const ValueId behind, builder.emit("aten.ge.Tensor", {along, least}));
    DTR_ASSIGN(const ValueId before, builder.emit("aten.lt.Tensor", {along, end}));
    DTR_ASSIGN(const ValueId both, builder.emit("aten.logical_and", {behind, before}));
    DTR_ASSIGN(const ValueId step, number(importer, steps[dim]));
    DTR_ASSIGN(const ValueId distance, builder.emit("aten.mul.Tensor", {along, step}));
    if (!place.valid()) {
      place = distance;
      inside = both;
    } else {
      DTR_ASSIGN(place, builder.emit("aten.add.Tensor", {place, distance}));
      DTR_ASSIGN(inside, builder.emit("aten.logical_and", {inside, both}));
    }
  }
  // What is beyond the operand goes to one more element behind it.
  const int64_t count = element_count(shape);
  DTR_ASSIGN(const ValueId beyond, number(importer, count));
  DTR_ASSIGN(place, builder.emit("aten.where.self", {inside, place, beyond}));
  DTR_ASSIGN(place, builder.expand(place, ordered));
  DTR_ASSIGN(place, builder.view(place, {element_count(ordered)}));
  DTR_ASSIGN(updates, builder.view(updates, {element_count(ordered)}));
  DTR_ASSIGN(x, builder.view(x, {count}));
  DTR_ASSIGN(const ValueId first, builder.slice(x, 0, 0, 1));
  DTR_ASSIGN(x, builder.concatenate({x, first}, 0));
  DTR_ASSIGN(x, compositions::put_by_tensors(builder, x, {place}, updates, adds));
  DTR_ASSIGN(x, builder.slice(x, 0, 0, count));
  DTR_ASSIGN(x, builder.view(x, shape));
  return importer.file_output(x);
}

// x / 2^places, rounded down: LiteRT's shift keeps the sign.
Result<ValueId> right_shift(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(const std::vector<double> places, importer.known(1));
  std::vector<double> powers;
  for (const double count : places) powers.push_back(std::exp2(std::clamp(count, 0.0, 62.0)));
  DTR_ASSIGN(const ValueId factors,
             builder.constant(DType::kInt64, powers, importer.tensor(1).shape));
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  DTR_ASSIGN(x, builder.emit("convert", {x}, {{"dtype", std::string("i64")}}));
  DTR_ASSIGN(const ValueId y, builder.emit("aten.div.Tensor_mode", {x, factors},
                                           {{"rounding_mode", std::string("floor")}}));
  return importer.file_output(y);
}

constexpr OperatorDef kStablehloOperators[] = {
    {BuiltinOperator::REDUCE_WINDOW, 5, 5, reduce_window},
    {BuiltinOperator::RIGHT_SHIFT, 2, 2, right_shift},
    {BuiltinOperator::STABLEHLO_GATHER, 2, 2, stablehlo_gather},
    {BuiltinOperator::STABLEHLO_PAD, 2, 2, stablehlo_pad},
    {BuiltinOperator::STABLEHLO_REDUCE_WINDOW, 2, 2, stablehlo_reduce_window},
    {BuiltinOperator::STABLEHLO_SCATTER, 3, 3, scatter},
};

}  // namespace

std::span<const OperatorDef> stablehlo_operators() { return kStablehloOperators; }

}  // namespace dtr::tflite
