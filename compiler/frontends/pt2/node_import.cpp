// Implements NodeImport: access to the arguments of a node, and adding ops for it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/frontends/pt2/importer.h"
#include "compiler/frontends/pt2/node_reads.h"
#include "compiler/ops/constant_folding.h"
#include "compiler/ops/ops.h"
#include "device/numerics/requantize.h"

namespace dtr::pt2 {
namespace {

constexpr int64_t kMaxInteger =
    int64_t{1} << 31;  // of an attribute; no shape, stride or window of a real model is beyond
constexpr int64_t kMaxFoldedGrowthBytes = int64_t{1}
                                          << 16;  // of what operators on constants make of them

// bool < integers < floats.
int category(DType dtype) { return is_float(dtype) ? 2 : dtype == DType::kBool ? 0 : 1; }

// Of two dtypes of one category.
DType wider(DType a, DType b) {
  if (a != b && std::min(a, b) == DType::kUint8 && std::max(a, b) == DType::kInt8)
    return DType::kInt16;
  return std::max(a, b);
}

// PyTorch's dtype of an operator on both: the highest category decides, in it tensors that have
// dimensions.
DType promoted_dtype(const Type& a, const Type& b) {
  const int of_a = category(a.dtype), of_b = category(b.dtype);
  if (of_a != of_b) return of_a > of_b ? a.dtype : b.dtype;
  if ((a.rank() == 0) != (b.rank() == 0)) return a.rank() == 0 ? b.dtype : a.dtype;
  return wider(a.dtype, b.dtype);
}

// What the file states of an output of a node; null if it states nothing.
const TensorMeta* find_output(const ExportedGraph& graph, const Node& node, size_t output) {
  if (output >= node.outputs.size()) return nullptr;
  const auto at = graph.tensors.find(node.outputs[output]);
  return at == graph.tensors.end() ? nullptr : &at->second;
}

}  // namespace

NodeImport::NodeImport(Importer& importer, size_t index)
    : GraphBuilder(importer.module_, importer.module_.forward(),
                   {.sources = {static_cast<uint32_t>(importer.scope_->first_source + index)}},
                   std::string(importer.scope_->graph->nodes[index].name)),
      importer_(importer),
      source_(importer.scope_->first_source + index),
      node_(importer.scope_->graph->nodes[index]),
      read_(node_.inputs.size(), false) {}

bool NodeImport::is_read(size_t output) const {
  return output < node_.outputs.size() &&
         importer_.scope_->last_use.contains(node_.outputs[output]);
}

bool NodeImport::is_read_only_by(std::string_view target) const {
  const Importer::Scope& scope = *importer_.scope_;
  const std::vector<Node>& nodes = scope.graph->nodes;
  const auto binding = scope.bindings.find(first_read(node_));
  if (binding == scope.bindings.end()) return false;
  const std::vector<std::string_view>& names = scope.storages[binding->second.storage];
  for (const std::string_view name : names) {
    const auto last = scope.last_use.find(name);
    if (last != scope.last_use.end() && last->second == nodes.size()) return false;
  }
  for (size_t i = source_ - scope.first_source + 1; i < nodes.size(); ++i) {
    bool reads = false;
    for_each_read(nodes[i], [&](std::string_view name) {
      reads = reads || std::ranges::find(names, name) != names.end();
    });
    if (reads && operator_name(nodes[i]) != target) return false;
  }
  return true;
}

Place NodeImport::place() const { return importer_.place_of_source(source_); }

tl::unexpected<Diagnostic> NodeImport::refuse(DiagnosticId id, std::string reason,
                                              std::string fix) const {
  return fail(id, std::move(reason), std::move(fix), place());
}

tl::unexpected<Diagnostic> NodeImport::unsupported(std::string reason, std::string fix) const {
  return refuse(DiagnosticId::kPt2UnsupportedArgument,
                fmt::format("{}: {}", module_.sources[source_].target, reason),
                fix.empty() ? "change the model so that it does without" : std::move(fix));
}

tl::unexpected<Diagnostic> NodeImport::bad_argument(std::string_view name) const {
  return refuse(DiagnosticId::kPt2Invalid,
                fmt::format("{}: argument `{}` is missing or of an unexpected kind",
                            module_.sources[source_].target, name),
                "export the model again with PyTorch 2.13");
}

const Argument* NodeImport::find(std::string_view name) const {
  for (size_t i = 0; i < node_.inputs.size(); ++i) {
    const auto& [argument, value] = node_.inputs[i];
    if (argument != name) continue;
    read_[i] = true;
    return std::holds_alternative<std::monostate>(value) ? nullptr : &value;
  }
  return nullptr;
}

Result<void> NodeImport::check_all_read() const {
  // Device and layout have no effect here; a dtype determines the type of the result, which is
  // compared with that of the file. What `out` holds is overwritten.
  constexpr std::string_view kHarmless[] = {
      "copy",   "cudnn_enable",  "cudnn_enabled", "device",       "dtype", "implicit",  "inplace",
      "layout", "memory_format", "momentum",      "non_blocking", "out",   "pin_memory"};
  for (size_t i = 0; i < node_.inputs.size(); ++i) {
    const auto& [argument, value] = node_.inputs[i];
    if (read_[i] || std::holds_alternative<std::monostate>(value)) continue;
    if (std::find(std::begin(kHarmless), std::end(kHarmless), argument) != std::end(kHarmless))
      continue;
    return unsupported(fmt::format("the argument `{}` is not supported", argument),
                       "leave the argument at its default");
  }
  return {};
}

NodeImport::Replaced::Replaced(NodeImport& node, Replacements values, bool imaginary)
    : node_(node) {
  node.replacements_ = std::move(values);
  node.imaginary_ = imaginary;
}

NodeImport::Replaced::~Replaced() {
  node_.replacements_.clear();
  node_.imaginary_.reset();
}

const Values* NodeImport::replacement(std::string_view name) const {
  const auto at = std::ranges::find(replacements_, name, &Replacements::value_type::first);
  return at == replacements_.end() ? nullptr : &at->second;
}

std::vector<std::string_view> NodeImport::tensor_arguments() const {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : node_.inputs)
    if (std::holds_alternative<TensorName>(value) ||
        std::holds_alternative<std::vector<TensorName>>(value))
      names.push_back(name);
  return names;
}

bool NodeImport::has(std::string_view name) const {
  const Values* replaced = replacement(name);
  if (replaced != nullptr && replaced->size() == 1 && !replaced->front().valid()) return false;
  return find(name) != nullptr;
}

Result<ValueId> NodeImport::tensor(std::string_view name) {
  const Argument* argument = find(name);
  if (const Values* replaced = replacement(name))
    return replaced->size() == 1 && replaced->front().valid() ? Result<ValueId>(replaced->front())
                                                              : bad_argument(name);
  const auto* named = argument == nullptr ? nullptr : std::get_if<TensorName>(argument);
  if (named == nullptr || named->name.empty()) return bad_argument(name);
  return importer_.value_of(named->name, place());
}

Result<ValueId> NodeImport::optional_tensor(std::string_view name) {
  const Argument* argument = find(name);
  const auto* named = argument == nullptr ? nullptr : std::get_if<TensorName>(argument);
  if (argument == nullptr || (named != nullptr && named->name.empty()) || !has(name))
    return ValueId{};
  return tensor(name);
}

bool NodeImport::has_tensor(std::string_view name) const {
  const Argument* argument = find(name);
  return argument != nullptr && std::holds_alternative<TensorName>(*argument) && has(name);
}

bool NodeImport::is_complex(std::string_view name) const {
  const Argument* argument = find(name);
  const auto* named = argument == nullptr ? nullptr : std::get_if<TensorName>(argument);
  return named != nullptr && replacement(name) == nullptr && importer_.is_complex(named->name);
}

bool NodeImport::gives_complex(size_t output) const {
  return output < node_.outputs.size() && importer_.is_complex(node_.outputs[output]);
}

std::vector<bool> NodeImport::are_complex(std::string_view name) const {
  std::vector<bool> all;
  const Argument* argument = find(name);
  if (const auto* names =
          argument == nullptr ? nullptr : std::get_if<std::vector<TensorName>>(argument))
    for (const TensorName& each : *names) all.push_back(importer_.is_complex(each.name));
  return all;
}

Result<ValueId> NodeImport::tensor_or_scalar(std::string_view name, ValueId like) {
  const Argument* argument = find(name);
  if (argument != nullptr && std::holds_alternative<TensorName>(*argument)) {
    DTR_ASSIGN(const ValueId value, tensor(name));
    return promoted(value, like);
  }
  DTR_ASSIGN(const double value, number(name));
  // A number of another category than the tensor's decides the dtype, as in PyTorch.
  const DType of = argument != nullptr && (std::holds_alternative<double>(*argument) ||
                                           std::holds_alternative<std::complex<double>>(*argument))
                       ? DType::kFloat32
                   : argument != nullptr && std::holds_alternative<bool>(*argument) ? DType::kBool
                                                                                    : DType::kInt64;
  const bool decides = !type(like).quantized() && category(of) > category(type(like).dtype);
  return constant(decides ? of : type(like).dtype, {}, value, name);
}

Result<std::vector<ValueId>> NodeImport::tensors(std::string_view name) {
  const Argument* argument = find(name);
  const auto* names =
      argument == nullptr ? nullptr : std::get_if<std::vector<TensorName>>(argument);
  if (names == nullptr || names->empty()) return bad_argument(name);
  if (const Values* replaced = replacement(name)) return *replaced;
  std::vector<ValueId> values;
  for (const TensorName& each : *names) {
    if (each.name.empty()) return bad_argument(name);
    DTR_ASSIGN(const ValueId value, importer_.value_of(each.name, place()));
    values.push_back(value);
  }
  return values;
}

Result<std::vector<ValueId>> NodeImport::optional_tensors(std::string_view name) {
  const Argument* argument = find(name);
  const auto* names =
      argument == nullptr ? nullptr : std::get_if<std::vector<TensorName>>(argument);
  if (names == nullptr) return bad_argument(name);
  if (const Values* replaced = replacement(name)) return *replaced;
  std::vector<ValueId> values;
  for (const TensorName& each : *names) {
    values.emplace_back();
    if (each.name.empty()) continue;
    DTR_ASSIGN(values.back(), importer_.value_of(each.name, place()));
  }
  return values;
}

std::optional<size_t> NodeImport::subgraph_at(size_t position) const {
  if (position >= node_.inputs.size()) return std::nullopt;
  const auto* subgraph = std::get_if<Subgraph>(&node_.inputs[position].second);
  return subgraph == nullptr ? std::optional<size_t>() : subgraph->index;
}

std::optional<bool> NodeImport::boolean_at(size_t position) const {
  if (position >= node_.inputs.size()) return std::nullopt;
  const auto* truth = std::get_if<bool>(&node_.inputs[position].second);
  return truth == nullptr ? std::optional<bool>() : *truth;
}

Result<Values> NodeImport::tensors_at(size_t position) {
  Values values;
  if (position >= node_.inputs.size()) return values;
  const Argument& argument = node_.inputs[position].second;
  if (const auto* one = std::get_if<TensorName>(&argument)) {
    DTR_ASSIGN(values.emplace_back(), importer_.value_of(one->name, place()));
  } else if (const auto* many = std::get_if<std::vector<TensorName>>(&argument)) {
    for (const TensorName& each : *many) {
      DTR_ASSIGN(values.emplace_back(), importer_.value_of(each.name, place()));
    }
  }
  return values;
}

Result<Values> NodeImport::run_subgraph(size_t subgraph, const Values& operands) {
  return importer_.run_subgraph(subgraph, operands, place());
}

tl::unexpected<Diagnostic> NodeImport::refuse_control(std::string reason, std::string fix) const {
  return refuse(
      DiagnosticId::kPt2ControlFlow, fmt::format("{}: {}", module_.sources[source_].target, reason),
      fix.empty() ? "write it as plain operators: a Python loop or branch on shapes is unrolled "
                    "by the export"
                  : std::move(fix));
}

Result<int64_t> NodeImport::integer(std::string_view name, std::optional<int64_t> fallback) {
  const Argument* argument = find(name);
  if (argument == nullptr && fallback) return *fallback;
  const auto* value = argument == nullptr ? nullptr : std::get_if<int64_t>(argument);
  if (value == nullptr) return bad_argument(name);
  return *value;
}

Result<double> NodeImport::number(std::string_view name, std::optional<double> fallback) {
  const Argument* argument = find(name);
  if (argument == nullptr) return fallback ? Result<double>(*fallback) : bad_argument(name);
  // The numbers that elements become have an imaginary part, or 0; others, like a step, are factors
  // of both parts.
  constexpr std::string_view kElements[] = {"fill_value", "other", "self", "value"};
  const bool is_element = std::ranges::find(kElements, name) != std::end(kElements);
  if (const auto* both = std::get_if<std::complex<double>>(argument);
      both != nullptr && imaginary_ && (is_element || both->imag() == 0))
    return *imaginary_ && is_element ? both->imag() : both->real();
  std::optional<double> value;
  if (const auto* real = std::get_if<double>(argument)) value = *real;
  if (const auto* whole = std::get_if<int64_t>(argument)) value = static_cast<double>(*whole);
  if (const auto* truth = std::get_if<bool>(argument)) value = *truth ? 1 : 0;
  if (!value) return bad_argument(name);
  return imaginary_ == true && is_element ? 0.0 : *value;
}

Result<std::complex<double>> NodeImport::complex_number(std::string_view name) {
  const Argument* argument = find(name);
  if (argument != nullptr)
    if (const auto* value = std::get_if<std::complex<double>>(argument)) return *value;
  DTR_ASSIGN(const double real, number(name));
  return std::complex(real, 0.0);
}

Result<bool> NodeImport::boolean(std::string_view name, std::optional<bool> fallback) {
  const Argument* argument = find(name);
  if (argument == nullptr && fallback) return *fallback;
  const auto* value = argument == nullptr ? nullptr : std::get_if<bool>(argument);
  if (value == nullptr) return bad_argument(name);
  return *value;
}

Result<std::string_view> NodeImport::string(std::string_view name,
                                            std::optional<std::string_view> fallback) {
  const Argument* argument = find(name);
  if (argument == nullptr && fallback) return *fallback;
  const auto* value = argument == nullptr ? nullptr : std::get_if<std::string_view>(argument);
  if (value == nullptr) return bad_argument(name);
  return *value;
}

Result<Ints> NodeImport::ints(std::string_view name, std::optional<Ints> fallback) {
  const Argument* argument = find(name);
  if (argument == nullptr && fallback) return *fallback;
  if (argument == nullptr) return bad_argument(name);
  if (const auto* one = std::get_if<int64_t>(argument)) return Ints{*one};
  if (const auto* none = std::get_if<std::vector<TensorName>>(argument);
      none != nullptr && none->empty())
    return Ints{};
  const auto* values = std::get_if<Ints>(argument);
  if (values == nullptr) return bad_argument(name);
  return *values;
}

Result<Floats> NodeImport::floats(std::string_view name) {
  const Argument* argument = find(name);
  const auto* values = argument == nullptr ? nullptr : std::get_if<Floats>(argument);
  if (values == nullptr) return bad_argument(name);
  return *values;
}

Result<Ints> NodeImport::spread(std::string_view name, size_t count,
                                std::optional<int64_t> fallback) {
  DTR_ASSIGN(Ints values, fallback ? ints(name, Ints{}) : ints(name));
  if (values.empty() && fallback) values.push_back(*fallback);
  if (values.size() == 1) values.resize(count, values.front());
  if (values.size() != count)
    return unsupported(fmt::format("`{}` has {} entries, expected {}", name, values.size(), count));
  return values;
}

Result<int64_t> NodeImport::dim(std::string_view name, size_t rank,
                                std::optional<int64_t> fallback) {
  DTR_ASSIGN(const int64_t value, integer(name, fallback));
  const auto extent = static_cast<int64_t>(std::max<size_t>(rank, 1));
  if (value < -extent || value >= extent)
    return unsupported(fmt::format("`{}` is {}, the rank is {}", name, value, rank));
  return value < 0 ? value + extent : value;
}

Result<NodeImport::Selection> NodeImport::selection(const Shape& shape) {
  DTR_ASSIGN(const int64_t at, dim("dim", shape.size()));
  DTR_ASSIGN(const int64_t index, integer("index"));
  const int64_t extent = shape.empty() ? 0 : shape[static_cast<size_t>(at)];
  if (index < -extent || index >= extent)
    return unsupported(fmt::format("`index` {} is out of range for {} elements", index, extent));
  return Selection{.dim = at, .index = index < 0 ? index + extent : index};
}

Result<Ints> NodeImport::dims(std::string_view name, size_t rank) {
  DTR_ASSIGN(Ints values, ints(name, Ints{}));
  const auto extent = static_cast<int64_t>(rank);
  const auto names_scalar = [](int64_t value) { return value == 0 || value == -1; };
  if (rank == 0 && std::ranges::all_of(values, names_scalar)) return Ints{};  // as PyTorch
  if (values.empty())
    for (int64_t i = 0; i < extent; ++i) values.push_back(i);
  for (int64_t& value : values) {
    if (value < -extent || value >= extent)
      return unsupported(fmt::format("`{}` has {}, the rank is {}", name, value, rank));
    if (value < 0) value += extent;
  }
  std::sort(values.begin(), values.end());
  if (std::adjacent_find(values.begin(), values.end()) != values.end())
    return unsupported(fmt::format("`{}` names a dimension twice", name));
  return values;
}

Result<std::optional<DType>> NodeImport::dtype(std::string_view name) {
  const Argument* argument = find(name);
  if (argument == nullptr) return std::optional<DType>();
  const auto* scalar_type = std::get_if<ScalarType>(argument);
  if (scalar_type == nullptr) return bad_argument(name);
  if (imaginary_ && pt2::is_complex(scalar_type->number))
    return std::optional(part_dtype_of(scalar_type->number));
  const auto known = dtype_of(scalar_type->number);
  if (!known)
    return refuse(
        DiagnosticId::kPt2UnsupportedDtype,
        fmt::format("dtype {} is not supported", scalar_type_name(scalar_type->number)),
        "convert the model to float32 before the export, and leave out conversions to it");
  return known;
}

Result<ValueId> NodeImport::emit(std::string_view op, std::vector<ValueId> operands,
                                 const Attributes& attributes,
                                 const std::optional<Quantization>& quantization) {
  const OpDef* def = find_op(op);
  if (def == nullptr)
    return refuse(
        DiagnosticId::kPt2UnsupportedOperator,
        fmt::format("{} needs {}, which is not supported", module_.sources[source_].target, op),
        "replace it in the model; `deuteron ops` lists what is supported");
  const auto too_big = [](int64_t number) { return number > kMaxInteger || number < -kMaxInteger; };
  for (const auto& [attribute, value] : attributes) {
    const auto* whole = std::get_if<int64_t>(&value);
    if (whole != nullptr && too_big(*whole))
      return unsupported(fmt::format("`{}` is {}", attribute, *whole));
    const auto* list = std::get_if<Ints>(&value);
    if (list != nullptr && std::ranges::any_of(*list, too_big))
      return unsupported(fmt::format("`{}` is [{}]", attribute, fmt::join(*list, ", ")));
  }
  DTR_TRY(narrow_constants(op, operands));
  auto result = GraphBuilder::emit(op, std::move(operands), attributes, quantization);
  if (!result) {
    const std::string& reason =
        result.error().reason;  // "OP: …"; the message begins with the name in the file
    const std::string prefix = fmt::format("{}: ", op);
    return unsupported(reason.starts_with(prefix) ? reason.substr(prefix.size()) : reason,
                       result.error().fix);
  }
  return folded(*result);
}

// float64 constants that meet computed values, as float32.
Result<void> NodeImport::narrow_constants(std::string_view op, Values& operands) {
  const auto is_double = [&](ValueId value) {
    return value.valid() && type(value).dtype == DType::kFloat64;
  };
  const auto is_computed = [&](ValueId value) {
    return value.valid() && !ops::is_static(graph(), value);
  };
  if (op == "convert" || std::ranges::none_of(operands, is_double) ||
      std::ranges::none_of(operands, is_computed))
    return {};
  for (ValueId& value : operands)
    if (is_double(value)) {
      DTR_ASSIGN(value, cast(value, DType::kFloat32));
    }
  return {};
}

// Masks, positions and indices are made of constants by many small operators; others read them as
// constants.
ValueId NodeImport::folded(ValueId result) {
  const OpId op = graph().producer(result);
  if (!ops::reads_only_static(graph(), op) || graph().op(op).results.size() != 1 ||
      type(result).quantized() || !ops::worth_storing(graph(), op, kMaxFoldedGrowthBytes) ||
      importer_.reads_parameter(op))
    return result;
  const std::vector<Tensor> evaluated = ops::evaluate_on_constants(module_, graph(), op);
  const Type of = type(result);
  const std::string name = graph().value(result).name;
  rewriter_.erase(op);
  return rewriter_.add_constant(of, module_.constants.add(of.dtype, evaluated[0].bytes()), name);
}

std::optional<DType> NodeImport::stated_dtype() const {
  const TensorMeta* const tensor = find_output(*importer_.scope_->graph, node_, 0);
  if (tensor == nullptr) return std::nullopt;
  return pt2::is_complex(tensor->scalar_type) ? part_dtype_of(tensor->scalar_type)
                                              : dtype_of(tensor->scalar_type);
}

Shape NodeImport::stated_shape() const {
  const TensorMeta* const tensor = find_output(*importer_.scope_->graph, node_, 0);
  return tensor == nullptr ? Shape() : tensor->sizes;
}

std::optional<Type> NodeImport::stated_type(size_t output) const {
  const TensorMeta* const tensor = find_output(*importer_.scope_->graph, node_, output);
  if (tensor == nullptr || !tensor->symbol.empty()) return std::nullopt;
  std::optional<DType> dtype = pt2::is_complex(tensor->scalar_type)
                                   ? part_dtype_of(tensor->scalar_type)
                                   : dtype_of(tensor->scalar_type);
  if (!dtype) return std::nullopt;
  if (is_float(*dtype)) dtype = DType::kFloat32;
  return Type{.dtype = *dtype, .shape = tensor->sizes};
}

ValueId NodeImport::known(ValueId value) {
  const OpId op = graph().producer(value);
  if (!op.valid() || type(value).quantized() || !ops::reads_only_static(graph(), op)) return value;
  const std::vector<Tensor> evaluated = ops::evaluate_on_constants(module_, graph(), op);
  const Tensor& tensor = evaluated.at(graph().value(value).result);
  return rewriter_.add_constant(type(value), module_.constants.add(tensor.dtype(), tensor.bytes()),
                                graph().value(value).name);
}

Result<ValueId> NodeImport::cast(ValueId value, DType dtype) {
  // Programs compute in float32; what is computed from constants alone keeps its precision.
  if (dtype == DType::kFloat64 && !ops::is_static(graph(), value)) dtype = DType::kFloat32;
  if (type(value).dtype == dtype) return value;
  return emit("convert", {value}, {{"dtype", std::string(dtr::name(dtype))}});
}

Result<std::pair<ValueId, ValueId>> NodeImport::promoted_pair(ValueId a, ValueId b) {
  if (type(a).quantized() || type(b).quantized() || type(a).dtype == type(b).dtype)
    return std::pair(a, b);
  const DType dtype = promoted_dtype(type(a), type(b));
  DTR_ASSIGN(a, cast(a, dtype));
  DTR_ASSIGN(b, cast(b, dtype));
  return std::pair(a, b);
}

Result<std::pair<ValueId, ValueId>> NodeImport::pair(std::string_view a, std::string_view b) {
  const Argument* first = find(a);
  const bool number = first != nullptr && !std::holds_alternative<TensorName>(*first);
  DTR_ASSIGN(const ValueId like, tensor(number ? b : a));
  DTR_ASSIGN(const ValueId other, tensor_or_scalar(number ? a : b, like));
  return number ? promoted_pair(other, like) : promoted_pair(like, other);
}

ValueId NodeImport::add_constant(const Tensor& tensor,
                                 const std::optional<Quantization>& quantization) {
  const ConstantId id = module_.constants.add(tensor.dtype(), tensor.bytes());
  return rewriter_.add_constant(
      {.dtype = tensor.dtype(), .shape = tensor.shape(), .quantization = quantization}, id,
      fmt::format("{}_codes", node_.name));
}

Result<ValueId> NodeImport::uint8_constant_to_int8(ValueId value) {
  if (!graph().is_constant(value))
    return unsupported(
        fmt::format("`{}`, an input of the model, is uint8", graph().value(value).name),
        "let the model take float32 or int8");
  const std::optional<Tensor> unsigned_codes = constant_value(value);
  DTR_CHECK(unsigned_codes.has_value());
  Tensor codes(DType::kInt8, unsigned_codes->shape());
  std::ranges::transform(unsigned_codes->values<uint8_t>(), codes.values<int8_t>().begin(),
                         [](uint8_t code) { return static_cast<int8_t>(code - 128); });
  return add_constant(codes);
}

Result<void> NodeImport::annotate(ValueId value, const Quantization& quantization) {
  const std::optional<Quantization>& present = type(value).quantization;
  if (!present) {
    rewriter_.set_quantization(value, quantization);
    return {};
  }
  if (*present == quantization) return {};
  const auto text = [](const Quantization& q) {
    return fmt::format("scale {}{}, zero point {}, range {}…{}", q.scale(),
                       q.per_channel() ? " …" : "", q.zero_point(), q.qmin, q.qmax);
  };
  return refuse(
      DiagnosticId::kPt2QuantizationConflict,
      fmt::format("`{}` has {}, but is read with {}", graph().value(value).name, text(*present),
                  text(quantization)),
      "quantize the model again, so that every reader of a value agrees on its quantization");
}

Result<std::vector<double>> NodeImport::constant_elements(std::string_view name) {
  DTR_ASSIGN(const ValueId value, this->tensor(name));
  std::optional<std::vector<double>> elements = constant_elements(known(value));
  if (!elements) return unsupported(fmt::format("`{}` is not constant", name));
  return *std::move(elements);
}

Result<ValueId> NodeImport::promoted(ValueId value, ValueId like) {
  const Type of = type(value);
  if (!graph().is_constant(value) || of.quantized() || is_float(of.dtype) ||
      !is_float(type(like).dtype))
    return value;
  return constant(type(like).dtype, elements_of(*constant_value(value)), of.shape);
}

Result<ValueId> NodeImport::wrap_negative_indices(ValueId indices, int64_t extent) {
  indices = known(indices);
  const Type of = type(indices);
  if (!graph().is_constant(indices) || (of.dtype != DType::kInt64 && of.dtype != DType::kInt32))
    return indices;
  Tensor tensor =
      Tensor::copy_of(of.dtype, of.shape, module_.constants.bytes(graph().value(indices).constant));
  bool negative = false;
  const auto wrap = [&]<class T>(std::span<T> values) -> Result<void> {
    for (T& index : values) {
      if (index < -extent || index >= extent)
        return unsupported(fmt::format("index {} of {} elements", index, extent));
      negative = negative || index < 0;
      if (index < 0) index = static_cast<T>(index + extent);
    }
    return {};
  };
  DTR_TRY(of.dtype == DType::kInt64 ? wrap(tensor.values<int64_t>())
                                    : wrap(tensor.values<int32_t>()));
  if (!negative) return indices;
  const ConstantId id = module_.constants.add(of.dtype, tensor.bytes());
  return rewriter_.add_constant(of, id, graph().value(indices).name + "_front");
}

Result<void> NodeImport::check_indices(ValueId indices, int64_t extent) {
  const auto elements = constant_elements(known(indices));
  if (!elements) return {};
  for (const double index : *elements)
    if (index < 0 || index >= static_cast<double>(extent))
      return unsupported(fmt::format("index {} of {} elements", index, extent));
  return {};
}

Result<ValueId> NodeImport::transposed(ValueId matrix) {
  if (type(matrix).rank() != 2)
    return unsupported(fmt::format("a matrix has shape {}", to_string(type(matrix).shape)));
  const OpId dequantize = graph().producer_if(matrix, ops::kDequantize);
  const ValueId codes = dequantize.valid() ? graph().op(dequantize).operands[0] : ValueId{};
  if (!graph().is_constant(codes)) return permute(matrix, {1, 0});
  // The codes are exchanged, so that the weights stay a constant behind a dequantize.
  Quantization quantization = *type(codes).quantization;
  if (quantization.per_channel()) quantization.axis = 1 - quantization.axis;
  DTR_ASSIGN(const ValueId turned, permute(add_constant(*constant_value(codes)), {1, 0}));
  DTR_TRY(annotate(turned, quantization));
  return emit("dequantize", {turned});
}

}  // namespace dtr::pt2
