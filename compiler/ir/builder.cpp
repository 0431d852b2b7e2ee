#include "compiler/ir/builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/numerics/requantize.h"

namespace dtr {
namespace {

constexpr int64_t kMaxCreatedBytes = int64_t{1} << 26;  // of a constant of one number

}  // namespace

std::vector<double> elements_of(const Tensor& tensor) {
  const auto convert = [&]<class T>(T) {
    const std::span<const T> values = tensor.values<T>();
    return std::vector<double>(values.begin(), values.end());
  };
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return convert(float{});
    case DType::kFloat64:
      return convert(double{});
    case DType::kInt64:
      return convert(int64_t{});
    case DType::kInt32:
      return convert(int32_t{});
    case DType::kInt16:
      return convert(int16_t{});
    case DType::kInt8:
      return convert(int8_t{});
    case DType::kUint8:
    case DType::kBool:
      return convert(uint8_t{});
  }
  return {};
}

Result<ValueId> GraphBuilder::emit(std::string_view op, std::vector<ValueId> operands,
                                   const Attributes& attributes,
                                   const std::optional<Quantization>& quantization) {
  const OpDef* def = find_op(op);
  DTR_CHECK(def != nullptr);
  Attributes typed;
  for (const Attributes::Entry& entry : attributes) {
    const Param* declared = def->schema.attribute(entry.first);
    const auto* whole = std::get_if<int64_t>(&entry.second);
    const bool widens =
        whole != nullptr && declared != nullptr && declared->kind == AttributeKind::kFloat;
    typed.set(entry.first, widens ? AttributeValue(static_cast<double>(*whole)) : entry.second);
  }
  return rewriter_.insert_value(before_, {.def = def,
                                          .operands = std::move(operands),
                                          .attributes = std::move(typed),
                                          .origin = origin_,
                                          .name = result_name_,
                                          .quantization = quantization});
}

Result<std::vector<ValueId>> GraphBuilder::emit_several(const OpDef& def,
                                                        std::vector<ValueId> operands,
                                                        Attributes attributes) {
  DTR_ASSIGN(const OpId made, rewriter_.insert(before_, {.def = &def,
                                                         .operands = std::move(operands),
                                                         .attributes = std::move(attributes),
                                                         .origin = origin_,
                                                         .name = result_name_}));
  return graph().op(made).results;
}

Result<ValueId> GraphBuilder::view(ValueId value, const Shape& shape) {
  if (type(value).shape == shape) return value;
  return emit("aten.view", {value}, {{"size", shape}});
}

Result<ValueId> GraphBuilder::permute(ValueId value, const Ints& order) {
  bool identity = true;
  for (size_t i = 0; i < order.size(); ++i)
    identity = identity && order[i] == static_cast<int64_t>(i);
  if (identity && order.size() == type(value).rank()) return value;
  return emit("aten.permute", {value}, {{"dims", order}});
}

Result<ValueId> GraphBuilder::expand(ValueId value, const Shape& size) {
  if (type(value).shape == size) return value;
  return emit("aten.expand", {value}, {{"size", size}});
}

Result<ValueId> GraphBuilder::slice(ValueId value, int64_t dim, int64_t start, int64_t end,
                                    int64_t step) {
  const int64_t extent = type(value).shape[static_cast<size_t>(dim)];
  const auto clip = [&](int64_t bound) {
    return std::clamp<int64_t>(bound < 0 ? bound + extent : bound, 0, extent);
  };
  start = clip(start);
  end = std::max(start, clip(end));
  if (start == 0 && end == extent && step == 1) return value;
  return emit("aten.slice.Tensor", {value},
              {{"dim", dim}, {"start", start}, {"end", end}, {"step", step}});
}

Result<ValueId> GraphBuilder::flip(ValueId value, const Ints& dims) {
  if (dims.empty()) return value;
  return emit("aten.flip", {value}, {{"dims", dims}});
}

Result<ValueId> GraphBuilder::concatenate(std::vector<ValueId> parts, int64_t dim) {
  std::erase_if(parts, [](ValueId part) { return !part.valid(); });
  if (parts.size() == 1) return parts.front();
  return emit("aten.cat", std::move(parts), {{"dim", dim}});
}

Result<ValueId> GraphBuilder::pad(ValueId value, const Ints& pad, double fill) {
  if (std::ranges::all_of(pad, [](int64_t count) { return count == 0; })) return value;
  const Type of = type(value);
  if (is_float(of.dtype) || of.quantized())
    return emit("aten.constant_pad_nd", {value}, {{"pad", pad}, {"value", fill}});
  // Integers and booleans: cut, then joined with constants.
  if (pad.size() % 2 != 0 || pad.size() > 2 * of.rank())
    return unsupported(fmt::format("{} counts for {}", pad.size(), to_string(of.shape)));
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t at = of.rank() - 1 - i;
    const auto dim = static_cast<int64_t>(at);
    const int64_t before = pad[2 * i], behind = pad[2 * i + 1], extent = of.shape[at];
    if (extent + std::min<int64_t>(before, 0) + std::min<int64_t>(behind, 0) < 0)
      return unsupported("padding that cuts more than there is");
    DTR_ASSIGN(value, slice(value, dim, std::max<int64_t>(-before, 0),
                            extent - std::max<int64_t>(-behind, 0)));
    const auto filled = [&](int64_t count) -> Result<ValueId> {
      if (count <= 0) return ValueId{};
      Shape part = type(value).shape;
      part[at] = count;
      return constant(of.dtype, part, fill, "padding");
    };
    DTR_ASSIGN(const ValueId front, filled(before));
    DTR_ASSIGN(const ValueId back, filled(behind));
    DTR_ASSIGN(value, concatenate({front, value, back}, dim));
  }
  return value;
}

Result<ValueId> GraphBuilder::constant(DType dtype, const Shape& shape, double value,
                                       std::string_view name) {
  const auto count = checked_element_count(shape);
  if (!count || *count * static_cast<int64_t>(byte_size(dtype)) > kMaxCreatedBytes)
    return unsupported(fmt::format("it makes a constant of shape {}", to_string(shape)));
  return add_constant(dtype, shape, std::vector<double>(static_cast<size_t>(*count), value),
                      name_.empty() ? std::string(name) : fmt::format("{}_{}", name_, name));
}

Result<ValueId> GraphBuilder::constant(DType dtype, std::span<const double> values,
                                       const std::optional<Shape>& shape) {
  return add_constant(dtype, shape.value_or(Shape{static_cast<int64_t>(values.size())}), values,
                      name_);
}

// Integers are truncated; NaN among them is 0.
ValueId GraphBuilder::add_constant(DType dtype, const Shape& shape, std::span<const double> values,
                                   std::string_view name) {
  Tensor tensor(dtype, shape);
  const auto fill = [&]<class T>(T) {
    std::ranges::transform(values, tensor.values<T>().begin(), [](double value) {
      if constexpr (std::is_floating_point_v<T>) return static_cast<T>(value);
      return static_cast<T>(numerics::saturating_cast<int64_t>(value));
    });
  };
  switch (dtype) {
    case DType::kFloat32:
      fill(float{});
      break;
    case DType::kFloat64:
      fill(double{});
      break;
    case DType::kInt64:
      fill(int64_t{});
      break;
    case DType::kInt32:
      fill(int32_t{});
      break;
    case DType::kInt16:
      fill(int16_t{});
      break;
    case DType::kInt8:
      fill(int8_t{});
      break;
    case DType::kUint8:
      fill(uint8_t{});
      break;
    case DType::kBool:
      std::ranges::transform(values, tensor.values<uint8_t>().begin(),
                             [](double value) { return static_cast<uint8_t>(value != 0); });
      break;
  }
  return rewriter_.add_constant({.dtype = dtype, .shape = shape},
                                module_.constants.add(dtype, tensor.bytes()), name);
}

std::optional<Tensor> GraphBuilder::constant_value(ValueId value) const {
  if (!graph().is_constant(value)) return std::nullopt;
  const Type& of = type(value);
  return Tensor::copy_of(of.dtype, of.shape,
                         module_.constants.bytes(graph().value(value).constant));
}

std::optional<std::vector<double>> GraphBuilder::constant_elements(ValueId value) const {
  const std::optional<Tensor> known = constant_value(value);
  return known ? std::optional(elements_of(*known)) : std::nullopt;
}

tl::unexpected<Diagnostic> GraphBuilder::unsupported(std::string reason, std::string fix) const {
  return fail(DiagnosticId::kIrInvalid, std::move(reason), std::move(fix),
              place_of(module_, origin_));
}

}  // namespace dtr
