// Operators that take or replace elements by index, and masks of triangles.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/compositions/indices.h"
#include "compiler/frontends/onnx/operators.h"
#include "compiler/ops/constant_folding.h"

namespace dtr::onnx {
namespace {

// Of constants that are made here.
constexpr int64_t kMostElements = int64_t{1} << 22;

int64_t product(const Shape& of, int64_t from, int64_t to) {
  int64_t result = 1;
  for (int64_t i = from; i < to; ++i) result *= of[static_cast<size_t>(i)];
  return result;
}

Result<ValueId> selected(NodeImport& node, ValueId x, int64_t dim, ValueId index) {
  return node.emit("aten.index_select", {x, index}, {{"dim", dim}});
}

Result<Values> gather(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(ValueId index, node.value(1));
  DTR_ASSIGN(const int64_t stated, node.integer("axis", int64_t{0}));
  DTR_ASSIGN(const int64_t dim, node.axis(stated, node.type(x).rank()));
  DTR_ASSIGN(index, node.from_front(index, node.shape(x)[static_cast<size_t>(dim)]));
  return only(selected(node, x, dim, index));
}

Result<Values> gather_elements(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(ValueId index, node.value(1));
  DTR_ASSIGN(const int64_t stated, node.integer("axis", int64_t{0}));
  DTR_ASSIGN(const int64_t dim, node.axis(stated, node.type(x).rank()));
  DTR_ASSIGN(index, node.from_front(index, node.shape(x)[static_cast<size_t>(dim)]));
  return only(compositions::gather(node, x, dim, index));
}

// What the last dimension of the indices names, apart: [… , depth] to `depth` of […].
Result<std::vector<ValueId>> index_parts(NodeImport& node, ValueId index) {
  const Shape of = node.shape(index);
  const auto last = static_cast<int64_t>(of.size()) - 1;
  std::vector<ValueId> parts;
  for (int64_t at = 0; at < of.back(); ++at) {
    DTR_ASSIGN(const ValueId part, node.slice(index, last, at, at + 1));
    DTR_ASSIGN(parts.emplace_back(), node.view(part, Shape(of.begin(), of.end() - 1)));
  }
  return parts;
}

// The places in a flat list of rows that the last dimension of the indices names: [… , depth] to
// […]. `shape` has the extents that are indexed.
Result<ValueId> flat_places(NodeImport& node, ValueId index, const Shape& shape) {
  DTR_ASSIGN(const std::vector<ValueId> parts, index_parts(node, index));
  ValueId sum;
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    DTR_ASSIGN(ValueId part, node.from_front(parts[i], shape[i]));
    DTR_ASSIGN(part, compositions::rows_of_index(node, part, shape[i], step));
    if (sum.valid()) {
      DTR_ASSIGN(sum, node.add(sum, part));
    } else {
      sum = part;
    }
    step *= shape[i];
  }
  return sum;
}

Result<Values> gather_nd(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId index, node.value(1));
  DTR_ASSIGN(const int64_t batch, node.integer("batch_dims", int64_t{0}));
  const Shape of = node.shape(x), of_index = node.shape(index);
  const int64_t depth = of_index.empty() ? 0 : of_index.back();
  const auto rank = static_cast<int64_t>(of.size());
  const auto index_rank = static_cast<int64_t>(of_index.size());
  if (depth < 1 || batch < 0 || batch >= index_rank || batch + depth > rank)
    return node.invalid(
        fmt::format("indices of shape {} into {}", to_string(of_index), to_string(of)));
  const Shape indexed(of.begin() + batch, of.begin() + batch + depth);
  DTR_ASSIGN(ValueId places, flat_places(node, index, indexed));
  const int64_t rows = product(indexed, 0, depth), batches = product(of, 0, batch);
  if (batches > kMostElements) return node.unsupported(fmt::format("{} batches", batches));
  if (batch > 0) {
    // Each batch has its own rows of the table.
    Shape along(node.shape(places).size(), 1);
    for (int64_t i = 0; i < batch; ++i) {
      if (of_index[static_cast<size_t>(i)] != of[static_cast<size_t>(i)])
        return node.invalid("its batches differ");
      along[static_cast<size_t>(i)] = of[static_cast<size_t>(i)];
    }
    std::vector<double> offsets;
    for (int64_t i = 0; i < batches; ++i) offsets.push_back(static_cast<double>(i * rows));
    DTR_ASSIGN(const ValueId offset, node.constant(node.dtype(places), offsets, along));
    DTR_ASSIGN(places, node.add(places, offset));
  }
  Shape flat{batches * rows};
  flat.insert(flat.end(), of.begin() + batch + depth, of.end());
  DTR_ASSIGN(x, node.view(x, flat));
  return only(selected(node, x, 0, places));
}

// ---- replacing

std::string_view op_of(const std::string& reduction) {
  if (reduction == "add") return "aten.add.Tensor";
  if (reduction == "mul") return "aten.mul.Tensor";
  if (reduction == "max") return "aten.maximum";
  if (reduction == "min") return "aten.minimum";
  return {};
}

Result<ValueId> combined(NodeImport& node, ValueId x, ValueId part, const std::string& reduction) {
  if (is_float(node.dtype(x)) || reduction == "add" || reduction == "mul")
    return node.emit(op_of(reduction), {x, part});
  DTR_ASSIGN(const ValueId first,
             node.emit(reduction == "max" ? "aten.gt.Tensor" : "aten.lt.Tensor", {x, part}));
  return node.emit("aten.where.self", {first, x, part});
}

// Rows of x replaced by rows of the updates, or combined with them: row `places[i]` by row i. The
// rows with several updates are written in as many rounds. Both have shape [rows, inner].
Result<ValueId> scattered(NodeImport& node, ValueId x, ValueId updates,
                          const std::vector<int64_t>& places, const std::string& reduction) {
  constexpr size_t kMostRounds = 256;
  const auto rows = static_cast<size_t>(node.shape(x)[0]);
  const std::string_view op = op_of(reduction);
  if (op.empty() && reduction != "none")
    return node.invalid(fmt::format("the reduction `{}`", reduction));
  if (static_cast<int64_t>(rows) > kMostElements)
    return node.unsupported(fmt::format("{} rows", rows));
  std::vector<std::vector<double>> rounds;  // for each row of x, the row of [x, updates] to take
  std::vector<size_t> count(rows);
  const auto own = [&] {
    std::vector<double> all(rows);
    std::iota(all.begin(), all.end(), 0);
    return all;
  };
  for (size_t i = 0; i < places.size(); ++i) {
    const auto place = static_cast<size_t>(places[i]);
    const size_t round = op.empty() ? 0 : count[place]++;
    if (round == kMostRounds || (round + 1) * rows > static_cast<size_t>(4 * kMostElements))
      return node.unsupported("many updates of one element");
    if (round == rounds.size())
      rounds.push_back(op.empty() ? own() : std::vector<double>(rows, -1));
    rounds[round][place] = static_cast<double>(op.empty() ? rows + i : i);
  }
  if (rounds.empty()) return x;
  if (op.empty()) {
    DTR_ASSIGN(const ValueId all, node.concatenate({x, updates}, 0));
    DTR_ASSIGN(const ValueId index, node.constant(DType::kInt64, rounds[0]));
    return selected(node, all, 0, index);
  }
  for (std::vector<double>& round : rounds) {
    std::vector<double> mask;
    for (double& place : round) {
      mask.push_back(place >= 0 ? 1 : 0);
      place = std::max(place, 0.0);
    }
    DTR_ASSIGN(const ValueId index, node.constant(DType::kInt64, round));
    DTR_ASSIGN(const ValueId touched,
               node.constant(DType::kBool, mask, Shape{static_cast<int64_t>(rows), 1}));
    DTR_ASSIGN(const ValueId part, selected(node, updates, 0, index));
    DTR_ASSIGN(const ValueId both, combined(node, x, part, reduction));
    DTR_ASSIGN(x, node.emit("aten.where.self", {touched, both, x}));
  }
  return x;
}

// Whether each update is combined with what is there by itself, for indices that are computed:
// places may be equal.
bool takes_rounds(const std::string& reduction) {
  return reduction == "mul" || reduction == "max" || reduction == "min";
}

Result<void> check_rounds(const NodeImport& node, const std::string& reduction, int64_t rounds) {
  constexpr int64_t kMostRounds = 256;
  if (reduction != "none" && op_of(reduction).empty())
    return node.invalid(fmt::format("the reduction `{}`", reduction));
  if (takes_rounds(reduction) && rounds > kMostRounds)
    return node.unsupported(
        fmt::format("the reduction `{}` of {} updates by indices that are computed: {} at most",
                    reduction, rounds, kMostRounds),
        "Make the indices constant, or reduce with `add`.");
  return {};
}

// The updates one index after the other.
Result<ValueId> put_in_rounds(NodeImport& node, ValueId x, std::vector<ValueId> parts,
                              ValueId updates, const std::string& reduction) {
  const int64_t count = element_count(node.shape(parts.front()));
  for (ValueId& part : parts) {
    DTR_ASSIGN(part, node.view(part, {count}));
  }
  Shape flat = node.shape(x);
  flat.erase(flat.begin(), flat.begin() + std::ssize(parts));
  flat.insert(flat.begin(), count);
  DTR_ASSIGN(updates, node.view(updates, flat));
  for (int64_t i = 0; i < count; ++i) {
    std::vector<ValueId> place;
    for (const ValueId part : parts) {
      DTR_ASSIGN(place.emplace_back(), node.slice(part, 0, i, i + 1));
    }
    DTR_ASSIGN(const ValueId update, node.slice(updates, 0, i, i + 1));
    DTR_ASSIGN(ValueId row, compositions::index_by_tensors(node, x, place));
    DTR_ASSIGN(row, combined(node, row, update, reduction));
    DTR_ASSIGN(x, compositions::put_by_tensors(node, x, place, row, false));
  }
  return x;
}

// The same along `dim`: indices that differ in another dimension name other elements.
Result<ValueId> scatter_in_rounds(NodeImport& node, ValueId x, int64_t dim, ValueId index,
                                  ValueId updates, const std::string& reduction) {
  const int64_t rounds = node.shape(index)[static_cast<size_t>(dim)];
  for (int64_t i = 0; i < rounds; ++i) {
    DTR_ASSIGN(const ValueId place, node.slice(index, dim, i, i + 1));
    DTR_ASSIGN(const ValueId update, node.slice(updates, dim, i, i + 1));
    DTR_ASSIGN(ValueId row, compositions::gather(node, x, dim, place));
    DTR_ASSIGN(row, combined(node, row, update, reduction));
    DTR_ASSIGN(x, compositions::scatter(node, x, dim, place, row, false));
  }
  return x;
}

Result<Values> scatter_nd(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId indices, node.value(1));
  DTR_ASSIGN(ValueId updates, node.value(2));
  DTR_ASSIGN(const std::string reduction, node.string("reduction", "none"));
  const Shape of = node.shape(x), of_index = node.shape(indices);
  const int64_t depth = of_index.empty() ? 0 : of_index.back();
  if (depth < 1 || depth > static_cast<int64_t>(of.size()))
    return node.invalid(fmt::format("indices of shape {}", to_string(of_index)));
  if (!ops::is_static(node.graph(), indices)) {
    DTR_TRY(check_rounds(node, reduction, element_count(of_index) / depth));
    DTR_ASSIGN(std::vector<ValueId> parts, index_parts(node, indices));
    if (takes_rounds(reduction))
      return only(put_in_rounds(node, x, std::move(parts), updates, reduction));
    return only(compositions::put_by_tensors(node, x, parts, updates, reduction == "add"));
  }
  DTR_ASSIGN(const Ints index, node.integers(1));
  const int64_t count = static_cast<int64_t>(index.size()) / depth;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    for (int64_t j = 0; j < depth; ++j) {
      const int64_t extent = of[static_cast<size_t>(j)];
      int64_t at = index[static_cast<size_t>(i * depth + j)];
      if (at < 0) at += extent;
      if (at < 0 || at >= extent)
        return node.invalid(fmt::format("index {} of {} elements", at, extent));
      place = place * extent + at;
    }
    places.push_back(place);
  }
  const int64_t rows = product(of, 0, depth),
                inner = product(of, depth, static_cast<int64_t>(of.size()));
  DTR_ASSIGN(x, node.view(x, {rows, inner}));
  DTR_ASSIGN(updates, node.view(updates, {count, inner}));
  DTR_ASSIGN(x, scattered(node, x, updates, places, reduction));
  return only(node.view(x, of));
}

Result<Values> scatter_elements(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(const ValueId indices, node.value(1));
  DTR_ASSIGN(ValueId updates, node.value(2));
  DTR_ASSIGN(const std::string reduction, node.string("reduction", "none"));
  DTR_ASSIGN(const int64_t stated, node.integer("axis", int64_t{0}));
  const Shape of = node.shape(x), of_index = node.shape(indices);
  DTR_ASSIGN(const int64_t dim, node.axis(stated, of.size()));
  if (of_index.size() != of.size() || node.shape(updates) != of_index)
    return node.invalid(fmt::format("indices of shape {}", to_string(of_index)));
  if (!ops::is_static(node.graph(), indices)) {
    DTR_TRY(check_rounds(node, reduction, of_index[static_cast<size_t>(dim)]));
    DTR_ASSIGN(const ValueId index, node.from_front(indices, of[static_cast<size_t>(dim)]));
    if (takes_rounds(reduction))
      return only(scatter_in_rounds(node, x, dim, index, updates, reduction));
    return only(compositions::scatter(node, x, dim, index, updates, reduction == "add"));
  }
  DTR_ASSIGN(const Ints index, node.integers(1));
  const std::vector<int64_t> step = strides(of, Layout::kContiguous);
  std::vector<int64_t> places;
  Shape at(of.size(), 0);
  for (int64_t chosen : index) {
    int64_t place = 0;
    for (size_t d = 0; d < of.size(); ++d) {
      int64_t position = at[d];
      if (static_cast<int64_t>(d) == dim) position = chosen < 0 ? chosen + of[d] : chosen;
      if (position < 0 || position >= of[d])
        return node.invalid(fmt::format("index {} of {} elements", position, of[d]));
      place += position * step[d];
    }
    places.push_back(place);
    for (size_t d = of.size(); d-- > 0;) {
      if (++at[d] < of_index[d]) break;
      at[d] = 0;
    }
  }
  DTR_ASSIGN(x, node.view(x, {element_count(of), 1}));
  DTR_ASSIGN(updates, node.view(updates, {static_cast<int64_t>(index.size()), 1}));
  DTR_ASSIGN(x, scattered(node, x, updates, places, reduction));
  return only(node.view(x, of));
}

// Operands: indices, depth, the two numbers.
Result<Values> one_hot(NodeImport& node) {
  DTR_ASSIGN(ValueId index, node.value(0));
  DTR_ASSIGN(const int64_t depth, node.integer(1));
  DTR_ASSIGN(const ValueId choice, node.value(2));
  DTR_ASSIGN(const int64_t stated, node.integer("axis", int64_t{-1}));
  Shape of = node.shape(index);
  DTR_ASSIGN(const int64_t dim, node.axis(stated, of.size() + 1));
  if (depth < 1 || depth > kMostElements || node.shape(choice) != Shape{2})
    return node.invalid(fmt::format("a depth of {}", depth));
  DTR_ASSIGN(index, node.cast(index, DType::kInt64));
  of.insert(of.begin() + dim, 1);
  DTR_ASSIGN(index, node.view(index, of));
  DTR_ASSIGN(const ValueId length, node.scalar(static_cast<double>(depth), index));
  DTR_ASSIGN(const ValueId zero, node.scalar(0, index));
  DTR_ASSIGN(const ValueId negative, node.emit("aten.lt.Tensor", {index, zero}));
  DTR_ASSIGN(const ValueId moved, node.add(index, length));
  DTR_ASSIGN(index, node.emit("aten.where.self", {negative, moved, index}));
  std::vector<double> places(static_cast<size_t>(depth));
  std::iota(places.begin(), places.end(), 0);
  Shape along(of.size(), 1);
  along[static_cast<size_t>(dim)] = depth;
  DTR_ASSIGN(const ValueId place, node.constant(DType::kInt64, places, along));
  DTR_ASSIGN(const ValueId mask, node.emit("aten.eq.Tensor", {index, place}));
  ValueId numbers[2];  // off, on
  for (int64_t i = 0; i < 2; ++i) {
    DTR_ASSIGN(numbers[i], node.slice(choice, 0, i, i + 1));
    DTR_ASSIGN(numbers[i], node.view(numbers[i], {}));
  }
  return only(node.emit("aten.where.self", {mask, numbers[1], numbers[0]}));
}

// The triangle of each matrix, zeros elsewhere.
Result<Values> trilu(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const bool upper, node.flag("upper", true));
  int64_t diagonal = 0;
  if (node.has(1)) {
    DTR_ASSIGN(diagonal, node.integer(1));
  }
  const Shape of = node.shape(x);
  if (of.size() < 2) return node.invalid("its operand is no matrix");
  const int64_t rows = of[of.size() - 2], columns = of.back();
  if (rows > kMostElements || columns > kMostElements || rows * columns > kMostElements)
    return node.unsupported(fmt::format("a matrix of {}x{}", rows, columns));
  if (element_count(of) == 0) return Values{x};
  std::vector<double> keeps;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      keeps.push_back((upper ? j - i >= diagonal : j - i <= diagonal) ? 1 : 0);
  DTR_ASSIGN(const ValueId mask, node.constant(DType::kBool, keeps, Shape{rows, columns}));
  DTR_ASSIGN(const ValueId zero, node.scalar(0, x));
  return only(node.emit("aten.where.self", {mask, x, zero}));
}

// The elements that a known mask names.
Result<Values> compress(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(const std::vector<double> mask, node.known(1));
  int64_t dim = 0;
  if (node.has_attribute("axis")) {
    DTR_ASSIGN(const int64_t stated, node.integer("axis"));
    DTR_ASSIGN(dim, node.axis(stated, node.type(x).rank()));
  } else {
    DTR_ASSIGN(x, node.view(x, {node.type(x).elements()}));
  }
  std::vector<double> places;
  for (size_t i = 0; i < mask.size(); ++i)
    if (mask[i] != 0) places.push_back(static_cast<double>(i));
  if (places.empty()) return node.unsupported("its result is empty");
  DTR_ASSIGN(ValueId index, node.constant(DType::kInt64, places));
  DTR_ASSIGN(index, node.from_front(index, node.shape(x)[static_cast<size_t>(dim)]));
  return only(selected(node, x, dim, index));
}

// Where a known tensor is not zero; one row a dimension.
Result<Values> non_zero(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(const std::vector<double> elements, node.known(0));
  const Shape of = node.shape(x);
  const std::vector<int64_t> step = strides(of, Layout::kContiguous);
  std::vector<double> places;
  for (size_t d = 0; d < of.size(); ++d)
    for (size_t i = 0; i < elements.size(); ++i)
      if (elements[i] != 0)
        places.push_back(static_cast<double>(static_cast<int64_t>(i) / step[d] % of[d]));
  const auto rank = static_cast<int64_t>(of.size());
  const int64_t count = rank == 0 ? 0 : static_cast<int64_t>(places.size()) / rank;
  return only(node.constant(DType::kInt64, places, Shape{rank, count}));
}

// The first elements along one dimension, as many as a known length of a batch, in reverse order.
Result<Values> reverse_sequence(NodeImport& node) {
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(const Ints lengths, node.integers(1));
  DTR_ASSIGN(const int64_t time, node.integer("time_axis", int64_t{0}));
  DTR_ASSIGN(const int64_t batch, node.integer("batch_axis", int64_t{1}));
  const Shape of = node.shape(x);
  if (of.size() < 2 || time + batch != 1 || (time != 0 && time != 1) ||
      static_cast<int64_t>(lengths.size()) != of[static_cast<size_t>(batch)])
    return node.invalid("its axes or lengths do not fit");
  if (of[0] * of[1] > kMostElements) return node.unsupported("more than 2^22 steps");
  const int64_t steps = of[static_cast<size_t>(time)];
  std::vector<double> places;
  for (int64_t i = 0; i < of[0]; ++i)
    for (int64_t j = 0; j < of[1]; ++j) {
      const int64_t t = time == 0 ? i : j, b = time == 0 ? j : i;
      const int64_t length = std::min(lengths[static_cast<size_t>(b)], steps);
      const int64_t from = t < length ? length - 1 - t : t;
      places.push_back(static_cast<double>(time == 0 ? from * of[1] + b : b * of[1] + from));
    }
  Shape flat{of[0] * of[1]};
  flat.insert(flat.end(), of.begin() + 2, of.end());
  DTR_ASSIGN(x, node.view(x, flat));
  DTR_ASSIGN(const ValueId index, node.constant(DType::kInt64, places));
  DTR_ASSIGN(x, selected(node, x, 0, index));
  return only(node.view(x, of));
}

// Numbers of the classes that indices name, of models of ai.onnx.ml.
Result<Values> array_feature_extractor(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  DTR_ASSIGN(ValueId index, node.value(1));
  const Shape of = node.shape(x);
  if (of.empty()) return node.invalid("its operand is a scalar");
  DTR_ASSIGN(index, node.view(index, {node.type(index).elements()}));
  DTR_ASSIGN(index, node.from_front(index, of.back()));
  DTR_ASSIGN(ValueId y, selected(node, x, static_cast<int64_t>(of.size()) - 1, index));
  if (of.size() == 1) {
    DTR_ASSIGN(y, node.view(y, {1, node.type(y).elements()}));
  }
  return Values{y};
}

}  // namespace

std::vector<Operator> index_operators() {
  return {
      row("ArrayFeatureExtractor", 2, 2, array_feature_extractor, kClassic),
      row("Compress", 2, 2, compress),
      row("Gather", 2, 2, gather),
      row("GatherElements", 2, 2, gather_elements),
      row("GatherND", 2, 2, gather_nd),
      row("NonZero", 1, 1, non_zero),
      row("OneHot", 3, 3, one_hot),
      row("ReverseSequence", 2, 2, reverse_sequence),
      row("Scatter", 3, 3, scatter_elements),
      row("ScatterElements", 3, 3, scatter_elements),
      row("ScatterND", 3, 3, scatter_nd),
      row("Trilu", 1, 2, trilu),
  };
}

}  // namespace dtr::onnx
