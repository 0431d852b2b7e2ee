// Implements NodeImport: access to the operands and attributes of a node, and adding ops for it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/compositions/indices.h"
#include "compiler/frontends/onnx/importer.h"
#include "compiler/ops/constant_folding.h"
#include "compiler/ops/ops.h"
#include "device/numerics/requantize.h"

namespace dtr::onnx {
namespace {

// Limit of the bytes by which folding an operator on constants may enlarge them.
constexpr int64_t kMaxFoldedGrowthBytes = int64_t{1} << 16;
// Limit of the elements that are evaluated to be an argument.
constexpr int64_t kMaxKnownElements = int64_t{1} << 24;
// Limit of an attribute; every shape, stride and window of a real model is below.
constexpr int64_t kMaxInteger = int64_t{1} << 31;

enum AttributeType : int32_t { kFloatAttribute = 1, kIntAttribute = 2, kStringAttribute = 3 };

// The format's type of the attribute, or 0 where an old file leaves it out.
bool is_of(const pb::AttributeProto& attribute, int32_t type) {
  return attribute.type() == type || attribute.type() == 0;
}

}  // namespace

NodeImport::NodeImport(Importer& importer, const pb::NodeProto& node, const Scope& scope,
                       const Operator& row, uint32_t source)
    : GraphBuilder(importer.module_, importer.module_.forward(), {.sources = {source}},
                   importer.module_.sources[source].name),
      importer_(importer),
      node_(node),
      scope_(scope),
      row_(row),
      source_(source),
      read_(static_cast<size_t>(node.attribute_size()), false) {}

Place NodeImport::place() const { return place_of(module_, origin_); }

tl::unexpected<Diagnostic> NodeImport::invalid(std::string reason) const {
  return fail(DiagnosticId::kOnnxInvalid,
              fmt::format("{}: {}", module_.sources[source_].target, reason),
              "Export or download the model again.", place());
}

tl::unexpected<Diagnostic> NodeImport::unsupported(std::string reason, std::string fix) const {
  return fail(DiagnosticId::kOnnxUnsupportedOption,
              fmt::format("{}: {}", module_.sources[source_].target, reason),
              fix.empty() ? "Change the model so that it does without." : std::move(fix), place());
}

int64_t NodeImport::version() const {
  const auto at = scope_.versions->find(std::string(plain_domain(node_.domain())));
  return at == scope_.versions->end() ? 1 : at->second;
}

// ---- operands

Result<Binding> NodeImport::binding(size_t input) {
  if (!has(input)) return invalid(fmt::format("input {} is absent", input));
  return importer_.lookup(node_.input(static_cast<int>(input)), scope_, place());
}

Result<ValueId> NodeImport::held(size_t input) {
  DTR_ASSIGN(const Binding found, binding(input));
  if (found.is_sequence) return invalid(fmt::format("input {} is a sequence", input));
  return found.value;
}

Result<ValueId> NodeImport::value(size_t input) {
  DTR_ASSIGN(const ValueId found, held(input));
  return row_.moves ? found : plain(found);
}

Result<ValueId> NodeImport::optional_value(size_t input) {
  return has(input) ? value(input) : ValueId{};
}

Result<Values> NodeImport::values() {
  Values all;
  for (size_t i = 0; i < inputs(); ++i) {
    DTR_ASSIGN(all.emplace_back(), value(i));
  }
  return all;
}

Result<std::vector<double>> NodeImport::known(size_t input) {
  DTR_ASSIGN(const ValueId found, value(input));
  if (const auto elements = constant_elements(found)) return *elements;
  const std::string& name = node_.input(static_cast<int>(input));
  if (!ops::is_static(graph(), found) || type(found).elements() > kMaxKnownElements)
    return unsupported(
        fmt::format("`{}` depends on an input of the model, only constants are supported here",
                    name),
        "Export the model so that shapes, axes and sizes are constants.");
  const std::vector<Tensor> made =
      ops::evaluate_on_constants(module_, graph(), graph().producer(found));
  return elements_of(made.at(graph().value(found).result));
}

Result<Ints> NodeImport::integers(size_t input) {
  DTR_ASSIGN(const std::vector<double> elements, known(input));
  Ints result;
  for (const double element : elements)
    result.push_back(numerics::saturating_cast<int64_t>(element));
  return result;
}

Result<int64_t> NodeImport::integer(size_t input) {
  DTR_ASSIGN(const Ints all, integers(input));
  if (all.size() != 1) return invalid(fmt::format("input {} is not one number", input));
  return all.front();
}

Result<double> NodeImport::number(size_t input) {
  DTR_ASSIGN(const std::vector<double> all, known(input));
  if (all.size() != 1) return invalid(fmt::format("input {} is not one number", input));
  return all.front();
}

// ---- attributes

const pb::AttributeProto* NodeImport::find(const std::string& name) const {
  for (int i = 0; i < node_.attribute_size(); ++i)
    if (node_.attribute(i).name() == name) read_[static_cast<size_t>(i)] = true;
  return importer_.find_attribute(node_, scope_, name);
}

bool NodeImport::has_attribute(const std::string& name) const { return find(name) != nullptr; }

Result<int64_t> NodeImport::integer(const std::string& name,
                                    std::optional<int64_t> fallback) const {
  const pb::AttributeProto* at = find(name);
  if (at == nullptr && fallback) return *fallback;
  if (at == nullptr || !is_of(*at, kIntAttribute))
    return invalid(fmt::format("attribute `{}` is missing or no integer", name));
  return at->i();
}

Result<bool> NodeImport::flag(const std::string& name, bool fallback) const {
  DTR_ASSIGN(const int64_t number, integer(name, fallback ? 1 : 0));
  return number != 0;
}

Result<double> NodeImport::number(const std::string& name, std::optional<double> fallback) const {
  const pb::AttributeProto* at = find(name);
  if (at == nullptr && fallback) return *fallback;
  if (at == nullptr || !is_of(*at, kFloatAttribute))
    return invalid(fmt::format("attribute `{}` is missing or no number", name));
  return static_cast<double>(at->f());
}

Result<std::string> NodeImport::string(const std::string& name,
                                       std::optional<std::string> fallback) const {
  const pb::AttributeProto* at = find(name);
  if (at == nullptr && fallback) return *std::move(fallback);
  if (at == nullptr || !is_of(*at, kStringAttribute))
    return invalid(fmt::format("attribute `{}` is missing or no string", name));
  return at->s();
}

Result<std::string> NodeImport::word(const std::string& name, std::string fallback,
                                     std::initializer_list<std::string_view> known) const {
  DTR_ASSIGN(std::string stated, string(name, std::move(fallback)));
  if (std::ranges::find(known, stated) == known.end())
    return invalid(fmt::format("{} is `{}`, expected {}", name, stated, fmt::join(known, ", ")));
  return stated;
}

Result<Ints> NodeImport::ints(const std::string& name, std::optional<Ints> fallback) const {
  const pb::AttributeProto* at = find(name);
  if (at == nullptr && fallback) return *std::move(fallback);
  if (at == nullptr) return invalid(fmt::format("attribute `{}` is missing", name));
  Ints result(at->ints().begin(), at->ints().end());
  // Values of a constant, and bounds of slices, which may be beyond any extent.
  const bool any = name == "value_ints" || name == "starts" || name == "ends";
  for (const int64_t entry : result)
    if (!any && (entry > kMaxInteger || entry < -kMaxInteger))
      return unsupported(fmt::format("attribute `{}` has {}", name, entry));
  return result;
}

Result<Floats> NodeImport::floats(const std::string& name, std::optional<Floats> fallback) const {
  const pb::AttributeProto* at = find(name);
  if (at == nullptr && fallback) return *std::move(fallback);
  if (at == nullptr) return invalid(fmt::format("attribute `{}` is missing", name));
  return Floats(at->floats().begin(), at->floats().end());
}

Result<std::vector<std::string>> NodeImport::strings(const std::string& name) const {
  const pb::AttributeProto* at = find(name);
  if (at == nullptr) return std::vector<std::string>();
  return std::vector<std::string>(at->strings().begin(), at->strings().end());
}

Result<Tensor> NodeImport::tensor(const std::string& name) const {
  const pb::AttributeProto* at = find(name);
  if (at == nullptr || !at->has_t())
    return invalid(fmt::format("attribute `{}` is missing or no tensor", name));
  if (is_wide_unsigned(at->t().data_type())) importer_.has_wide_unsigned_ = true;
  return importer_.tensors_.read(at->t());
}

Result<const pb::GraphProto*> NodeImport::graph_attribute(const std::string& name) const {
  const pb::AttributeProto* at = find(name);
  if (at == nullptr || !at->has_g())
    return invalid(fmt::format("attribute `{}` is missing or no graph", name));
  return &at->g();
}

Result<Ints> NodeImport::ints_or_input(const std::string& name, size_t input,
                                       std::optional<Ints> fallback) {
  if (has(input)) return integers(input);
  return ints(name, std::move(fallback));
}

Result<void> NodeImport::check_all_read() const {
  for (int i = 0; i < node_.attribute_size(); ++i)
    if (!read_[static_cast<size_t>(i)])
      return unsupported(fmt::format("attribute `{}` is not known here", node_.attribute(i).name()),
                         "Export the model with an older version (opset) of the operators.");
  return {};
}

// ---- shapes

Result<int64_t> NodeImport::axis(int64_t axis, size_t rank) const {
  const auto end = static_cast<int64_t>(rank);
  if (axis < -end || axis >= end)
    return invalid(fmt::format("axis {} is out of range for rank {}", axis, rank));
  return axis < 0 ? axis + end : axis;
}

Result<Ints> NodeImport::axes(const Ints& axes, size_t rank) const {
  Ints result;
  for (const int64_t each : axes) {
    DTR_ASSIGN(const int64_t at, axis(each, rank));
    if (std::ranges::find(result, at) == result.end()) result.push_back(at);
  }
  std::ranges::sort(result);
  return result;
}

Result<void> NodeImport::check_shape(const Shape& shape) const {
  const auto elements = checked_element_count(shape);
  if (shape.size() > kMaxRank || !elements || *elements > INT32_MAX)
    return invalid(fmt::format("it makes a tensor of shape [{}]", fmt::join(shape, ", ")));
  return {};
}

// ---- building

ValueId NodeImport::folded(ValueId result) {
  const OpId op = graph().producer(result);
  if (!op.valid() || !ops::reads_only_static(graph(), op) || graph().op(op).results.size() != 1 ||
      type(result).quantized() || !ops::worth_storing(graph(), op, kMaxFoldedGrowthBytes))
    return result;
  const std::vector<Tensor> evaluated = ops::evaluate_on_constants(module_, graph(), op);
  const Type of = type(result);
  const std::string name = graph().value(result).name;
  rewriter_.erase(op);
  return rewriter_.add_constant(of, module_.constants.add(of.dtype, evaluated[0].bytes()), name);
}

namespace {

// What an operator refuses of these operands says that the file contradicts itself: their shapes,
// or that their dtypes differ. Of other operators, and of quantized values and other numbers than
// float, it may be that only Deuteron does not compute them.
bool contradicts(const Graph& graph, std::string_view op, const std::vector<ValueId>& operands) {
  constexpr const OpDef* kOfShapes[] = {&ops::kBatchNorm, &ops::kCat,    &ops::kConvolution,
                                        &ops::kExpand,    &ops::kLinear, &ops::kMatmul,
                                        &ops::kPermute,   &ops::kView,   &ops::kWhereSelf};
  const OpDef* def = find_op(op);
  const bool joins = def->has_trait(kElementwise) && operands.size() > 1;
  if (!joins && std::ranges::find(kOfShapes, def) == std::end(kOfShapes)) return false;
  // The first operand of a selection is its mask.
  const size_t first = def == &ops::kWhereSelf ? 1 : 0;
  const Type& type = graph.type(operands[first]);
  for (size_t i = first; i < operands.size(); ++i) {
    const Type& other = graph.type(operands[i]);
    if (other.quantized()) return false;
    if (other.dtype != type.dtype) return true;
  }
  return is_float(type.dtype);
}

}  // namespace

Result<ValueId> NodeImport::emit(std::string_view op, std::vector<ValueId> operands,
                                 const Attributes& attributes,
                                 const std::optional<Quantization>& quantization) {
  const auto too_big = [](int64_t number) { return number > kMaxInteger || number < -kMaxInteger; };
  for (const auto& [attribute, value] : attributes) {
    const auto* whole = std::get_if<int64_t>(&value);
    const auto* list = std::get_if<Ints>(&value);
    if ((whole != nullptr && too_big(*whole)) ||
        (list != nullptr && std::ranges::any_of(*list, too_big)))
      return unsupported(fmt::format("`{}` is out of range", attribute));
  }
  const bool shifted = !operands.empty() && operands[0].valid() && is_unsigned(operands[0]);
  const bool contradictory = contradicts(graph(), op, operands);
  auto result = GraphBuilder::emit(op, std::move(operands), attributes, quantization);
  if (!result) {
    // "OP: …"; the message begins with the name in the file.
    const std::string& reason = result.error().reason;
    const std::string prefix = fmt::format("{}: ", op);
    if (contradictory)
      return invalid(reason.starts_with(prefix) ? reason.substr(prefix.size()) : reason);
    return unsupported(reason.starts_with(prefix) ? reason.substr(prefix.size()) : reason,
                       result.error().fix);
  }
  if (shifted && type(*result).quantized()) importer_.unsigned_.insert(result->index);
  return folded(*result);
}

Result<ValueId> NodeImport::cast(ValueId value, DType dtype) {
  if (type(value).dtype == dtype) return value;
  return emit("convert", {value}, {{"dtype", std::string(dtr::name(dtype))}});
}

Result<ValueId> NodeImport::scalar(double value, ValueId like) {
  return constant(dtype(like), {}, value, "number");
}

Result<ValueId> NodeImport::times(ValueId a, double factor) {
  if (factor == 1) return a;
  DTR_ASSIGN(const ValueId by, scalar(factor, a));
  return mul(a, by);
}

Result<ValueId> NodeImport::plus(ValueId a, double summand) {
  if (summand == 0) return a;
  DTR_ASSIGN(const ValueId by, scalar(summand, a));
  return add(a, by);
}

Result<ValueId> NodeImport::sum(ValueId x, const Ints& dims, bool keepdim) {
  if (dims.empty()) return x;
  const DType of = dtype(x);
  DTR_ASSIGN(const ValueId made,
             emit("aten.sum.dim_IntList", {x}, {{"dim", dims}, {"keepdim", keepdim}}));
  return cast(made, of);
}

Result<ValueId> NodeImport::constant_of(const Tensor& tensor) {
  return rewriter_.add_constant({.dtype = tensor.dtype(), .shape = tensor.shape()},
                                module_.constants.add(tensor.dtype(), tensor.bytes()), name_);
}

Result<ValueId> NodeImport::from_front(ValueId indices, int64_t extent) {
  const Type of = type(indices);
  if (of.dtype != DType::kInt64 && of.dtype != DType::kInt32)
    return invalid(fmt::format("its indices are {}", dtr::name(of.dtype)));
  if (const auto elements = constant_elements(indices)) {
    std::vector<double> wrapped = *elements;
    for (double& index : wrapped) {
      if (index < 0) index += static_cast<double>(extent);
      if (index < 0 || index >= static_cast<double>(extent))
        return invalid(fmt::format("an index is out of range for {} elements", extent));
    }
    return wrapped == *elements ? Result<ValueId>(indices) : constant(of.dtype, wrapped, of.shape);
  }
  return compositions::from_front(*this, indices, extent);
}

// ---- quantization

bool NodeImport::is_unsigned(ValueId value) const {
  return importer_.unsigned_.contains(value.index);
}

bool NodeImport::has_wide_unsigned() const { return importer_.has_wide_unsigned_; }

Result<ValueId> NodeImport::plain(ValueId value) {
  if (!type(value).quantized()) return value;
  const Quantization of = *type(value).quantization;
  if (of.per_channel()) return unsupported("it computes with codes that are quantized per channel");
  const bool bytes = is_unsigned(value);
  DTR_ASSIGN(ValueId x, emit("dequantize", {value}));
  DTR_ASSIGN(x, times(x, 1.0 / static_cast<double>(of.scale())));
  // Half a step more, because the conversion cuts fractions off; codes of int8 are made positive.
  DTR_ASSIGN(x, plus(x, of.zero_point() + 128.5));
  if (bytes) return cast(x, DType::kUint8);
  DTR_ASSIGN(x, cast(x, DType::kInt32));
  DTR_ASSIGN(x, plus(x, -128));
  return cast(x, DType::kInt8);
}

// Scales and zero points that are known and of the usual form: one, or one a channel.
Result<Quantization> NodeImport::quantization_of(const Codes& codes, bool unsigned_codes,
                                                 const Shape& shape) {
  DTR_ASSIGN(const std::vector<double> scales, known(codes.scale));
  std::vector<double> zero_points(scales.size(), 0.0);
  if (has(codes.zero_point)) {
    DTR_ASSIGN(zero_points, known(codes.zero_point));
  }
  if (scales.empty() || zero_points.size() != scales.size())
    return invalid(fmt::format("{} scales and {} zero points", scales.size(), zero_points.size()));
  Quantization made;
  if (scales.size() > 1) {
    DTR_ASSIGN(const int64_t at, axis(codes.axis, shape.size()));
    if (shape[static_cast<size_t>(at)] != static_cast<int64_t>(scales.size()))
      return invalid(
          fmt::format("{} scales for dimension {} of {}", scales.size(), at, to_string(shape)));
    made.axis = static_cast<int>(at);
  }
  for (const double scale : scales) {
    if (!(scale > 0) || !std::isfinite(scale))
      return unsupported(fmt::format("the scale {} is not positive and finite", scale),
                         "Quantize the model again, with data that reach the operator.");
    made.scales.push_back(static_cast<float>(scale));
  }
  for (const double zero_point : zero_points)
    made.zero_points.push_back(numerics::saturating_cast<int32_t>(zero_point) -
                               (unsigned_codes ? 128 : 0));
  return made;
}

namespace {

struct CodeRange {
  double low, high;
};
// UINT16 is held in int32.
CodeRange range_of(DType dtype) {
  if (dtype == DType::kInt32) return {0, 65535};
  if (dtype == DType::kUint8) return {0, 255};
  const IntegerRange range = integer_range(dtype);
  return {static_cast<double>(range.min), static_cast<double>(range.max)};
}

}  // namespace

// A scale or zero point as float, so that it broadcasts to `of`.
static Result<ValueId> spread(NodeImport& node, size_t input, const Shape& of, int64_t axis,
                              int64_t block) {
  DTR_ASSIGN(ValueId x, node.value(input));
  DTR_ASSIGN(x, node.cast(x, DType::kFloat32));
  const Shape shape = node.shape(x);
  if (node.type(x).elements() == 1) return node.view(x, {});
  DTR_ASSIGN(const int64_t at, node.axis(axis, of.size()));
  const auto dim = static_cast<size_t>(at);
  if (shape.size() == 1) {
    Shape along(of.size(), 1);
    along[dim] = shape[0];
    return node.view(x, along);
  }
  // Blocks: each entry stands for `block` elements.
  if (shape.size() != of.size() || block < 1 || block > of[dim])
    return node.invalid("its scales do not fit");
  Shape wide = shape;
  wide.insert(wide.begin() + at + 1, 1);
  DTR_ASSIGN(x, node.view(x, wide));
  wide[dim + 1] = block;
  DTR_TRY(node.check_shape(wide));
  DTR_ASSIGN(x, node.expand(x, wide));
  Shape joined = shape;
  joined[dim] *= block;
  DTR_ASSIGN(x, node.view(x, joined));
  return node.slice(x, at, 0, of[dim]);
}

Result<ValueId> NodeImport::quantized(ValueId real, const Codes& codes) {
  DTR_ASSIGN(const int64_t block, integer("block_size", 0));
  DTR_ASSIGN(const int64_t stated, integer("output_dtype", 0));
  int32_t wanted = stated == 0 ? kUint8 : static_cast<int32_t>(stated);
  DType dtype = dtype_of(wanted).value_or(DType::kFloat32);
  if (has(codes.zero_point)) {
    DTR_ASSIGN(const ValueId zero_point, value(codes.zero_point));
    dtype = type(zero_point).dtype;
    if (importer_.four_bits_.contains(zero_point.index)) wanted = kInt4;
  }
  if (is_float(dtype) || dtype == DType::kBool || wanted > kInt64)
    return unsupported(fmt::format("it quantizes to {}", name_of_type(wanted)),
                       "Quantize the model to int8.");
  const bool byte = dtype == DType::kUint8;
  DTR_ASSIGN(const ValueId scale, value(codes.scale));
  const bool usual = (byte || dtype == DType::kInt8) && ops::is_static(graph(), scale) &&
                     type(scale).elements() == 1 && type(real).dtype == DType::kFloat32;
  if (usual) {
    DTR_ASSIGN(const Quantization made, quantization_of(codes, byte, shape(real)));
    DTR_ASSIGN(const ValueId result, emit("quantize", {real}, {}, made));
    if (byte) importer_.unsigned_.insert(result.index);
    return result;
  }
  // In float, and the codes as integers.
  const CodeRange range = range_of(dtype);
  DTR_ASSIGN(const ValueId step, spread(*this, codes.scale, shape(real), codes.axis, block));
  DTR_ASSIGN(ValueId x, cast(real, DType::kFloat32));
  DTR_ASSIGN(x, div(x, step));
  DTR_ASSIGN(x, emit("aten.round", {x}));
  if (has(codes.zero_point)) {
    DTR_ASSIGN(const ValueId offset,
               spread(*this, codes.zero_point, shape(real), codes.axis, block));
    DTR_ASSIGN(x, add(x, offset));
  }
  DTR_ASSIGN(x, emit("aten.clamp", {x}, {{"min", range.low}, {"max", range.high}}));
  return cast(x, dtype);
}

Result<ValueId> NodeImport::dequantized(size_t input, const Codes& codes) {
  DTR_ASSIGN(const int64_t block, integer("block_size", 0));
  DTR_ASSIGN([[maybe_unused]] const int64_t stated, integer("output_dtype", 0));
  DTR_ASSIGN(ValueId x, held(input));
  const Type of = type(x);
  DTR_ASSIGN(const ValueId scale, value(codes.scale));
  const size_t scales = static_cast<size_t>(type(scale).elements());
  const bool known_scale = ops::is_static(graph(), scale) && block == 0 && scales > 0;
  const bool byte = of.quantized() ? is_unsigned(x) : of.dtype == DType::kUint8;
  if (known_scale && of.quantized()) {
    DTR_ASSIGN(const Quantization made, quantization_of(codes, byte, of.shape));
    if (made.scales == of.quantization->scales && made.zero_points == of.quantization->zero_points)
      return emit("dequantize", {x});
  }
  const bool holds_codes = of.dtype == DType::kInt8 || of.dtype == DType::kInt32 || byte;
  if (known_scale && !of.quantized() && holds_codes && graph().is_constant(x)) {
    DTR_ASSIGN(Quantization made, quantization_of(codes, byte, of.shape));
    Tensor elements = *constant_value(x);
    if (byte) {
      Tensor shifted(DType::kInt8, of.shape);
      std::ranges::transform(elements.values<uint8_t>(), shifted.values<int8_t>().begin(),
                             [](uint8_t code) { return static_cast<int8_t>(code - 128); });
      elements = std::move(shifted);
    }
    if (elements.dtype() == DType::kInt32) {
      made.qmin = INT32_MIN;
      made.qmax = INT32_MAX;
    } else if (std::ranges::all_of(elements.values<int8_t>(),
                                   [](int8_t code) { return code != -128; }) &&
               std::ranges::all_of(made.zero_points, [](int32_t zero) { return zero >= -127; })) {
      made.qmin = -127;
    }
    const ValueId annotated = rewriter_.add_constant(
        {.dtype = elements.dtype(), .shape = of.shape, .quantization = std::move(made)},
        module_.constants.add(elements.dtype(), elements.bytes()), graph().value(x).name);
    return emit("dequantize", {annotated});
  }
  const bool unused_input = graph().value(x).kind == ValueKind::kInput &&
                            graph().value(x).uses.empty() && !of.quantized();
  if (known_scale && unused_input && scales == 1 && of.dtype == DType::kInt8) {
    DTR_ASSIGN(const Quantization made, quantization_of(codes, false, of.shape));
    rewriter_.set_quantization(x, made);
    return emit("dequantize", {x});
  }
  DTR_ASSIGN(const ValueId numbers, plain(x));
  DTR_ASSIGN(const ValueId step, spread(*this, codes.scale, of.shape, codes.axis, block));
  DTR_ASSIGN(ValueId real, cast(numbers, DType::kFloat32));
  if (has(codes.zero_point)) {
    DTR_ASSIGN(const ValueId offset, spread(*this, codes.zero_point, of.shape, codes.axis, block));
    DTR_ASSIGN(real, sub(real, offset));
  }
  DTR_ASSIGN(real, mul(real, step));
  // An input of bytes: the operators that follow compute with its codes.
  if (known_scale && scales == 1 && byte && graph().value(x).kind == ValueKind::kInput) {
    DTR_ASSIGN(const Quantization made, quantization_of(codes, true, of.shape));
    DTR_ASSIGN(const ValueId again, emit("quantize", {real}, {}, made));
    importer_.unsigned_.insert(again.index);
    return emit("dequantize", {again});
  }
  return real;
}

Result<ValueId> NodeImport::dequantized_constant(std::span<const double> codes, DType dtype,
                                                 const Quantization& quantization,
                                                 const std::optional<Shape>& shape) {
  DTR_ASSIGN(const ValueId plain_codes, constant(dtype, codes, shape));
  rewriter_.set_quantization(plain_codes, quantization);
  return emit("dequantize", {plain_codes});
}

// ---- subgraphs

Result<std::vector<Binding>> NodeImport::run_subgraph(const pb::GraphProto& graph,
                                                      const std::vector<Binding>& inputs,
                                                      const std::string& suffix) {
  return importer_.import_subgraph(graph, scope_, inputs, module_.sources[source_].name + suffix);
}

void NodeImport::return_sequence(size_t output, Values values) {
  sequences_.emplace_back(output, std::move(values));
}

}  // namespace dtr::onnx
