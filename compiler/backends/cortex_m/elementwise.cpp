// Elementwise operators: functions of one int8 tensor run as tables, functions of two have kernels.
#include "compiler/backends/cortex_m/rules.h"
#include "compiler/ops/binary.h"
#include "compiler/ops/ops.h"

namespace dtr::cortex_m {
namespace {

// The table of a function of one int8 value, by evaluating the operator on all codes.
KernelCall table(const CallContext& context) {
  const OpView& view = context.view;
  Type x = view.operand(0), y = view.result();
  x.shape = y.shape = {256};
  x.layout = y.layout = Layout::kContiguous;
  const Type* operands[] = {&x};
  const Type* results[] = {&y};
  std::vector<int8_t> codes, image(256);
  for (int code = -128; code <= 127; ++code) codes.push_back(static_cast<int8_t>(code));
  const auto as_view = [](std::vector<int8_t>& values, const Type& type) {
    return TensorView{.dtype = DType::kInt8,
                      .shape = type.shape,
                      .data = reinterpret_cast<std::byte*>(values.data())};
  };
  const TensorView from = as_view(codes, x), to = as_view(image, y);
  view.def->evaluate_integer(
      {.def = view.def, .operands = operands, .attributes = view.attributes, .results = results},
      {&from, 1}, {&to, 1});
  return {.name = "cortex_m::quantized_activation.out",
          .arguments = {context.operand(0), context.values(image, {256})}};
}

// Operands with their zero points, and with a multiplier each where the kernel rescales both.
void push_operands(const CallContext& context, KernelCall& call,
                   const numerics::BinaryParameters& by, const numerics::Requantization* a,
                   const numerics::Requantization* b) {
  call.arguments.push_back(context.operand(0));
  push(call, by.zero_point_a);
  if (a != nullptr) push(call, *a);
  call.arguments.push_back(context.operand(1));
  push(call, by.zero_point_b);
  if (b != nullptr) push(call, *b);
  push(call, by.output.zero_point);
}

KernelCall sum(const CallContext& context) {
  const numerics::BinaryParameters by = *ops::binary_parameters(context.view);
  KernelCall call{.name = by.kind == numerics::BinaryKind::kAdd ? "cortex_m::quantized_add.out"
                                                                : "deuteron::quantized_sub.out"};
  push_operands(context, call, by, &by.a, &by.b);
  push(call, by.output.by);
  push(call, by.output.range);
  return call;
}

KernelCall product(const CallContext& context) {
  const numerics::BinaryParameters by = *ops::binary_parameters(context.view);
  const bool full = by.output.range == numerics::Range{};
  KernelCall call{.name = full ? "cortex_m::quantized_mul.out" : "deuteron::quantized_mul.out"};
  push_operands(context, call, by, nullptr, nullptr);
  push(call, by.output.by);
  if (!full) push(call, by.output.range);
  return call;
}

KernelCall min_max(const CallContext& context) {
  const numerics::BinaryParameters by = *ops::binary_parameters(context.view);
  const Quantization& out = *context.view.result().quantization;
  const bool maximum = by.kind == numerics::BinaryKind::kMaximum;
  if (by.output.range == numerics::Range{} && context.view.operand(0).quantization == out &&
      context.view.operand(1).quantization == out)
    return {.name = maximum ? "cortex_m::maximum.out" : "cortex_m::minimum.out",
            .arguments = {context.operand(0), context.operand(1)}};
  KernelCall call{.name = maximum ? "deuteron::quantized_maximum.out"
                                  : "deuteron::quantized_minimum.out"};
  push_operands(context, call, by, &by.a, &by.b);
  push(call, by.output.range);
  return call;
}

KernelCall prelu(const CallContext& context) {
  const numerics::BinaryParameters by = *ops::binary_parameters(context.view);
  KernelCall call{.name = "deuteron::quantized_prelu.out"};
  push_operands(context, call, by, &by.a, &by.output.by);
  push(call, by.output.range);
  return call;
}

KernelCall quotient(const CallContext& context) {
  KernelCall call{.name = "deuteron::quantized_div.out"};
  const auto quantization = [&](const Quantization& q) {
    call.arguments.emplace_back(static_cast<double>(q.scale()));
    push(call, q.zero_point());
  };
  for (size_t i = 0; i < 2; ++i) {
    call.arguments.push_back(context.operand(i));
    quantization(*context.view.operand(i).quantization);
  }
  const Quantization& out = *context.view.result().quantization;
  quantization(out);
  push(call, numerics::Range{out.qmin, out.qmax});
  return call;
}

constexpr KernelRule binary(const OpDef& op, KernelCall (*call)(const CallContext&), double dsp,
                            double mve) {
  return {.op = &op, .layouts = any_layout, .call = call, .work = elements(dsp, mve)};
}
constexpr KernelRule kElementwiseRules[] = {
    binary(ops::kAddTensor, sum, 62, 9),     binary(ops::kDivTensor, quotient, 48, 48),
    binary(ops::kMaximum, min_max, 9, 1.5),  binary(ops::kMinimum, min_max, 9, 1.5),
    binary(ops::kMulTensor, product, 30, 6), binary(ops::kPrelu, prelu, 57, 16),
    binary(ops::kSubTensor, sum, 62, 9),
};
constexpr KernelRule kByTable{
    .op = nullptr, .layouts = any_layout, .call = table, .work = elements(8, 1)};

}  // namespace

std::span<const KernelRule> elementwise_rules() { return kElementwiseRules; }

const KernelRule* function_rule(const OpDef& op) {
  return op.has_trait(kElementwise) && op.schema.max_operands() == 1 &&
                 op.evaluate_integer != nullptr
             ? &kByTable
             : nullptr;
}

}  // namespace dtr::cortex_m
