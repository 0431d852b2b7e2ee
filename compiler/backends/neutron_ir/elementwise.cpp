// Converts elementwise operators of one or two tensors.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "compiler/backends/neutron_ir/forms.h"
#include "compiler/ops/integer.h"
#include "compiler/ops/ops.h"

namespace dtr::neutron_ir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- two tensors

template <BuiltinOperator kCode>
void binary(Emitter& emitter) {
  const Order order = emitter.result_order();
  const TensorIndex a = emitter.operand(0, order), b = emitter.operand(1, order);
  const Activation activation = activation_of(emitter.view());
  const TensorIndex result = emitter.result(order);
  const TensorIndex y =
      before_activation(emitter, activation, result, in_order(emitter.result_type().shape, order));
  Options options;
  if constexpr (kCode == BuiltinOperator::ADD)
    options = Emitter::options(OptionsType::AddOptions,
                               fb::CreateAddOptions(emitter.tables(), activation.fused));
  if constexpr (kCode == BuiltinOperator::SUB)
    options = Emitter::options(OptionsType::SubOptions,
                               fb::CreateSubOptions(emitter.tables(), activation.fused));
  if constexpr (kCode == BuiltinOperator::MUL)
    options = Emitter::options(OptionsType::MulOptions,
                               fb::CreateMulOptions(emitter.tables(), activation.fused));
  emitter.add(kCode, kCode == BuiltinOperator::PRELU ? 1 : 2, {a, b}, y, options);
  add_activation(emitter, activation, y, result);
}

constexpr Condition kNoAlpha{
    kNoForm, "ADD and SUB take operands as they are", kOtherForm,
    [](const OpQuery& query) -> std::optional<std::string> {
      const double alpha = query.view.attribute_or("alpha", 1.0);
      return alpha == 1.0 ? std::nullopt
                          : std::optional(fmt::format("this one has alpha {}", alpha));
    }};
constexpr const Condition* kSumConditions[] = {&kNoAlpha};

bool one_quantization(const OpView& view) {
  return std::ranges::all_of(view.operands, [&](const Type* operand) {
    return operand->quantization == view.result().quantization;
  });
}

constexpr Condition kOneQuantization{
    kNoForm, "MAXIMUM and MINIMUM compare values of one quantization", kOtherForm,
    [](const OpQuery& query) -> std::optional<std::string> {
      if (one_quantization(query.view)) return std::nullopt;
      return "these differ";
    }};
constexpr const Condition* kExtremeConditions[] = {&kOneQuantization};

// ---- one tensor

BuiltinOperator builtin_operator(std::string_view name) {
  const auto& codes = fb::EnumValuesBuiltinOperator();
  const auto* at = std::ranges::find(codes, name, [](BuiltinOperator code) {
    return std::string_view(fb::EnumNameBuiltinOperator(code));
  });
  DTR_CHECK(at != std::end(codes));
  return *at;
}

// The operator without options that the op's definition names.
void unary(Emitter& emitter) {
  const TfliteCode& code = emitter.view().def->tflite;
  const Tensor x = emitter.operand(0);
  emitter.add(builtin_operator(code.name), code.int8_version, {x.index}, emitter.result(x.order));
}

std::optional<std::string> other_scale(const OpQuery& query, double scale, int32_t zero_point) {
  const Quantization& q = *query.view.result().quantization;
  if (static_cast<double>(q.scale()) == scale && q.zero_point() == zero_point) return std::nullopt;
  return fmt::format("this one has {} and {}", q.scale(), q.zero_point());
}

constexpr Condition kSigmoidScale{
    kNoForm, "LOGISTIC gives results of scale 1/256 and zero point -128", kOtherForm,
    [](const OpQuery& query) { return other_scale(query, 1.0 / 256, -128); }};
constexpr const Condition* kSigmoidConditions[] = {&kSigmoidScale};
constexpr Condition kTanhScale{
    kNoForm, "TANH gives results of scale 1/128 and zero point 0", kOtherForm,
    [](const OpQuery& query) { return other_scale(query, 1.0 / 128, 0); }};
constexpr const Condition* kTanhConditions[] = {&kTanhScale};

void leaky_relu(Emitter& emitter) {
  const Tensor x = emitter.operand(0);
  const auto slope = static_cast<float>(emitter.view().attribute_or("negative_slope", 0.01));
  emitter.add(BuiltinOperator::LEAKY_RELU, 2, {x.index}, emitter.result(x.order),
              Emitter::options(OptionsType::LeakyReluOptions,
                               fb::CreateLeakyReluOptions(emitter.tables(), slope)));
}

void gelu(Emitter& emitter) {
  const Tensor x = emitter.operand(0);
  const bool approximate =
      emitter.view().attribute_or<std::string>("approximate", "none") == "tanh";
  emitter.add(BuiltinOperator::GELU, 2, {x.index}, emitter.result(x.order),
              Emitter::options(OptionsType::GeluOptions,
                               fb::CreateGeluOptions(emitter.tables(), approximate)));
}

// ---- limits

// The operator for a clamp of these bounds.
std::optional<BuiltinOperator> limiting_operator(const OpView& view) {
  const double low = view.attribute_or("min", -kInfinity),
               high = view.attribute_or("max", kInfinity);
  if (low == 0 && high == kInfinity) return BuiltinOperator::RELU;
  if (low == 0 && high == 6) return BuiltinOperator::RELU6;
  if (low == -1 && high == 1) return BuiltinOperator::RELU_N1_TO_1;
  if (low == 0 && high == 1) return BuiltinOperator::RELU_0_TO_1;
  return std::nullopt;
}

void clamp(Emitter& emitter) {
  const OpView& view = emitter.view();
  const Tensor x = emitter.operand(0);
  if (const auto code = limiting_operator(view))
    return emitter.add(*code, relu_version(*code), {x.index}, emitter.result(x.order));
  const Quantization& q = *view.result().quantization;
  const numerics::Range range = ops::activation_range(
      {view.attribute_or("min", -kInfinity), view.attribute_or("max", kInfinity)}, q);
  const Shape ones(x.order.size(), 1);
  const auto bound = [&](int32_t value) {
    const auto narrow = static_cast<int8_t>(value);
    return emitter.int8_constant({&narrow, 1}, ones, q);
  };
  const TensorIndex raised = emitter.temporary(in_order(view.result().shape, x.order), q);
  emitter.add(BuiltinOperator::MAXIMUM, 2, {x.index, bound(range.low)}, raised);
  emitter.add(BuiltinOperator::MINIMUM, 2, {raised, bound(range.high)}, emitter.result(x.order));
}

constexpr Condition kKeepsQuantization{
    kNoForm,
    "a clamp to other bounds than those of RELU, RELU6, RELU_N1_TO_1 and RELU_0_TO_1 keeps its "
    "operand's quantization",
    kOtherForm, [](const OpQuery& query) -> std::optional<std::string> {
      if (limiting_operator(query.view) || one_quantization(query.view)) return std::nullopt;
      return "this one changes it";
    }};
constexpr const Condition* kClampConditions[] = {&kKeepsQuantization};

// What needs more than the operator that its definition names.
constexpr Form kElementwiseForms[] = {
    {&ops::kAddTensor, any_layout, binary<BuiltinOperator::ADD>, kSumConditions},
    {&ops::kClamp, any_layout, clamp, kClampConditions},
    {&ops::kGelu, any_layout, gelu},
    {&ops::kLeakyRelu, any_layout, leaky_relu},
    {&ops::kMaximum, any_layout, binary<BuiltinOperator::MAXIMUM>, kExtremeConditions},
    {&ops::kMinimum, any_layout, binary<BuiltinOperator::MINIMUM>, kExtremeConditions},
    {&ops::kMulTensor, any_layout, binary<BuiltinOperator::MUL>},
    {&ops::kPrelu, any_layout, binary<BuiltinOperator::PRELU>},
    {&ops::kSigmoid, any_layout, unary, kSigmoidConditions},
    {&ops::kSubTensor, any_layout, binary<BuiltinOperator::SUB>, kSumConditions},
    {&ops::kTanh, any_layout, unary, kTanhConditions}};

}  // namespace

std::span<const Form> elementwise_forms() {
  static const std::vector<Form> forms = [] {
    std::vector<Form> made(std::begin(kElementwiseForms), std::end(kElementwiseForms));
    for (const OpDef* def : all_ops())
      if (!def->tflite.name.empty() && def->tflite.int8_version > 0 &&
          std::ranges::find(made, def, &Form::def) == made.end())
        made.push_back({def, any_layout, unary});
    return made;
  }();
  return forms;
}

}  // namespace dtr::neutron_ir
