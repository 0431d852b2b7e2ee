// Operators that make constants of shapes, take elements by index or compute along a dimension.
// What is not elementwise is computed in the file's order of dimensions.
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>

#include "compiler/compositions/indices.h"
#include "compiler/compositions/norms.h"
#include "compiler/compositions/windows.h"
#include "compiler/frontends/tflite/importer.h"

namespace dtr::tflite {
namespace {

using fb::BuiltinOperator;
using fb::OptionsType;
using Builder = Importer::Builder;

// Of constants that are made here.
constexpr int64_t kMostElements = int64_t{1} << 22;

Result<int64_t> file_axis(Importer& importer, int64_t axis, size_t rank) {
  DTR_TRY(importer.logical_axis(axis, rank));
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}

Result<ValueId> converted(Importer& importer, ValueId value, std::string_view dtype) {
  if (name(importer.type(value).dtype) == dtype) return value;
  return Builder(importer).emit("convert", {value}, {{"dtype", std::string(dtype)}});
}

// A result in the file's order of dimensions as the output tensor has it.
Result<ValueId> file_output(Importer& importer, ValueId value, size_t index = 0) {
  return importer.file_output(value, index);
}

// ---- constants

// Codes are made as real numbers, which `file_output` quantizes.
DType dtype_of_output(Importer& importer) {
  const TensorInfo& output = importer.output();
  return output.scales.empty() ? dtype_of(output.type).value_or(DType::kFloat32) : DType::kFloat32;
}

Result<ValueId> constant_of(Importer& importer, std::span<const double> values,
                            const Shape& of_file) {
  DTR_ASSIGN(const ValueId made,
             Builder(importer).constant(dtype_of_output(importer), values, of_file));
  return file_output(importer, made);
}

Result<ValueId> shape(Importer& importer) {
  const Shape& of = importer.tensor(0).shape;
  return constant_of(importer, std::vector<double>(of.begin(), of.end()),
                     {static_cast<int64_t>(of.size())});
}

Result<ValueId> rank(Importer& importer) {
  const double value[] = {static_cast<double>(importer.tensor(0).shape.size())};
  return constant_of(importer, value, {});
}

Result<ValueId> filled(Importer& importer, const Shape& shape, double value) {
  DTR_ASSIGN(const ValueId made,
             Builder(importer).constant(dtype_of_output(importer), shape, value, "filled"));
  return file_output(importer, made);
}

Result<ValueId> zeros_like(Importer& importer) {
  return filled(importer, importer.tensor(0).shape, 0);
}

// Operands: extents, value. A value that depends on an input is repeated.
Result<ValueId> fill(Importer& importer) {
  DTR_ASSIGN(const Shape shape, importer.integers(0));
  DTR_TRY(importer.check_shape(shape));
  if (const auto value = importer.real(1)) return filled(importer, shape, *value);
  DTR_ASSIGN(const ValueId x, importer.real_value(1));
  DTR_ASSIGN(const ValueId one, Builder(importer).view(x, Shape(shape.size(), 1)));
  DTR_ASSIGN(const ValueId wide, Builder(importer).expand(one, shape));
  return file_output(importer, wide);
}

Result<ValueId> range(Importer& importer) {
  double of[3];
  for (size_t i = 0; i < 3; ++i) {
    DTR_ASSIGN(of[i], importer.real(i));
  }
  const double count = std::ceil((of[1] - of[0]) / of[2]);
  if (of[2] == 0 || !(count < static_cast<double>(kMostElements)))
    return importer.invalid(fmt::format("from {} to {} by {}", of[0], of[1], of[2]));
  const bool single = importer.output().type == fb::TensorType::FLOAT32;
  std::vector<double> values;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
    // LiteRT adds the step up in the element type.
    const double last = values.empty() ? 0 : values.back() + of[2];
    values.push_back(values.empty() ? of[0]
                     : single       ? static_cast<double>(static_cast<float>(last))
                                    : last);
  }
  const auto extent = static_cast<int64_t>(values.size());
  return constant_of(importer, values, {extent});
}

Result<ValueId> broadcast_args(Importer& importer) {
  DTR_ASSIGN(Ints a, importer.integers(0));
  DTR_ASSIGN(Ints b, importer.integers(1));
  if (a.size() < b.size()) std::swap(a, b);
  b.insert(b.begin(), a.size() - b.size(), 1);
  std::vector<double> joint;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1)
      return importer.invalid(fmt::format("{} and {} do not broadcast", a[i], b[i]));
    joint.push_back(static_cast<double>(a[i] == 1 ? b[i] : a[i]));
  }
  return constant_of(importer, joint, {static_cast<int64_t>(joint.size())});
}

// ---- elements by index

// index + offsets along `dim`, or index · factor.
Result<ValueId> with_numbers(Importer& importer, std::string_view op, ValueId index,
                             const std::vector<double>& numbers, const Shape& shape) {
  Builder builder(importer);
  DTR_ASSIGN(const ValueId constant, builder.constant(importer.type(index).dtype, numbers, shape));
  return builder.emit(op, {index, constant});
}

// x[b…, a…, index[b…, i…], c…]: the batch is a part of the index into a flat table.
Result<ValueId> batched_gather(Importer& importer, ValueId x, ValueId index, int64_t batch_dims,
                               int64_t axis) {
  Builder builder(importer);
  const Shape shape = importer.type(x).shape, of_index = importer.type(index).shape;
  const auto product = [](const Shape& of, int64_t from, int64_t to) {
    int64_t result = 1;
    for (int64_t i = from; i < to; ++i) result *= of[static_cast<size_t>(i)];
    return result;
  };
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t batch = product(shape, 0, batch_dims), between = product(shape, batch_dims, axis),
                extent = shape[static_cast<size_t>(axis)], inner = product(shape, axis + 1, rank);
  const int64_t each = product(of_index, batch_dims, static_cast<int64_t>(of_index.size()));
  if (batch > kMostElements) return importer.unsupported(fmt::format("{} batches", batch));
  DTR_ASSIGN(x, builder.view(x, {batch, between, extent, inner}));
  DTR_ASSIGN(x, builder.permute(x, {0, 2, 1, 3}));
  DTR_ASSIGN(x, builder.view(x, {batch * extent, between, inner}));
  DTR_ASSIGN(index, builder.view(index, {batch, each}));
  std::vector<double> offsets;
  for (int64_t i = 0; i < batch; ++i) offsets.push_back(static_cast<double>(i * extent));
  DTR_ASSIGN(index, compositions::rows_of_index(builder, index, extent, 1));
  DTR_ASSIGN(index, with_numbers(importer, "aten.add.Tensor", index, offsets, {batch, 1}));
  DTR_ASSIGN(ValueId y, builder.emit("aten.index_select", {x, index}, {{"dim", int64_t{0}}}));
  DTR_ASSIGN(y, builder.permute(y, {0, 2, 1, 3}));
  Shape result(shape.begin(), shape.begin() + axis);
  result.insert(result.end(), of_index.begin() + batch_dims, of_index.end());
  result.insert(result.end(), shape.begin() + axis + 1, shape.end());
  return builder.view(y, result);
}

Result<ValueId> gather(Importer& importer) {
  DTR_ASSIGN(const fb::GatherOptions* options,
             importer.options<fb::GatherOptions>(OptionsType::GatherOptions));
  const size_t of_index = importer.tensor(1).shape.size();
  DTR_ASSIGN(const int64_t axis,
             file_axis(importer, options->axis(), importer.tensor(0).shape.size()));
  const int64_t batch_dims = options->batch_dims() < 0
                                 ? options->batch_dims() + static_cast<int64_t>(of_index)
                                 : options->batch_dims();
  if (batch_dims < 0 || batch_dims > axis || batch_dims > static_cast<int64_t>(of_index))
    return importer.invalid(fmt::format("batch_dims {} of axis {}", batch_dims, axis));
  for (int64_t i = 0; i < batch_dims; ++i)
    if (importer.tensor(0).shape[static_cast<size_t>(i)] !=
        importer.tensor(1).shape[static_cast<size_t>(i)])
      return importer.invalid("its batches differ");
  DTR_ASSIGN(const ValueId x, importer.file_value(0));
  DTR_ASSIGN(const ValueId index, importer.file_value(1));
  if (batch_dims != 0) {
    DTR_ASSIGN(const ValueId y, batched_gather(importer, x, index, batch_dims, axis));
    return file_output(importer, y);
  }
  DTR_ASSIGN(const ValueId y,
             Builder(importer).emit("aten.index_select", {x, index}, {{"dim", axis}}));
  return file_output(importer, y);
}

Result<ValueId> embedding_lookup(Importer& importer) {
  DTR_ASSIGN(const ValueId index, importer.file_value(0));
  DTR_ASSIGN(const ValueId table, importer.file_value(1));
  DTR_ASSIGN(const ValueId y,
             Builder(importer).emit("aten.index_select", {table, index}, {{"dim", int64_t{0}}}));
  return file_output(importer, y);
}

// Apart what the last dimension of the indices lists.
Result<std::vector<ValueId>> columns_of(Importer& importer, ValueId index) {
  Builder builder(importer);
  const Shape of_index = importer.type(index).shape;
  const Shape rows(of_index.begin(), of_index.end() - 1);
  std::vector<ValueId> columns;
  for (int64_t i = 0; i < of_index.back(); ++i) {
    DTR_ASSIGN(const ValueId column,
               builder.slice(index, static_cast<int64_t>(rows.size()), i, i + 1));
    DTR_ASSIGN(columns.emplace_back(), builder.view(column, rows));
  }
  return columns;
}

// The last dimension of the indices counts places in the first dimensions of x.
Result<ValueId> gather_nd(Importer& importer) {
  Builder builder(importer);
  const Shape shape = importer.tensor(0).shape, of_index = importer.tensor(1).shape;
  const int64_t depth = of_index.empty() ? 0 : of_index.back();
  if (of_index.empty() || depth < 1 || depth > static_cast<int64_t>(shape.size()))
    return importer.unsupported(
        fmt::format("indices of shape {} into {}", to_string(of_index), to_string(shape)));
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  DTR_ASSIGN(const ValueId index, importer.file_value(1));
  DTR_ASSIGN(const std::vector<ValueId> columns, columns_of(importer, index));
  ValueId place;
  int64_t rows = 1;
  for (size_t i = columns.size(); i-- > 0;) {
    ValueId part = columns[i];
    if (columns.size() > 1) {
      DTR_ASSIGN(part, compositions::rows_of_index(builder, part, shape[i], rows));
    }
    rows *= shape[i];
    if (!place.valid()) {
      place = part;
    } else {
      DTR_ASSIGN(place, builder.emit("aten.add.Tensor", {place, part}));
    }
  }
  Shape flat{rows};
  flat.insert(flat.end(), shape.begin() + depth, shape.end());
  DTR_ASSIGN(x, builder.view(x, flat));
  DTR_ASSIGN(const ValueId y, builder.emit("aten.index_select", {x, place}, {{"dim", int64_t{0}}}));
  return file_output(importer, y);
}

// `base`, of the file's order of dimensions, with updates at the places that the rows of `index`
// name by their first dimensions, or with them added.
Result<ValueId> put_rows(Importer& importer, ValueId base, ValueId index, ValueId updates,
                         bool accumulate) {
  Builder builder(importer);
  DTR_ASSIGN(const std::vector<ValueId> columns, columns_of(importer, index));
  DTR_ASSIGN(const ValueId y,
             compositions::put_by_tensors(builder, base, columns, updates, accumulate));
  return file_output(importer, y);
}

// Rows of updates at their places, zeros elsewhere; updates of one place are added up.
Result<ValueId> scatter_nd(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(const Shape shape, importer.integers(2));
  DTR_TRY(importer.check_shape(shape));
  const Shape& of_index = importer.tensor(0).shape;
  const int64_t depth = of_index.empty() ? 0 : of_index.back();
  if (depth < 1 || depth > static_cast<int64_t>(shape.size()))
    return importer.invalid(fmt::format("indices of shape {}", to_string(of_index)));
  if (element_count(shape) < 1) return importer.unsupported("its result is empty");
  DTR_ASSIGN(const ValueId index, importer.file_value(0));
  DTR_ASSIGN(ValueId updates, importer.file_value(1));
  DTR_ASSIGN(updates, importer.dequantized(updates));
  DTR_ASSIGN(const ValueId zeros,
             builder.constant(importer.type(updates).dtype, shape, 0, "zeros"));
  return put_rows(importer, zeros, index, updates, true);
}

// Values at the places of their indices, a default elsewhere.
Result<ValueId> sparse_to_dense(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(const Shape shape, importer.integers(1));
  DTR_TRY(importer.check_shape(shape));
  if (element_count(shape) < 1) return importer.unsupported("its result is empty");
  Shape of_index = importer.tensor(0).shape;
  const int64_t count = of_index.empty() ? 1 : of_index[0];
  const int64_t depth = of_index.size() < 2 ? 1 : of_index[1];
  if (of_index.size() > 2 || depth != static_cast<int64_t>(shape.size()))
    return importer.invalid(fmt::format("indices of shape {}", to_string(of_index)));
  DTR_ASSIGN(ValueId index, importer.file_value(0));
  DTR_ASSIGN(index, builder.view(index, {count, depth}));
  DTR_ASSIGN(ValueId values, importer.file_value(2));
  if (element_count(importer.tensor(2).shape) == 1) {
    DTR_ASSIGN(values, builder.view(values, {1}));
    DTR_ASSIGN(values, builder.expand(values, {count}));
  }
  DTR_ASSIGN(ValueId base, importer.file_value(3));
  DTR_ASSIGN(base, builder.view(base, Shape(shape.size(), 1)));
  DTR_ASSIGN(base, builder.expand(base, shape));
  return put_rows(importer, base, index, values, false);
}

// Sums of the rows that have the same number. Operands: rows, their numbers, how many there are
// (else one more than the greatest number, as the output has).
Result<ValueId> segment_sum(Importer& importer) {
  Builder builder(importer);
  Shape shape = importer.tensor(0).shape;
  const Shape of_index = importer.tensor(1).shape;
  if (shape.empty() || of_index != Shape{shape[0]})
    return importer.unsupported(fmt::format("numbers of shape {}", to_string(of_index)));
  if (importer.has(2)) {
    DTR_ASSIGN(const Ints count, importer.integers(2));
    shape[0] = count.size() == 1 ? count[0] : -1;
  } else {
    DTR_ASSIGN(const Ints numbers, importer.integers(1));
    shape[0] = numbers.empty() ? -1 : 1 + *std::ranges::max_element(numbers);
  }
  DTR_TRY(importer.check_shape(shape));
  if (element_count(shape) < 1) return importer.unsupported("its result is empty");
  DTR_ASSIGN(ValueId index, importer.file_value(1));
  DTR_ASSIGN(index, builder.view(index, {of_index[0], 1}));
  DTR_ASSIGN(ValueId rows, importer.file_value(0));
  DTR_ASSIGN(const ValueId zeros, builder.constant(importer.type(rows).dtype, shape, 0, "zeros"));
  return put_rows(importer, zeros, index, rows, true);
}

// Operands: x, a part of it, the place of the part, which is moved to lie inside.
Result<ValueId> dynamic_update_slice(Importer& importer) {
  Builder builder(importer);
  const Shape shape = importer.tensor(0).shape, part = importer.tensor(1).shape;
  DTR_ASSIGN(Ints start, importer.integers(2));
  if (start.size() != shape.size() || part.size() != shape.size())
    return importer.invalid("its operands have different ranks");
  if (element_count(shape) > kMostElements)
    return importer.unsupported(fmt::format("{} elements", element_count(shape)));
  Ints pad(2 * shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (part[i] > shape[i]) return importer.invalid("the part is larger than the whole");
    start[i] = std::clamp<int64_t>(start[i], 0, shape[i] - part[i]);
    const size_t from_end = 2 * (shape.size() - 1 - i);
    pad[from_end] = start[i];
    pad[from_end + 1] = shape[i] - part[i] - start[i];
  }
  std::vector<double> inside(static_cast<size_t>(element_count(shape)));
  for (size_t flat = 0; flat < inside.size(); ++flat) {
    auto rest = static_cast<int64_t>(flat);
    inside[flat] = 1;
    for (size_t i = shape.size(); i-- > 0; rest /= shape[i])
      if (rest % shape[i] < start[i] || rest % shape[i] >= start[i] + part[i]) inside[flat] = 0;
  }
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  DTR_ASSIGN(x, importer.dequantized(x));
  DTR_ASSIGN(ValueId update, importer.file_value(1));
  DTR_ASSIGN(update, importer.dequantized(update));
  DTR_ASSIGN(update, builder.pad(update, pad, 0));
  DTR_ASSIGN(const ValueId mask, builder.constant(DType::kBool, inside, shape));
  DTR_ASSIGN(const ValueId y, builder.emit("aten.where.self", {mask, update, x}));
  return file_output(importer, y);
}

// Operands: indices, depth, the number for the index, the number elsewhere.
Result<ValueId> one_hot(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(const fb::OneHotOptions* options,
             importer.options<fb::OneHotOptions>(OptionsType::OneHotOptions));
  Shape shape = importer.tensor(0).shape;
  DTR_ASSIGN(const Ints depth, importer.integers(1));
  if (depth.size() != 1 || depth[0] < 0 || depth[0] > kMostElements)
    return importer.invalid("its depth is not one number");
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = options->axis() < 0 ? options->axis() + rank + 1 : options->axis();
  if (axis < 0 || axis > rank) return importer.invalid(fmt::format("axis {}", options->axis()));
  DTR_ASSIGN(ValueId index, importer.file_value(0));
  shape.insert(shape.begin() + axis, 1);
  DTR_ASSIGN(index, builder.view(index, shape));
  std::vector<double> places(static_cast<size_t>(depth[0]));
  std::iota(places.begin(), places.end(), 0);
  Shape along(shape.size(), 1);
  along[static_cast<size_t>(axis)] = depth[0];
  DTR_ASSIGN(const ValueId mask, with_numbers(importer, "aten.eq.Tensor", index, places, along));
  ValueId choice[2];
  for (size_t i = 0; i < 2; ++i) {
    DTR_ASSIGN(choice[i], importer.real_value(2 + i));
    DTR_ASSIGN(choice[i], builder.view(choice[i], {}));
  }
  DTR_ASSIGN(const ValueId y, builder.emit("aten.where.self", {mask, choice[0], choice[1]}));
  return file_output(importer, y);
}

Result<std::vector<ValueId>> top_k(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(const Ints count, importer.integers(1));
  const size_t rank = importer.tensor(0).shape.size();
  if (count.size() != 1 || rank == 0) return importer.invalid("its count is not one number");
  if (importer.op().outputs.size() != 2) return importer.invalid("it has not two outputs");
  DTR_ASSIGN(ValueId x, importer.real_value(0));
  DTR_ASSIGN(x, converted(importer, x, "f32"));
  DTR_ASSIGN(compositions::Extremes top,
             compositions::top(builder, x, count[0],
                               static_cast<int64_t>(logical_dim(rank - 1, rank)), true));
  DTR_ASSIGN(top.values, importer.as_output(top.values, 0));
  DTR_ASSIGN(top.indices, importer.as_output(top.indices, 1));
  return std::vector<ValueId>{top.values, top.indices};
}

// Operands: x, lengths. The first elements along one dimension, as many as a batch's length says,
// in reverse order.
Result<ValueId> reverse_sequence(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(const fb::ReverseSequenceOptions* options,
             importer.options<fb::ReverseSequenceOptions>(OptionsType::ReverseSequenceOptions));
  const Shape shape = importer.tensor(0).shape;
  DTR_ASSIGN(const int64_t along, file_axis(importer, options->seq_dim(), shape.size()));
  DTR_ASSIGN(const int64_t batch, file_axis(importer, options->batch_dim(), shape.size()));
  const int64_t extent = shape[static_cast<size_t>(along)],
                batches = shape[static_cast<size_t>(batch)];
  if (along == batch || importer.tensor(1).shape != Shape{batches})
    return importer.invalid("its lengths are not one a batch");
  if (extent > kMostElements) return importer.unsupported(fmt::format("{} steps", extent));
  DTR_ASSIGN(ValueId lengths, importer.file_value(1));
  DTR_ASSIGN(lengths, builder.view(lengths, {batches, 1}));
  std::vector<double> places(static_cast<size_t>(extent));
  std::iota(places.begin(), places.end(), 0);
  DTR_ASSIGN(const ValueId place,
             builder.constant(importer.type(lengths).dtype, places, Shape{1, extent}));
  DTR_ASSIGN(const ValueId inside, builder.emit("aten.lt.Tensor", {place, lengths}));
  DTR_ASSIGN(ValueId mirrored, builder.emit("aten.sub.Tensor", {lengths, place}));
  DTR_ASSIGN(mirrored, with_numbers(importer, "aten.sub.Tensor", mirrored, {1}, {}));
  DTR_ASSIGN(const ValueId index, builder.emit("aten.where.self", {inside, mirrored, place}));
  Ints order{batch, along};
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
    if (d != batch && d != along) order.push_back(d);
  Ints back(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  DTR_ASSIGN(x, builder.permute(x, order));
  DTR_ASSIGN(x, batched_gather(importer, x, index, 1, 1));
  DTR_ASSIGN(x, builder.permute(x, back));
  return file_output(importer, x);
}

// ---- along a dimension

Result<ValueId> cumulative_sum(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(const fb::CumsumOptions* options,
             importer.options<fb::CumsumOptions>(OptionsType::CumsumOptions));
  DTR_ASSIGN(const Ints axes, importer.integers(1));
  const size_t rank = importer.tensor(0).shape.size();
  if (axes.size() != 1) return importer.invalid("its axis is not one number");
  DTR_ASSIGN(const int64_t dim, importer.logical_axis(axes[0], rank));
  DTR_ASSIGN(ValueId x, importer.real_value(0));
  const int64_t extent = importer.type(x).shape[static_cast<size_t>(dim)];
  if (options->reverse()) {
    DTR_ASSIGN(x, builder.flip(x, {dim}));
  }
  if (options->exclusive() && extent > 0) {
    Shape one = importer.type(x).shape;
    one[static_cast<size_t>(dim)] = 1;
    DTR_ASSIGN(const ValueId zero, builder.constant(importer.type(x).dtype, one, 0, "zero"));
    DTR_ASSIGN(const ValueId rest, builder.slice(x, dim, 0, extent - 1));
    DTR_ASSIGN(x, extent == 1 ? Result<ValueId>(zero) : builder.concatenate({zero, rest}, dim));
  }
  DTR_ASSIGN(x, builder.emit("aten.cumsum", {x}, {{"dim", dim}}));
  if (options->reverse()) {
    DTR_ASSIGN(x, builder.flip(x, {dim}));
  }
  return importer.as_output(x);
}

// Axes of a reduction in the file's order, sorted.
Result<Ints> axes_of(Importer& importer) {
  DTR_ASSIGN(const Ints axes, importer.integers(1));
  const size_t rank = importer.tensor(0).shape.size();
  Ints result;
  for (const int64_t axis : axes) {
    DTR_ASSIGN(const int64_t at, file_axis(importer, axis, rank));
    if (std::ranges::find(result, at) == result.end()) result.push_back(at);
  }
  std::ranges::sort(result);
  return result;
}

Result<ValueId> reduce_product(Importer& importer) {
  DTR_ASSIGN(const fb::ReducerOptions* options,
             importer.options<fb::ReducerOptions>(OptionsType::ReducerOptions));
  DTR_ASSIGN(const Ints axes, axes_of(importer));
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  DTR_ASSIGN(x, importer.dequantized(x));
  Builder builder(importer);
  for (size_t i = axes.size(); i-- > 0;) {
    DTR_ASSIGN(x, compositions::product(builder, x, axes[i], options->keep_dims()));
  }
  return file_output(importer, x);
}

// REDUCE_ANY and REDUCE_ALL: the greatest or least bool.
template <bool kAny>
Result<ValueId> reduce_truth(Importer& importer) {
  DTR_ASSIGN(const fb::ReducerOptions* options,
             importer.options<fb::ReducerOptions>(OptionsType::ReducerOptions));
  DTR_ASSIGN(const Ints axes, axes_of(importer));
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  if (!axes.empty()) {
    DTR_ASSIGN(x, Builder(importer).emit(kAny ? "aten.amax" : "aten.amin", {x},
                                         {{"dim", axes}, {"keepdim", options->keep_dims()}}));
  }
  return file_output(importer, x);
}

// x / max(|x|, 1e-6) along the last dimension.
Result<ValueId> l2_normalization(Importer& importer) {
  Builder builder(importer);
  const size_t rank = importer.tensor(0).shape.size();
  if (rank == 0) return importer.invalid("its input has no dimension");
  DTR_ASSIGN(const ValueId x, importer.real_value(0));
  DTR_ASSIGN(ValueId sum, builder.emit("aten.mul.Tensor", {x, x}));
  DTR_ASSIGN(sum, builder.emit("aten.sum.dim_IntList", {sum},
                               {{"dim", Ints{static_cast<int64_t>(logical_dim(rank - 1, rank))}},
                                {"keepdim", true}}));
  DTR_ASSIGN(sum, builder.emit("aten.clamp", {sum}, {{"min", 1e-12}}));
  DTR_ASSIGN(const ValueId inverse, builder.emit("aten.rsqrt", {sum}));
  DTR_ASSIGN(const ValueId y, builder.emit("aten.mul.Tensor", {x, inverse}));
  return importer.as_output(y);
}

// x · (bias + alpha · Σ x²)^−beta, summed over the channels nearer than `radius`.
Result<ValueId> local_response_normalization(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(const fb::LocalResponseNormalizationOptions* options,
             importer.options<fb::LocalResponseNormalizationOptions>(
                 OptionsType::LocalResponseNormalizationOptions));
  const int64_t radius = options->radius();
  DTR_ASSIGN(const ValueId x, importer.real_value(0));
  const Shape shape = importer.type(x).shape;
  if (shape.size() != 4 || radius < 0 || radius > 4096)
    return importer.invalid(fmt::format("a radius of {} for {}", radius, to_string(shape)));
  DTR_ASSIGN(ValueId sum, builder.emit("aten.mul.Tensor", {x, x}));
  DTR_ASSIGN(sum, builder.view(sum, {shape[0], 1, shape[1], shape[2] * shape[3]}));
  DTR_ASSIGN(sum, builder.pad(sum, {0, 0, radius, radius}, 0));
  DTR_ASSIGN(sum, builder.emit("aten.avg_pool2d", {sum},
                               {{"kernel_size", Ints{2 * radius + 1, 1}},
                                {"stride", Ints{1, 1}},
                                {"padding", Ints{0, 0}},
                                {"ceil_mode", false},
                                {"count_include_pad", true}}));
  DTR_ASSIGN(sum, builder.view(sum, shape));
  const auto number = [&](double value) {
    return builder.constant(DType::kFloat32, {}, value, "number");
  };
  DTR_ASSIGN(const ValueId alpha,
             number(static_cast<double>(options->alpha()) * static_cast<double>(2 * radius + 1)));
  DTR_ASSIGN(sum, builder.emit("aten.mul.Tensor", {sum, alpha}));
  DTR_ASSIGN(const ValueId bias, number(static_cast<double>(options->bias())));
  DTR_ASSIGN(sum, builder.emit("aten.add.Tensor", {sum, bias}));
  DTR_ASSIGN(const ValueId factor,
             builder.emit("aten.pow.Tensor_Scalar", {sum},
                          {{"exponent", -static_cast<double>(options->beta())}}));
  return on_reals(importer, "aten.mul.Tensor", {x, factor});
}

// The diagonals of matrices: 1 on them, 0 elsewhere.
Result<ValueId> eye(Importer& importer, DType dtype, int64_t rows, int64_t columns) {
  if (rows > kMostElements || columns > kMostElements || rows * columns > kMostElements)
    return importer.unsupported(fmt::format("a matrix of {} x {}", rows, columns));
  std::vector<double> one(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < std::min(rows, columns); ++i)
    one[static_cast<size_t>(i * columns + i)] = 1;
  return Builder(importer).constant(dtype, one, Shape{rows, columns});
}

Result<ValueId> matrix_diag(Importer& importer) {
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  DTR_ASSIGN(x, importer.dequantized(x));
  Shape shape = importer.type(x).shape;
  if (shape.empty()) return importer.invalid("its input has no dimension");
  const int64_t extent = shape.back();
  shape.push_back(1);
  DTR_ASSIGN(x, Builder(importer).view(x, shape));
  DTR_ASSIGN(const ValueId one, eye(importer, importer.type(x).dtype, extent, extent));
  DTR_ASSIGN(const ValueId y, Builder(importer).emit("aten.mul.Tensor", {x, one}));
  return file_output(importer, y);
}

// Operands: matrices, their new diagonals.
Result<ValueId> matrix_set_diag(Importer& importer) {
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  DTR_ASSIGN(x, importer.dequantized(x));
  DTR_ASSIGN(ValueId diagonal, importer.file_value(1));
  DTR_ASSIGN(diagonal, importer.dequantized(diagonal));
  const Shape shape = importer.type(x).shape;
  if (shape.size() < 2) return importer.invalid("its input is no matrix");
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  Shape of_diagonal = importer.type(diagonal).shape;
  // Entry i belongs to row i and column i: repeated along rows or columns, whichever is longer.
  if (rows >= columns) {
    of_diagonal.insert(of_diagonal.end() - 1, 1);
  } else {
    of_diagonal.push_back(1);
  }
  DTR_ASSIGN(const ValueId wide, Builder(importer).view(diagonal, of_diagonal));
  DTR_ASSIGN(const ValueId mask, eye(importer, DType::kBool, rows, columns));
  DTR_ASSIGN(const ValueId y, Builder(importer).emit("aten.where.self", {mask, wide, x}));
  return file_output(importer, y);
}

// Operands: x, dilations, the value between the elements.
Result<ValueId> dilate(Importer& importer) {
  Builder builder(importer);
  DTR_ASSIGN(const Ints dilations, importer.integers(1));
  DTR_ASSIGN(const double between, importer.real(2));
  DTR_ASSIGN(ValueId x, importer.file_value(0));
  const Shape& shape = importer.tensor(0).shape;
  if (dilations.size() != shape.size()) return importer.invalid("its dilations are not one each");
  DTR_TRY(importer.check_shape(importer.output().shape));
  DTR_ASSIGN(const ValueId filling,
             builder.constant(importer.type(x).dtype, {}, between, "between"));
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t step = dilations[i];
    if (step < 1 || step > INT32_MAX) return importer.invalid("a dilation is not positive");
    Shape wide = importer.type(x).shape;
    wide[i] *= step;
    DTR_TRY(importer.check_shape(wide));
    DTR_ASSIGN(x, compositions::spread(builder, x, static_cast<int64_t>(i), step, filling));
  }
  return file_output(importer, x);
}

// Operands: x, the segment of each row, the count of segments. What the rows of a segment give; of
// no rows the value that changes nothing.
enum class Reduction : uint8_t { kLeast, kGreatest, kProduct };
template <Reduction kKind>
Result<ValueId> reduce_segments(Importer& importer) {
  Builder builder(importer);
  const Shape shape = importer.tensor(0).shape, of_index = importer.tensor(1).shape;
  DTR_ASSIGN(const Ints count, importer.integers(2));
  if (shape.empty() || of_index != Shape{shape[0]} || count.size() != 1 || count[0] < 1 ||
      count[0] > kMaxParts)
    return importer.unsupported(fmt::format("numbers of shape {}", to_string(of_index)));
  DTR_ASSIGN(ValueId index, importer.file_value(1));
  Shape along(shape.size(), 1);
  along[0] = shape[0];
  DTR_ASSIGN(index, builder.view(index, along));
  DTR_ASSIGN(const ValueId rows, importer.file_value(0));
  const DType dtype = importer.type(rows).dtype;
  if (dtype != DType::kFloat32 && dtype != DType::kInt32)
    return importer.unsupported(fmt::format("segments of {}", name(dtype)));
  const double greatest = dtype == DType::kInt32 ? double{INT32_MAX} : double{FLT_MAX};
  const double least = dtype == DType::kInt32 ? double{INT32_MIN} : -double{FLT_MAX};
  const double neutral = kKind == Reduction::kProduct ? 1
                         : kKind == Reduction::kLeast ? greatest
                                                      : least;
  DTR_ASSIGN(const ValueId nothing, builder.constant(dtype, {}, neutral, "nothing"));
  std::vector<ValueId> segments;
  for (int64_t i = 0; i < count[0]; ++i) {
    const double number[] = {static_cast<double>(i)};
    DTR_ASSIGN(const ValueId segment,
               builder.constant(importer.type(index).dtype, number, Shape{}));
    DTR_ASSIGN(const ValueId own, builder.emit("aten.eq.Tensor", {index, segment}));
    DTR_ASSIGN(ValueId made, builder.emit("aten.where.self", {own, rows, nothing}));
    if constexpr (kKind == Reduction::kProduct) {
      DTR_ASSIGN(made, compositions::product(builder, made, 0, true));
    } else {
      DTR_ASSIGN(made, builder.emit(kKind == Reduction::kLeast ? "aten.amin" : "aten.amax", {made},
                                    {{"dim", Ints{0}}, {"keepdim", true}}));
    }
    segments.push_back(made);
  }
  DTR_ASSIGN(const ValueId all, builder.concatenate(std::move(segments), 0));
  return file_output(importer, all);
}

constexpr OperatorDef kIndexOperators[] = {
    {BuiltinOperator::BROADCAST_ARGS, 2, 2, broadcast_args},
    {BuiltinOperator::CUMSUM, 2, 2, cumulative_sum},
    {BuiltinOperator::DILATE, 3, 3, dilate},
    {BuiltinOperator::DYNAMIC_UPDATE_SLICE, 3, 3, dynamic_update_slice},
    {BuiltinOperator::EMBEDDING_LOOKUP, 2, 2, embedding_lookup},
    {BuiltinOperator::FILL, 2, 2, fill},
    {BuiltinOperator::GATHER, 2, 2, gather},
    {BuiltinOperator::GATHER_ND, 2, 2, gather_nd},
    {BuiltinOperator::L2_NORMALIZATION, 1, 1, l2_normalization},
    {BuiltinOperator::LOCAL_RESPONSE_NORMALIZATION, 1, 1, local_response_normalization},
    {BuiltinOperator::MATRIX_DIAG, 1, 1, matrix_diag},
    {BuiltinOperator::MATRIX_SET_DIAG, 2, 2, matrix_set_diag},
    {BuiltinOperator::ONE_HOT, 4, 4, one_hot},
    {BuiltinOperator::RANGE, 3, 3, range},
    {BuiltinOperator::RANK, 1, 1, rank},
    {BuiltinOperator::REDUCE_ALL, 2, 2, reduce_truth<false>},
    {BuiltinOperator::REDUCE_ANY, 2, 2, reduce_truth<true>},
    {BuiltinOperator::REDUCE_PROD, 2, 2, reduce_product},
    {BuiltinOperator::REVERSE_SEQUENCE, 2, 2, reverse_sequence},
    {BuiltinOperator::SCATTER_ND, 3, 3, scatter_nd},
    {BuiltinOperator::SEGMENT_SUM, 2, 2, segment_sum},
    {BuiltinOperator::SHAPE, 1, 1, shape},
    {BuiltinOperator::SPARSE_TO_DENSE, 4, 4, sparse_to_dense},
    {BuiltinOperator::TOPK_V2, 2, 2, nullptr, top_k},
    {BuiltinOperator::UNSORTED_SEGMENT_MAX, 3, 3, reduce_segments<Reduction::kGreatest>},
    {BuiltinOperator::UNSORTED_SEGMENT_MIN, 3, 3, reduce_segments<Reduction::kLeast>},
    {BuiltinOperator::UNSORTED_SEGMENT_PROD, 3, 3, reduce_segments<Reduction::kProduct>},
    {BuiltinOperator::UNSORTED_SEGMENT_SUM, 3, 3, segment_sum},
    {BuiltinOperator::ZEROS_LIKE, 1, 1, zeros_like},
};

}  // namespace

std::span<const OperatorDef> index_operators() { return kIndexOperators; }

}  // namespace dtr::tflite
