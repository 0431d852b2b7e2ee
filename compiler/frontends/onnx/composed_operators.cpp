// Matrix products, determinants, attention, and the linear models of ai.onnx.ml.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/compositions/attention.h"
#include "compiler/compositions/matrices.h"
#include "compiler/compositions/norms.h"
#include "compiler/frontends/onnx/operators.h"

namespace dtr::onnx {
namespace {

// A known matrix, as it is stored or dequantized from codes, with its dimensions exchanged; else an
// invalid value.
Result<ValueId> transposed_weight(NodeImport& node, ValueId matrix) {
  if (node.type(matrix).rank() != 2) return ValueId{};
  const Graph& graph = node.graph();
  if (graph.is_constant(matrix)) return node.permute(matrix, {1, 0});
  const OpId op = graph.producer(matrix);
  if (!op.valid() || graph.op(op).def->name != "dequantize") return ValueId{};
  const ValueId codes = graph.op(op).operands[0];
  const auto elements = node.constant_elements(codes);
  if (!elements) return ValueId{};
  const Type of = node.type(codes);
  Quantization quantization = *of.quantization;
  if (quantization.per_channel()) quantization.axis = 1 - quantization.axis;
  std::vector<double> turned;
  for (int64_t j = 0; j < of.shape[1]; ++j)
    for (int64_t i = 0; i < of.shape[0]; ++i)
      turned.push_back((*elements)[static_cast<size_t>(i * of.shape[1] + j)]);
  return node.dequantized_constant(turned, of.dtype, quantization, Shape{of.shape[1], of.shape[0]});
}

bool is_known(const NodeImport& node, ValueId value) {
  if (node.graph().is_constant(value)) return true;
  const OpId op = node.graph().producer(value);
  return op.valid() && node.graph().op(op).def->name == "dequantize" &&
         node.graph().is_constant(node.graph().op(op).operands[0]);
}

Result<ValueId> exchanged(NodeImport& node, ValueId x) {
  Ints order(node.type(x).rank());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  if (order.size() < 2) return x;
  std::swap(order[order.size() - 2], order[order.size() - 1]);
  return node.permute(x, order);
}

}  // namespace

Result<ValueId> multiplied(NodeImport& node, ValueId a, ValueId b) {
  const DType dtype = node.dtype(a);
  if (!is_float(dtype)) {
    DTR_ASSIGN(a, node.cast(a, DType::kFloat32));
    DTR_ASSIGN(b, node.cast(b, DType::kFloat32));
    DTR_ASSIGN(const ValueId y, multiplied(node, a, b));
    return node.cast(y, dtype);
  }
  if (node.type(a).rank() == 0 || node.type(b).rank() == 0)
    return node.invalid("an operand is a scalar");
  if (!is_known(node, a)) {
    DTR_ASSIGN(const ValueId weight, transposed_weight(node, b));
    if (weight.valid()) return node.emit("aten.linear", {a, weight});
  }
  const bool row = node.type(a).rank() == 1, column = node.type(b).rank() == 1;
  if (row) {
    DTR_ASSIGN(a, node.view(a, {1, node.shape(a)[0]}));
  }
  if (column) {
    DTR_ASSIGN(b, node.view(b, {node.shape(b)[0], 1}));
  }
  DTR_ASSIGN(ValueId y, node.emit("aten.matmul", {a, b}));
  Shape of = node.shape(y);
  if (column) of.pop_back();
  if (row) of.erase(of.end() - (column ? 1 : 2));
  return node.view(y, of);
}

Result<ValueId> general_product(NodeImport& node, ValueId a, ValueId b, ValueId c) {
  DTR_ASSIGN(const double alpha, node.number("alpha", 1));
  DTR_ASSIGN(const double beta, node.number("beta", 1));
  DTR_ASSIGN(const bool turns_a, node.flag("transA"));
  DTR_ASSIGN(const bool turns_b, node.flag("transB"));
  if (node.type(a).rank() != 2 || node.type(b).rank() != 2)
    return node.invalid("its operands are no matrices");
  const DType dtype = node.dtype(a);
  for (ValueId* each : {&a, &b, &c})
    if (each->valid()) {
      DTR_ASSIGN(*each, node.cast(*each, DType::kFloat32));
    }
  if (turns_a) {
    DTR_ASSIGN(a, exchanged(node, a));
  }
  if (c.valid()) {
    DTR_ASSIGN(c, node.times(c, beta));
  }
  ValueId y;
  if (is_known(node, b) && !is_known(node, a)) {
    ValueId weight = b;
    if (!turns_b) {
      DTR_ASSIGN(weight, transposed_weight(node, b));
    }
    const int64_t columns = node.shape(weight)[0];
    Values operands{a, weight};
    const Shape of_c = c.valid() ? node.shape(c) : Shape{};
    const bool is_bias = c.valid() && alpha == 1 && is_known(node, c) &&
                         (of_c == Shape{columns} || of_c == Shape{1, columns});
    if (is_bias) {
      DTR_ASSIGN(operands.emplace_back(), node.view(c, {columns}));
    }
    DTR_ASSIGN(y, node.emit("aten.linear", std::move(operands)));
    if (is_bias) c = {};
  } else {
    if (turns_b) {
      DTR_ASSIGN(b, exchanged(node, b));
    }
    DTR_ASSIGN(y, node.emit("aten.matmul", {a, b}));
  }
  DTR_ASSIGN(y, node.times(y, alpha));
  if (c.valid()) {
    DTR_ASSIGN(y, node.add(y, c));
  }
  return node.cast(y, dtype);
}

namespace {

Result<Values> matmul(NodeImport& node) {
  DTR_ASSIGN(const ValueId a, node.value(0));
  DTR_ASSIGN(const ValueId b, node.value(1));
  return only(multiplied(node, a, b));
}

Result<Values> gemm(NodeImport& node) {
  DTR_ASSIGN(const ValueId a, node.value(0));
  DTR_ASSIGN(const ValueId b, node.value(1));
  DTR_ASSIGN(const ValueId c, node.optional_value(2));
  return only(general_product(node, a, b, c));
}

Result<Values> fused_matmul(NodeImport& node) {
  DTR_ASSIGN(const double alpha, node.number("alpha", 1));
  DTR_ASSIGN(ValueId a, node.value(0));
  DTR_ASSIGN(ValueId b, node.value(1));
  DTR_ASSIGN(const bool turns_a, node.flag("transA"));
  DTR_ASSIGN(const bool turns_b, node.flag("transB"));
  DTR_ASSIGN(const bool batch_a, node.flag("transBatchA"));
  DTR_ASSIGN(const bool batch_b, node.flag("transBatchB"));
  if (batch_a || batch_b) return node.unsupported("it exchanges batches");
  if (turns_a) {
    DTR_ASSIGN(a, exchanged(node, a));
  }
  if (turns_b) {
    DTR_ASSIGN(b, exchanged(node, b));
  }
  DTR_ASSIGN(const ValueId y, multiplied(node, a, b));
  return only(node.times(y, alpha));
}

Result<Values> einsum(NodeImport& node) {
  DTR_ASSIGN(std::string equation, node.string("equation"));
  std::erase(equation, ' ');
  DTR_ASSIGN(const Values operands, node.values());
  return only(compositions::einsum(node, equation, operands));
}

// ---- attention

// [N, L, heads · E] as [N, heads, L, E]; four dimensions stay.
Result<ValueId> with_heads(NodeImport& node, ValueId x, int64_t heads) {
  const Shape of = node.shape(x);
  if (of.size() == 4) return x;
  if (of.size() != 3 || heads < 1 || of[2] % heads != 0)
    return node.invalid(fmt::format("{} heads of {}", heads, to_string(of)));
  DTR_ASSIGN(x, node.view(x, {of[0], of[1], heads, of[2] / heads}));
  return node.permute(x, {0, 2, 1, 3});
}

// The mask as numbers to add to the scores: −∞ for a masked one, else 0.
Result<ValueId> added_mask(NodeImport& node, ValueId mask, int64_t queries, int64_t keys,
                           std::optional<int64_t> causal_offset) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  ValueId sum;
  if (mask.valid() && node.dtype(mask) == DType::kBool) {
    DTR_ASSIGN(const ValueId zero, node.constant(DType::kFloat32, {}, 0, "zero"));
    DTR_ASSIGN(const ValueId hidden, node.constant(DType::kFloat32, {}, kHidden, "hidden"));
    DTR_ASSIGN(sum, node.emit("aten.where.self", {mask, zero, hidden}));
  } else {
    sum = mask;
  }
  if (!causal_offset) return sum;
  if (queries > 4096 || keys > 4096)
    return node.unsupported(fmt::format("a mask of {}x{}", queries, keys));
  std::vector<double> triangle;
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) triangle.push_back(j <= i + *causal_offset ? 0 : kHidden);
  DTR_ASSIGN(const ValueId causal, node.constant(DType::kFloat32, triangle, Shape{queries, keys}));
  return sum.valid() ? node.add(sum, causal) : causal;
}

// Heads of keys or values repeated so that each head of queries has its own.
Result<ValueId> repeated_heads(NodeImport& node, ValueId x, int64_t heads) {
  const Shape of = node.shape(x);
  if (of[1] == heads) return x;
  if (of[1] < 1 || heads % of[1] != 0)
    return node.invalid(fmt::format("{} heads of queries share {}", heads, of[1]));
  DTR_ASSIGN(x, node.view(x, {of[0], of[1], 1, of[2], of[3]}));
  DTR_ASSIGN(x, node.expand(x, {of[0], of[1], heads / of[1], of[2], of[3]}));
  return node.view(x, {of[0], heads, of[2], of[3]});
}

// Operands: queries, keys, values, mask, earlier keys and values, lengths.
Result<Values> attention(NodeImport& node) {
  if (node.has(6)) return node.unsupported("lengths of padded keys (nonpad_kv_seqlen)");
  DTR_ASSIGN(const bool is_causal, node.flag("is_causal"));
  DTR_ASSIGN(const int64_t q_heads, node.integer("q_num_heads", int64_t{0}));
  DTR_ASSIGN(const int64_t kv_heads, node.integer("kv_num_heads", int64_t{0}));
  DTR_ASSIGN(const double softcap, node.number("softcap", 0));
  DTR_ASSIGN(const int64_t output_mode, node.integer("qk_matmul_output_mode", int64_t{0}));
  (void)node.has_attribute("softmax_precision");
  DTR_ASSIGN(const ValueId given, node.value(0));
  DTR_ASSIGN(ValueId query, with_heads(node, given, q_heads));
  DTR_ASSIGN(ValueId key, node.value(1));
  DTR_ASSIGN(key, with_heads(node, key, kv_heads));
  DTR_ASSIGN(ValueId value, node.value(2));
  DTR_ASSIGN(value, with_heads(node, value, kv_heads));
  DTR_ASSIGN(ValueId mask, node.optional_value(3));
  int64_t past = 0;
  if (node.has(4)) {
    DTR_ASSIGN(const ValueId before, node.value(4));
    past = node.shape(before)[2];
    DTR_ASSIGN(key, node.concatenate({before, key}, 2));
  }
  if (node.has(5)) {
    DTR_ASSIGN(const ValueId before, node.value(5));
    DTR_ASSIGN(value, node.concatenate({before, value}, 2));
  }
  const ValueId present_key = key, present_value = value;
  const Shape of = node.shape(query);
  if (of.size() != 4 || node.type(key).rank() != 4 || node.type(value).rank() != 4)
    return node.invalid("its operands do not have heads");
  const int64_t keys = node.shape(key)[2];
  DTR_ASSIGN(const double scale, node.number("scale", 1 / std::sqrt(static_cast<double>(of[3]))));
  if (mask.valid() && node.shape(mask).back() < keys) {
    // Keys behind the mask are hidden.
    Ints pairs(2 * node.type(mask).rank());
    pairs[1] = keys - node.shape(mask).back();
    DTR_ASSIGN(
        mask,
        node.pad(mask, pairs,
                 node.dtype(mask) == DType::kBool ? 0 : -std::numeric_limits<double>::infinity()));
  }
  ValueId result, products;
  if (softcap == 0 && !node.wants(3) && !(is_causal && mask.valid()) && !(is_causal && past != 0)) {
    DTR_ASSIGN(result, compositions::attention(node, {.query = query,
                                                      .key = key,
                                                      .value = value,
                                                      .mask = mask,
                                                      .causal = is_causal,
                                                      .shares_heads = true,
                                                      .scale = scale}));
  } else {
    DTR_ASSIGN(key, repeated_heads(node, key, of[1]));
    DTR_ASSIGN(value, repeated_heads(node, value, of[1]));
    DTR_ASSIGN(key, exchanged(node, key));
    DTR_ASSIGN(query, node.times(query, scale));
    DTR_ASSIGN(ValueId x, node.emit("aten.matmul", {query, key}));
    if (output_mode == 0) products = x;
    if (softcap != 0) {
      DTR_ASSIGN(x, node.times(x, 1 / softcap));
      DTR_ASSIGN(x, node.emit("aten.tanh", {x}));
      DTR_ASSIGN(x, node.times(x, softcap));
    }
    if (output_mode == 1) products = x;
    DTR_ASSIGN(const ValueId hidden,
               added_mask(node, mask, of[2], keys, is_causal ? std::optional(past) : std::nullopt));
    if (hidden.valid()) {
      DTR_ASSIGN(x, node.add(x, hidden));
    }
    if (output_mode == 2) products = x;
    Values masked{x};
    if (hidden.valid()) {
      // A query that attends to no key has zeros.
      DTR_ASSIGN(const ValueId none, node.scalar(-std::numeric_limits<double>::infinity(), hidden));
      DTR_ASSIGN(masked.emplace_back(), node.emit("aten.ne.Tensor", {hidden, none}));
    }
    DTR_ASSIGN(x, node.emit("aten.softmax", std::move(masked), {{"dim", int64_t{3}}}));
    if (output_mode == 3) products = x;
    DTR_ASSIGN(result, node.emit("aten.matmul", {x, value}));
  }
  if (node.type(given).rank() == 3) {
    const Shape made = node.shape(result);
    DTR_ASSIGN(result, node.permute(result, {0, 2, 1, 3}));
    DTR_ASSIGN(result, node.view(result, {made[0], made[2], made[1] * made[3]}));
  }
  return Values{result, present_key, present_value, products};
}

// Pairs of elements rotated by angles whose cosines and sines are operands.
Result<Values> rotary_embedding(NodeImport& node) {
  DTR_ASSIGN(const bool interleaved, node.flag("interleaved"));
  DTR_ASSIGN(const int64_t heads, node.integer("num_heads", int64_t{0}));
  DTR_ASSIGN(const int64_t stated, node.integer("rotary_embedding_dim", int64_t{0}));
  DTR_ASSIGN(const ValueId given, node.value(0));
  const bool joined = node.type(given).rank() == 3;
  ValueId x = given;
  if (joined) {
    const Shape of = node.shape(x);
    if (heads < 1 || of[2] % heads != 0) return node.invalid(fmt::format("{} heads", heads));
    DTR_ASSIGN(x, node.view(x, {of[0], of[1], heads, of[2] / heads}));
  } else {
    if (node.type(x).rank() != 4) return node.invalid("its operand has not four dimensions");
    DTR_ASSIGN(x, node.permute(x, {0, 2, 1, 3}));
  }
  const Shape of = node.shape(x);  // [N, L, heads, E]
  const int64_t turned = stated == 0 ? of[3] : stated;
  if (turned < 2 || turned > of[3] || turned % 2 != 0)
    return node.invalid(fmt::format("{} of {} elements are rotated", turned, of[3]));
  ValueId angles[2];
  for (size_t i = 0; i < 2; ++i) {
    DTR_ASSIGN(angles[i], node.value(1 + i));
    if (node.has(3)) {
      DTR_ASSIGN(const ValueId places, node.value(3));
      DTR_ASSIGN(angles[i],
                 node.emit("aten.index_select", {angles[i], places}, {{"dim", int64_t{0}}}));
    }
    DTR_ASSIGN(angles[i],
               node.slice(angles[i], static_cast<int64_t>(node.type(angles[i]).rank()) - 1, 0,
                          turned / 2));
    DTR_ASSIGN(angles[i], node.view(angles[i], {of[0], of[1], 1, turned / 2}));
  }
  DTR_ASSIGN(const ValueId rest,
             turned == of[3] ? Result<ValueId>(ValueId{}) : node.slice(x, 3, turned, of[3]));
  DTR_ASSIGN(x, node.slice(x, 3, 0, turned));
  ValueId a, b;
  if (interleaved) {
    DTR_ASSIGN(a, node.slice(x, 3, 0, turned, 2));
    DTR_ASSIGN(b, node.slice(x, 3, 1, turned, 2));
  } else {
    DTR_ASSIGN(a, node.slice(x, 3, 0, turned / 2));
    DTR_ASSIGN(b, node.slice(x, 3, turned / 2, turned));
  }
  DTR_ASSIGN(const ValueId ac, node.mul(a, angles[0]));
  DTR_ASSIGN(const ValueId bs, node.mul(b, angles[1]));
  DTR_ASSIGN(const ValueId as, node.mul(a, angles[1]));
  DTR_ASSIGN(const ValueId bc, node.mul(b, angles[0]));
  DTR_ASSIGN(ValueId first, node.sub(ac, bs));
  DTR_ASSIGN(ValueId second, node.add(as, bc));
  if (interleaved) {
    const Shape pair{of[0], of[1], of[2], turned / 2, 1};
    DTR_ASSIGN(first, node.view(first, pair));
    DTR_ASSIGN(second, node.view(second, pair));
    DTR_ASSIGN(x, node.concatenate({first, second}, 4));
    DTR_ASSIGN(x, node.view(x, {of[0], of[1], of[2], turned}));
  } else {
    DTR_ASSIGN(x, node.concatenate({first, second}, 3));
  }
  DTR_ASSIGN(x, node.concatenate({x, rest}, 3));
  if (joined) return only(node.view(x, node.shape(given)));
  return only(node.permute(x, {0, 2, 1, 3}));
}

Result<Values> determinant(NodeImport& node) {
  DTR_ASSIGN(const ValueId x, node.value(0));
  return only(compositions::determinant(node, x));
}

// ---- linear models of ai.onnx.ml

// A constant row of numbers for the last dimension of `like`; a single number as a scalar.
Result<ValueId> row_of(NodeImport& node, const Floats& of, ValueId like) {
  if (of.size() == 1) return node.constant(node.dtype(like), {}, of[0], "number");
  return node.constant(node.dtype(like), of);
}

// (x − offset) · scale.
Result<Values> scaler(NodeImport& node) {
  DTR_ASSIGN(const Floats offset, node.floats("offset", Floats{}));
  DTR_ASSIGN(const Floats scale, node.floats("scale", Floats{}));
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
  if (!offset.empty()) {
    DTR_ASSIGN(const ValueId row, row_of(node, offset, x));
    DTR_ASSIGN(x, node.sub(x, row));
  }
  if (!scale.empty()) {
    DTR_ASSIGN(const ValueId row, row_of(node, scale, x));
    DTR_ASSIGN(x, node.mul(x, row));
  }
  return Values{x};
}

Result<ValueId> transformed(NodeImport& node, ValueId x, const std::string& how) {
  if (how == "NONE") return x;
  if (how == "LOGISTIC") return node.emit("aten.sigmoid", {x});
  if (how == "SOFTMAX") return node.emit("aten.softmax", {x}, {{"dim", int64_t{1}}});
  return node.unsupported(fmt::format("the post_transform {}", how));
}

// Rows of coefficients, one a result, times x, plus one number each.
Result<ValueId> linear_model(NodeImport& node, const std::string& of_bias, int64_t count) {
  DTR_ASSIGN(const Floats coefficients, node.floats("coefficients"));
  DTR_ASSIGN(const Floats bias, node.floats(of_bias, Floats{}));
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
  if (node.type(x).rank() == 1) {
    DTR_ASSIGN(x, node.view(x, {1, node.shape(x)[0]}));
  }
  const int64_t width = node.shape(x).empty() ? 0 : node.shape(x).back();
  if (count < 1 || width < 1 || static_cast<int64_t>(coefficients.size()) != count * width ||
      (!bias.empty() && static_cast<int64_t>(bias.size()) != count))
    return node.invalid(fmt::format("{} coefficients for {} results", coefficients.size(), count));
  Values operands{x};
  DTR_ASSIGN(operands.emplace_back(),
             node.constant(DType::kFloat32, coefficients, Shape{count, width}));
  if (!bias.empty()) {
    DTR_ASSIGN(operands.emplace_back(), node.constant(DType::kFloat32, bias));
  }
  return node.emit("aten.linear", std::move(operands));
}

Result<Values> linear_regressor(NodeImport& node) {
  DTR_ASSIGN(const int64_t targets, node.integer("targets", int64_t{1}));
  DTR_ASSIGN(const std::string how, node.string("post_transform", "NONE"));
  DTR_ASSIGN(const ValueId y, linear_model(node, "intercepts", targets));
  return only(transformed(node, y, how));
}

// The label of the greatest score, and all scores.
Result<Values> linear_classifier(NodeImport& node) {
  DTR_ASSIGN(const Ints labels, node.ints("classlabels_ints", Ints{}));
  DTR_ASSIGN(const std::vector<std::string> names, node.strings("classlabels_strings"));
  DTR_ASSIGN(const Floats bias, node.floats("intercepts", Floats{}));
  DTR_ASSIGN(const std::string how, node.string("post_transform", "NONE"));
  (void)node.has_attribute("multi_class");
  if (labels.empty() && node.wants(0) && !names.empty())
    return node.unsupported("labels that are strings",
                            "Train with numbers as labels, or end the model before this node.");
  const auto classes = static_cast<int64_t>(labels.size());
  DTR_ASSIGN(
      const ValueId raw,
      linear_model(node, "intercepts", bias.empty() ? classes : static_cast<int64_t>(bias.size())));
  if (node.shape(raw)[1] != classes) return node.unsupported("one score of two classes");
  DTR_ASSIGN(const ValueId scores, transformed(node, raw, how));
  DTR_ASSIGN(const ValueId best,
             node.emit("aten.argmax", {raw}, {{"dim", int64_t{1}}, {"keepdim", false}}));
  DTR_ASSIGN(const ValueId table,
             node.constant(DType::kInt64, std::vector<double>(labels.begin(), labels.end())));
  DTR_ASSIGN(const ValueId label,
             node.emit("aten.index_select", {table, best}, {{"dim", int64_t{0}}}));
  return Values{label, scores};
}

Result<Values> normalizer(NodeImport& node) {
  DTR_ASSIGN(const std::string norm, node.string("norm", "MAX"));
  DTR_ASSIGN(ValueId x, node.value(0));
  DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
  const auto last = static_cast<int64_t>(node.type(x).rank()) - 1;
  if (last < 0) return node.invalid("its operand is a scalar");
  ValueId size;
  if (norm == "MAX") {
    DTR_ASSIGN(size, node.emit("aten.amax", {x}, {{"dim", Ints{last}}, {"keepdim", true}}));
  } else {
    DTR_ASSIGN(size, compositions::vector_norm(node, x, norm == "L1" ? 1 : 2, {last}, true));
  }
  return only(node.div(x, size));
}

}  // namespace

std::vector<Operator> composed_operators() {
  return {
      row("Attention", 3, 7, attention),
      row("Det", 1, 1, determinant),
      row("Einsum", 1, kAnyNumber, einsum),
      row("FusedMatMul", 2, 2, fused_matmul, kMicrosoft),
      row("Gemm", 2, 3, gemm),
      row("LinearClassifier", 1, 1, linear_classifier, kClassic),
      row("LinearRegressor", 1, 1, linear_regressor, kClassic),
      row("MatMul", 2, 2, matmul),
      row("Normalizer", 1, 1, normalizer, kClassic),
      row("RotaryEmbedding", 3, 4, rotary_embedding),
      row("Scaler", 1, 1, scaler, kClassic),
  };
}

}  // namespace dtr::onnx
