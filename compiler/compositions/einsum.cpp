// einsum: operands are contracted one after the other. Of two, letters of both that a later operand
// or the result has are batches, other letters of both are summed, and the rest are rows and
// columns of a matrix product. Without batches a constant matrix is the weight of a linear layer,
// which has a scale for each of its columns.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "compiler/compositions/attention.h"
#include "compiler/compositions/factorizations.h"
#include "compiler/ops/constant_folding.h"

namespace dtr::compositions {
namespace {

bool in(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

// A tensor with a letter for each dimension, no letter twice.
struct Labelled {
  ValueId value;
  std::string labels;
};

int64_t extent_of(const GraphBuilder& builder, const Labelled& x, char label) {
  return builder.type(x.value).shape[x.labels.find(label)];
}

// `value` with its dimensions in the order of `groups`, each group made one dimension.
Result<ValueId> grouped(GraphBuilder& builder, ValueId value, std::string_view labels,
                        std::initializer_list<std::string_view> groups) {
  Ints dims;
  Shape shape;
  for (const std::string_view group : groups) {
    int64_t extent = 1;
    for (const char label : group) {
      const size_t dim = labels.find(label);
      dims.push_back(static_cast<int64_t>(dim));
      extent *= builder.type(value).shape[dim];
    }
    shape.push_back(extent);
  }
  DTR_ASSIGN(const ValueId permuted, builder.permute(value, dims));
  return builder.view(permuted, shape);
}

// Letters for the dimensions that `...` stands for, the last one first.
constexpr std::string_view kOfEllipsis = "0123456789";

// One operand's or the result's letters; `...` is `dims` dimensions.
std::string expanded(std::string_view labels, size_t dims) {
  std::string letters(labels);
  const size_t at = letters.find("...");
  if (at == std::string::npos) return letters;
  std::string many(kOfEllipsis.substr(0, dims));
  std::ranges::reverse(many);
  return letters.replace(at, 3, many);
}

// The diagonal along every letter that a tensor has twice.
Result<Labelled> without_repetition(GraphBuilder& builder, Labelled x) {
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const size_t j = x.labels.find(x.labels[i], i + 1);
    if (j == std::string::npos) continue;
    const int64_t extent = builder.type(x.value).shape[i];
    if (builder.type(x.value).shape[j] != extent)
      return builder.unsupported(fmt::format("`{}` has {} elements and {}", x.labels[i], extent,
                                             builder.type(x.value).shape[j]));
    Ints order;
    for (size_t d = 0; d < x.labels.size(); ++d)
      if (d != i && d != j) order.push_back(static_cast<int64_t>(d));
    order.insert(order.end(), {static_cast<int64_t>(i), static_cast<int64_t>(j)});
    DTR_ASSIGN(ValueId value, builder.permute(x.value, order));
    Shape shape = builder.type(value).shape;
    shape.resize(shape.size() - 1);
    shape.back() = extent * extent;
    DTR_ASSIGN(value, builder.view(value, shape));
    std::vector<double> places;
    for (int64_t k = 0; k < extent; ++k) places.push_back(static_cast<double>(k * (extent + 1)));
    DTR_ASSIGN(const ValueId index, builder.constant(DType::kInt64, places));
    DTR_ASSIGN(x.value, builder.emit("aten.index_select", {value, index},
                                     {{"dim", static_cast<int64_t>(shape.size()) - 1}}));
    const char label = x.labels[i];
    x.labels.erase(j, 1);
    x.labels.erase(i, 1);
    x.labels += label;
    return without_repetition(builder, std::move(x));
  }
  return x;
}

// Sums over the letters that neither another operand nor the result has.
Result<Labelled> summed(GraphBuilder& builder, Labelled x, const std::string& needed) {
  Ints dims;
  std::string left;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (in(needed, x.labels[i])) {
      left += x.labels[i];
    } else {
      dims.push_back(static_cast<int64_t>(i));
    }
  }
  if (dims.empty()) return x;
  DTR_ASSIGN(x.value,
             builder.emit("aten.sum.dim_IntList", {x.value}, {{"dim", dims}, {"keepdim", false}}));
  x.labels = left;
  return x;
}

// Dimensions of one element are repeated to those of the other operand with the same letter.
Result<void> broadcast(GraphBuilder& builder, Labelled& a, const Labelled& b) {
  Shape shape = builder.type(a.value).shape;
  for (size_t i = 0; i < a.labels.size(); ++i) {
    if (!in(b.labels, a.labels[i])) continue;
    const int64_t other = extent_of(builder, b, a.labels[i]);
    if (shape[i] == 1) shape[i] = other;
    if (shape[i] != other && other != 1)
      return builder.unsupported(
          fmt::format("`{}` has {} elements and {}", a.labels[i], shape[i], other));
  }
  DTR_ASSIGN(a.value, builder.expand(a.value, shape));
  return {};
}

Result<Labelled> contracted(GraphBuilder& builder, Labelled a, Labelled b,
                            const std::string& needed) {
  DTR_ASSIGN(a, summed(builder, std::move(a), needed + b.labels));
  DTR_ASSIGN(b, summed(builder, std::move(b), needed + a.labels));
  DTR_TRY(broadcast(builder, a, b));
  DTR_TRY(broadcast(builder, b, a));
  std::string batch, rows, columns, inner;
  for (const char label : a.labels)
    (!in(b.labels, label) ? rows : in(needed, label) ? batch : inner) += label;
  for (const char label : b.labels)
    if (!in(a.labels, label)) columns += label;
  // The other operand's letters are the rows of a linear layer.
  const bool real = is_float(builder.type(a.value).dtype) && !builder.type(a.value).quantized();
  const bool left_is_fixed = ops::is_static(builder.graph(), a.value);
  const bool is_layer =
      real && batch.empty() && left_is_fixed != ops::is_static(builder.graph(), b.value);
  if (is_layer && left_is_fixed) {
    std::swap(a, b);
    std::swap(rows, columns);
  }
  Labelled result{{}, batch + rows + columns};
  Shape shape;
  for (const char label : result.labels)
    shape.push_back(extent_of(builder, in(a.labels, label) ? a : b, label));
  if (is_layer) {
    DTR_ASSIGN(const ValueId x, grouped(builder, a.value, a.labels, {batch, rows, inner}));
    DTR_ASSIGN(const ValueId weight, grouped(builder, b.value, b.labels, {columns, inner}));
    DTR_ASSIGN(const ValueId product, builder.emit("aten.linear", {x, weight}));
    DTR_ASSIGN(result.value, builder.view(product, shape));
    return result;
  }
  DTR_ASSIGN(const ValueId left, grouped(builder, a.value, a.labels, {batch, rows, inner}));
  DTR_ASSIGN(const ValueId right, grouped(builder, b.value, b.labels, {batch, inner, columns}));
  DTR_ASSIGN(const ValueId product, matrix_product(builder, left, right));
  DTR_ASSIGN(result.value, builder.view(product, shape));
  return result;
}

}  // namespace

Result<ValueId> einsum(GraphBuilder& builder, std::string_view text,
                       const std::vector<ValueId>& operands) {
  std::string equation(text);
  std::erase(equation, ' ');
  const auto refuse = [&] {
    return builder.unsupported(fmt::format("the equation `{}` does not fit {} operand{}", text,
                                           operands.size(), operands.size() == 1 ? "" : "s"),
                               "write a letter for each dimension of each operand");
  };
  const size_t arrow = equation.find("->");
  std::vector<std::string> terms{{}};
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  if (terms.size() != operands.size()) return refuse();
  size_t ellipsis = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const size_t rank = builder.type(operands[i]).rank();
    const bool open = terms[i].find("...") != std::string::npos;
    const size_t letters = terms[i].size() - (open ? 3 : 0);
    if (letters > rank || (!open && letters != rank) || rank - letters > kOfEllipsis.size())
      return refuse();
    if (open) {
      terms[i] = expanded(terms[i], rank - letters);
      ellipsis = std::max(ellipsis, rank - letters);
    }
  }
  std::string all, result;
  for (const std::string& term : terms) all += term;
  if (arrow != std::string::npos) {
    result = expanded(equation.substr(arrow + 2), ellipsis);
  } else {  // letters that occur once, in the order of the alphabet, behind those of `...`
    std::string once = expanded("...", ellipsis), rest = all;
    std::ranges::sort(rest);
    for (const char label : rest)
      if (std::isalpha(static_cast<unsigned char>(label)) != 0 &&
          std::ranges::count(all, label) == 1)
        once += label;
    result = once;
  }
  for (const char label : all + result)
    if (std::isalnum(static_cast<unsigned char>(label)) == 0) return refuse();
  for (const char label : result)
    if (!in(all, label) || std::ranges::count(result, label) != 1) return refuse();

  std::vector<Labelled> parts;
  for (size_t i = 0; i < terms.size(); ++i) {
    DTR_ASSIGN(parts.emplace_back(), without_repetition(builder, {operands[i], terms[i]}));
  }
  Labelled product = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    std::string needed = result;
    for (size_t later = i + 1; later < parts.size(); ++later) needed += parts[later].labels;
    DTR_ASSIGN(product, contracted(builder, std::move(product), parts[i], needed));
  }
  DTR_ASSIGN(product, summed(builder, std::move(product), result));
  Ints dims;
  for (const char label : result) dims.push_back(static_cast<int64_t>(product.labels.find(label)));
  return builder.permute(product.value, dims);
}

}  // namespace dtr::compositions
