#include "compiler/frontends/pt2/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

#include "compiler/frontends/pt2/complex_operators.h"
#include "compiler/frontends/pt2/pt2.h"
#include "compiler/plugins/plugins.h"

namespace dtr::pt2 {
namespace {

using Table = std::unordered_map<std::string_view, Operator>;

ArgumentKind argument_kind(const Param& param) {
  if (param.is_operand()) {
    if (param.variadic) return ArgumentKind::kTensors;
    if (param.optional) return ArgumentKind::kOptionalTensor;
    return param.name == "other" ? ArgumentKind::kTensorOrScalar : ArgumentKind::kTensor;
  }
  switch (param.kind) {
    case AttributeKind::kBool:
      return ArgumentKind::kBool;
    case AttributeKind::kInt:
      return param.name == "dim" ? ArgumentKind::kDim : ArgumentKind::kInt;
    case AttributeKind::kString:
      return ArgumentKind::kString;
    case AttributeKind::kInts:
      return param.name == "dim" ? ArgumentKind::kDims : ArgumentKind::kInts;
    default:
      return ArgumentKind::kNumber;
  }
}

// The overloads of PyTorch's elementwise operators of which our ops have the name.
std::vector<std::string> regular_targets() {
  std::vector<std::string> targets;
  for (const OpDef* op : all_ops()) {
    if (!op->has_trait(kElementwise) || !op->name.starts_with("aten.")) continue;
    targets.push_back(torch_target(*op));
    if (op->name.ends_with(".Tensor"))
      targets.push_back(std::string(op->name.substr(0, op->name.rfind('.'))) + ".Scalar");
  }
  return targets;
}

// Other names that PyTorch has for operators, which an export keeps.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"abs", "absolute"},
    {"acos", "arccos"},
    {"acosh", "arccosh"},
    {"asin", "arcsin"},
    {"asinh", "arcsinh"},
    {"atan", "arctan"},
    {"atan2", "arctan2"},
    {"atanh", "arctanh"},
    {"chunk", "unsafe_chunk"},
    {"clamp", "clip"},
    {"div", "divide"},
    {"div", "true_divide"},
    {"erf", "special_erf"},
    {"digamma", "special_digamma"},
    {"digamma", "special_psi"},
    {"erfc", "special_erfc"},
    {"exp2", "special_exp2"},
    {"expm1", "special_expm1"},
    {"ge", "greater_equal"},
    {"gt", "greater"},
    {"i0", "special_i0"},
    {"le", "less_equal"},
    {"lgamma", "special_gammaln"},
    {"log1p", "special_log1p"},
    {"log_softmax", "special_log_softmax"},
    {"logit", "special_logit"},
    {"logsumexp", "special_logsumexp"},
    {"lt", "less"},
    {"linalg_inv", "inverse"},
    {"linalg_det", "det"},
    {"matmul", "linalg_matmul"},
    {"mul", "multiply"},
    {"matrix_exp", "linalg_matrix_exp"},
    {"ne", "not_equal"},
    {"neg", "negative"},
    {"mH", "matrix_H"},
    {"polygamma", "special_polygamma"},
    {"round", "special_round"},
    {"sigmoid", "special_expit"},
    {"sign", "sgn"},
    {"sinc", "special_sinc"},
    {"softmax", "special_softmax"},
    {"split", "unsafe_split"},
    {"split_with_sizes", "unsafe_split_with_sizes"},
    {"sub", "subtract"},
    {"trapezoid", "trapz"},
    {"trunc", "fix"},
    {"xlogy", "special_xlogy"},
};

// Adds the rows of other names, and of NAME_copy for each NAME whose result is a view: it computes
// the same in memory of its own.
void add_other_names(Table& table) {
  static std::deque<std::string> targets;  // the rows refer to them
  std::vector<Operator> added;
  const auto add = [&](Operator row, std::string target) {
    row.target = targets.emplace_back(std::move(target));
    added.push_back(std::move(row));
  };
  constexpr std::string_view kPrefix = "aten.";
  for (const auto& [target, row] : table) {
    if (!target.starts_with(kPrefix)) continue;
    const size_t end = target.rfind('.');
    const std::string_view name = target.substr(kPrefix.size(), end - kPrefix.size());
    const std::string_view overload = target.substr(end);
    for (const auto& [own, other] : kOtherNames)
      if (name == own) add(row, fmt::format("aten.{}{}", other, overload));
    if (!row.aliases) continue;
    Operator copy = row;
    copy.aliases = false;
    add(std::move(copy), fmt::format("aten.{}_copy{}", name, overload));
  }
  for (Operator& row : added) {
    const std::string_view target = row.target;
    table.try_emplace(target, std::move(row));
  }
}

Table make_table() {
  Table table;
  for (const auto family :
       {control_operators,   convolution_operators,   pooling_operators,    elementwise_operators,
        composed_operators,  shape_operators,         tiling_operators,     resize_operators,
        loss_operators,      matrix_operators,        attention_operators,  reduction_operators,
        identity_operators,  index_operators,         mask_operators,       quantization_operators,
        recurrent_operators, scatter_operators,       statistics_operators, search_operators,
        algebra_operators,   factorization_operators, stacking_operators,   defined_operators,
        sampling_operators,  group_operators,         special_operators,    spectral_operators,
        function_operators})
    for (Operator& row : family()) {
      const std::string_view target = row.target;
      DTR_CHECK(table.emplace(target, std::move(row)).second);
    }
  static const std::vector<std::string> targets = regular_targets();
  for (const std::string& target : targets) {
    const size_t overload = target.rfind('.');
    const std::string tensor =
        target.substr(0, overload) + ".Tensor";  // aten.mul.Scalar is our aten.mul.Tensor
    const OpDef* op = find_op(target.ends_with(".default")  ? target.substr(0, overload)
                              : target.ends_with(".Scalar") ? tensor
                                                            : target);
    table.try_emplace(target, same_as(target, op->name));
  }
  add_other_names(table);
  return table;
}

const Table& real_table() {
  static const Table table = make_table();
  return table;
}

// What is a view of real numbers is one of complex numbers.
const Table& complex_table() {
  static const Table table = [] {
    Table rows;
    for (const auto& family : {complex_operators(), complex_functions()})
      for (const Operator& row : family) {
        const auto real = real_table().find(row.target);
        Operator& added = rows.emplace(row.target, row).first->second;
        added.aliases = added.aliases || (real != real_table().end() && real->second.aliases);
      }
    for (const auto& [target, real] : real_table())
      if (const std::optional<Operator> row = complex_row_by_parts(real))
        rows.try_emplace(target, *row);
    add_other_names(rows);
    return rows;
  }();
  return table;
}

const Operator* find_row(std::string_view target) {
  const Table& table = real_table();
  const auto at = table.find(target);
  if (at == table.end() || (!at->second.op.empty() && find_op(at->second.op) == nullptr))
    return nullptr;
  return &at->second;
}

// The value of an argument as an attribute of our op; none if it is absent and has no fallback that
// counts.
Result<AttributeValue> read_attribute(NodeImport& node, const ArgumentRule& param, size_t rank) {
  const auto whole = [&] {
    return param.fallback ? std::optional(static_cast<int64_t>(*param.fallback)) : std::nullopt;
  };
  switch (param.kind) {
    case ArgumentKind::kInt: {
      DTR_ASSIGN(const int64_t value, node.integer(param.argument, whole()));
      return AttributeValue(value);
    }
    case ArgumentKind::kInts: {
      DTR_ASSIGN(Ints value, node.ints(param.argument));
      return AttributeValue(std::move(value));
    }
    case ArgumentKind::kBool: {
      const auto fallback = param.fallback ? std::optional(*param.fallback != 0) : std::nullopt;
      DTR_ASSIGN(const bool value, node.boolean(param.argument, fallback));
      return AttributeValue(value);
    }
    case ArgumentKind::kString: {
      DTR_ASSIGN(const std::string_view value, node.string(param.argument, param.text));
      return AttributeValue(std::string(value));
    }
    case ArgumentKind::kDim: {
      DTR_ASSIGN(const int64_t value, node.dim(param.argument, rank, whole()));
      return AttributeValue(value);
    }
    case ArgumentKind::kDims: {
      DTR_ASSIGN(Ints value, node.dims(param.argument, rank));
      return AttributeValue(std::move(value));
    }
    default: {
      DTR_ASSIGN(const double value, node.number(param.argument, param.fallback));
      return AttributeValue(value);
    }
  }
}

// Whether one of the two operands of a row may be a number.
bool takes_number(const Operator& row) {
  return row.params.size() > 1 && row.params[0].kind == ArgumentKind::kTensor &&
         row.params[1].kind == ArgumentKind::kTensorOrScalar;
}

}  // namespace

Operator same_as(std::string_view target, std::string_view op) {
  Operator row{.target = target, .op = op};
  const OpDef* def = find_op(op);
  DTR_CHECK(def != nullptr);
  for (const Param& param : def->schema.params()) {
    if (param.own || param.role == Param::Role::kNone) continue;
    ArgumentRule rule{.argument = param.name, .kind = argument_kind(param)};
    if (param.has_default && param.kind == AttributeKind::kString) rule.text = param.text;
    if (param.has_default && param.kind != AttributeKind::kString) rule.fallback = param.number;
    row.params.push_back(rule);
  }
  return row;
}

Result<ValueId> number_like(NodeImport& node, ValueId like, double number) {
  return node.constant(node.type(like).dtype, {}, number, "number");
}
Result<ValueId> with_number(NodeImport& node, std::string_view op, ValueId x, double number) {
  DTR_ASSIGN(const ValueId by, number_like(node, x, number));
  return node.emit(op, {x, by});
}

// Forms that write to their tensor and whose overload has another name than the plain form's.
constexpr std::pair<std::string_view, std::string_view> kInPlaceNames[] = {
    {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
    {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
    {"aten.floor_divide_.Tensor", "aten.floor_divide.default"},
};
constexpr std::string_view kInPlaceBits = "aten.__i";

// Forms with an argument `out`, likewise.
constexpr std::pair<std::string_view, std::string_view> kOutNames[] = {
    {"aten.max.out", "aten.max.other"},
    {"aten.mean.out", "aten.mean.dim"},
    {"aten.min.out", "aten.min.other"},
    {"aten.sum.IntList_out", "aten.sum.dim_IntList"},
};

// The row of the form without `out`: "aten.exp.default" of "aten.exp.out", "aten.add.Tensor" of
// "aten.add.out", "aten.pow.Tensor_Scalar" of "aten.pow.Tensor_Scalar_out". An argument that the
// row does not read is refused, as everywhere.
const Operator* find_out_row(std::string_view target) {
  for (const auto& [out, name] : kOutNames)
    if (target == out) return find_row(name);
  if (target.ends_with("_out")) return find_row(target.substr(0, target.size() - 4));
  if (!target.ends_with(".out")) return nullptr;
  const std::string_view name = target.substr(0, target.size() - 4);
  const Operator* row = find_row(fmt::format("{}.default", name));
  return row != nullptr ? row : find_row(fmt::format("{}.Tensor", name));
}

std::string plain_form(std::string_view target) {
  const size_t overload = target.rfind('.');
  if (overload == std::string_view::npos || overload == 0 || target[overload - 1] != '_') return {};
  for (const auto& [in_place, name] : kInPlaceNames)
    if (target == in_place) return std::string(name);
  if (target.starts_with(kInPlaceBits))  // "aten.__ior__.Scalar" → "aten.__or__.Scalar"
    return fmt::format("aten.__{}", target.substr(kInPlaceBits.size()));
  std::string plain(target);
  plain.erase(overload - 1, 1);
  return plain;
}

OperatorMatch find_operator(std::string_view target) {
  if (const Operator* row = find_row(target)) return {.row = row, .in_place = false};
  static const Operator plugin_row{.target = {}, .op = {}, .build = plugin_operator};
  if (!writes_to_operand(target) && find_plugin_kernel(plugin_kernel_name(target)) != nullptr)
    return {.row = &plugin_row, .in_place = false};
  const Operator* row = find_row(plain_form(target));
  if (row == nullptr) row = find_out_row(target);
  return {.row = row, .in_place = row != nullptr};
}

OperatorMatch find_complex_operator(std::string_view target) {
  const Table& table = complex_table();
  if (const auto at = table.find(target); at != table.end()) return {.row = &at->second};
  const auto at = table.find(plain_form(target));
  if (at == table.end()) return {};
  return {.row = &at->second, .in_place = true};
}

std::vector<ReadOperator> read_operators() {
  std::map<std::string_view, ReadOperator> by_name;
  const auto add = [&](const Table& table, std::vector<std::string> ReadOperator::*overloads) {
    for (const auto& [target, row] : table) {
      const size_t end = target.rfind('.');
      ReadOperator& entry = by_name[target.substr(0, end)];
      entry.name = target.substr(0, end);
      (entry.*overloads).emplace_back(target.substr(end + 1));
    }
  };
  add(real_table(), &ReadOperator::real);
  add(complex_table(), &ReadOperator::complex);
  std::vector<ReadOperator> operators;
  for (auto& [name, entry] : by_name) {
    std::sort(entry.real.begin(), entry.real.end());
    std::sort(entry.complex.begin(), entry.complex.end());
    operators.push_back(std::move(entry));
  }
  return operators;
}

bool writes_to_operand(std::string_view target) {
  const size_t overload = target.rfind('.');
  if (overload == std::string_view::npos) return false;
  if (target.ends_with("out")) return true;  // "aten.add.out"
  std::string_view name = target.substr(0, overload);
  name.remove_prefix(name.rfind('.') + 1);
  return name.ends_with("__")
             ? name.starts_with("__i")
             : name.ends_with('_');  // "aten.__iand__.Tensor", "aten.relu_.default"
}

Result<Values> import_operator(NodeImport& node, const Operator& row) {
  if (row.build != nullptr) {
    DTR_ASSIGN(Values values, row.build(node));
    if (!row.op.empty()) DTR_TRY(node.check_all_read());
    return values;
  }
  Values operands;
  Attributes attributes;
  for (const ArgumentRule& param : row.params) {
    switch (param.kind) {
      case ArgumentKind::kTensor: {
        // A decomposed `1 - x` has the number as its first argument.
        if (!node.has_tensor(param.argument) && takes_number(row)) break;
        DTR_ASSIGN(const ValueId value, node.tensor(param.argument));
        operands.push_back(value);
        break;
      }
      case ArgumentKind::kOptionalTensor: {
        DTR_ASSIGN(const ValueId value, node.optional_tensor(param.argument));
        operands.push_back(value);
        break;
      }
      case ArgumentKind::kTensorOrScalar: {
        if (operands.empty()) {
          DTR_ASSIGN(const auto both, node.pair(row.params.front().argument, param.argument));
          operands = {both.first, both.second};
          break;
        }
        DTR_ASSIGN(const ValueId value, node.tensor_or_scalar(param.argument, operands.front()));
        DTR_ASSIGN(const auto both, node.promoted_pair(operands.front(), value));
        operands = {both.first, both.second};
        break;
      }
      case ArgumentKind::kTensors: {
        DTR_ASSIGN(operands, node.tensors(param.argument));
        break;
      }
      default: {
        const size_t rank =
            operands.empty() || !operands.front().valid() ? 0 : node.type(operands.front()).rank();
        DTR_ASSIGN(AttributeValue value, read_attribute(node, param, rank));
        attributes.set(param.argument, std::move(value));
      }
    }
  }
  while (!operands.empty() && !operands.back().valid()) operands.pop_back();
  // A function that no integer has is computed in float, and its result converted to what PyTorch
  // makes of it.
  bool from_integers = false;
  if (const OpDef* def = find_op(row.op);
      def->has_trait(kElementwise) && !def->has_trait(kOnIntegers)) {
    for (ValueId& operand : operands) {
      const Type& type = node.type(operand);
      if (is_float(type.dtype) || type.quantized()) continue;
      DTR_ASSIGN(operand, node.cast(operand, DType::kFloat32));
      from_integers = true;
    }
  }
  DTR_TRY(node.check_all_read());
  DTR_ASSIGN(ValueId result, node.emit(row.op, std::move(operands), attributes));
  if (const auto stated = node.stated_dtype(); from_integers && stated) {
    DTR_ASSIGN(result, node.cast(result, *stated));
  }
  return Values{result};
}

}  // namespace dtr::pt2
