// Products of two computed matrices, normalization, resizing, and conversions between float and
// int8.
#include <fmt/format.h>

#include "compiler/backends/cortex_m/rules.h"
#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"
#include "compiler/ops/normalize.h"
#include "compiler/ops/resize.h"
#include "device/numerics/cortex_m_scratch.h"

namespace dtr::cortex_m {
namespace {

// A constant right operand is transposed here, one that is computed when the kernel runs.
KernelCall matmul(const CallContext& context) {
  const OpView& view = context.view;
  const Type& right = view.operand(1);
  const int64_t inner = right.shape[right.rank() - 2], columns = right.shape.back();
  const numerics::OutputStage stage = ops::matmul_output_stage(view);
  const bool constant = context.graph.is_constant(context.op.operands[1]);
  KernelCall call{
      .name = constant ? "cortex_m::quantized_batch_matmul.out" : "deuteron::quantized_matmul.out",
      .arguments = {context.operand(0)}};
  push(call, view.operand(0).quantization->zero_point());
  if (constant) {
    const auto from = context.module.constants.values<int8_t>(
        context.graph.value(context.op.operands[1]).constant);
    std::vector<int8_t> transposed(from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t matrix = inner * columns, row = at % matrix / columns, column = at % columns;
      transposed[static_cast<size_t>(at / matrix * matrix + column * inner + row)] = from[i];
    }
    Shape shape = right.shape;
    std::swap(shape[shape.size() - 2], shape[shape.size() - 1]);
    call.arguments.push_back(context.values(transposed, std::move(shape)));
  } else {
    call.arguments.push_back(context.operand(1));
  }
  push(call, right.quantization->zero_point());
  push(call, stage.zero_point);
  push(call, stage.by);
  call.arguments.emplace_back(ScratchArgument{matmul_scratch_bytes(
      context.core, inner, columns, constant, view.operand(0).quantization->zero_point() != 0)});
  return call;
}

constexpr Condition kFullRange{
    "cortex-m-range", "the Cortex-M's product of matrices has results from -128 to 127",
    "quantize its result to the full range of int8",
    [](const OpQuery& query) -> std::optional<std::string> {
      const numerics::Range range = ops::range_of(*query.view.result().quantization);
      if (range == numerics::Range{}) return std::nullopt;
      return fmt::format("these are from {} to {}", range.low, range.high);
    }};
constexpr const Condition* kMatmulConditions[] = {&kFullRange};

std::vector<double> parameters(const CallContext& context, size_t index) {
  if (!context.view.has(index)) return {};
  const auto values = context.module.constants.values<float>(
      context.graph.value(context.op.operands[index]).constant);
  return {values.begin(), values.end()};
}

KernelCall normalize(const CallContext& context) {
  const OpView& view = context.view;
  const ops::NormalizeShape shape = ops::normalize_shape(view);
  const ops::QuantizedNormalize quantized =
      ops::quantized_normalize(view, parameters(context, 1), parameters(context, 2));
  std::vector<int32_t> gains, offsets;
  for (const numerics::NormalizeParameter& parameter : quantized.parameters) {
    gains.push_back(parameter.gain);
    offsets.push_back(parameter.offset);
  }
  const Quantization& out = *view.result().quantization;
  KernelCall call{
      .name = "deuteron::quantized_normalize.out",
      .arguments = {context.operand(0), Ints{shape.a, shape.b, shape.c, shape.d, shape.step_b},
                    quantized.row.center}};
  push(call, quantized.row.zero_point);
  call.arguments.emplace_back(static_cast<int64_t>(quantized.row.epsilon));
  call.arguments.push_back(context.values(gains));
  call.arguments.push_back(context.values(offsets));
  push(call, quantized.gain_shift);
  push(call, out.zero_point());
  push(call, ops::range_of(out));
  return call;
}

// ---- resizing

constexpr Condition kEqualSteps{
    "cortex-m-resize", "the Cortex-M's resize reads inputs at equal steps",
    "resize to a multiple of the extent", [](const OpQuery& query) -> std::optional<std::string> {
      if (ops::nearest_axis(ops::resize_rule(query.view, 0)) &&
          ops::nearest_axis(ops::resize_rule(query.view, 1)))
        return std::nullopt;
      return "these extents have none in 30 bits";
    }};
constexpr const Condition* kNearestConditions[] = {&kEqualSteps};

KernelCall resize(const CallContext& context) {
  const OpView& view = context.view;
  const bool nearest = view.def == &ops::kUpsampleNearest2d;
  const bool as_tflite = view.attributes->find("fraction_bits") != nullptr;
  KernelCall call{.name = nearest ? "deuteron::quantized_upsample_nearest2d.out"
                                  : "deuteron::quantized_upsample_bilinear2d.out",
                  .arguments = {context.operand(0)}};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const ops::ResizeRule rule = ops::resize_rule(view, i);
    const numerics::ResizeAxis axis =
        nearest ? *ops::nearest_axis(rule) : ops::bilinear_axis(rule, as_tflite);
    call.arguments.emplace_back(Ints{axis.step, axis.start, axis.fraction_bits});
  }
  return call;
}

// ---- float and int8

constexpr Condition kConvertsInt8{
    "cortex-m-int8",
    "the Cortex-M converts between float32 and int8 with one scale and zero point a tensor",
    "quantize to int8 per tensor", [](const OpQuery& query) -> std::optional<std::string> {
      const bool quantizes = query.view.def == &ops::kQuantize;
      const Type& integer = quantizes ? query.view.result() : query.view.operand(0);
      const Type& real = quantizes ? query.view.operand(0) : query.view.result();
      if (integer.dtype == DType::kInt8 && ops::per_tensor(integer) &&
          real.dtype == DType::kFloat32)
        return std::nullopt;
      return fmt::format("this is between {} and {}{}", name(real.dtype), name(integer.dtype),
                         ops::per_tensor(integer) ? "" : " with several scales");
    }};
constexpr const Condition* kConversionConditions[] = {&kConvertsInt8};

KernelCall convert(const CallContext& context) {
  const bool quantizes = context.view.def == &ops::kQuantize;
  const Type& integer = quantizes ? context.view.result() : context.view.operand(0);
  const Quantization& q = *integer.quantization;
  return {.name = quantizes ? "cortex_m::quantize_per_tensor.out"
                            : "cortex_m::dequantize_per_tensor.out",
          .arguments = {context.operand(0), static_cast<double>(q.scale()), int64_t{q.zero_point()},
                        int64_t{q.qmin}, int64_t{q.qmax}, integer.dtype}};
}

constexpr KernelRule conversion(const OpDef& op, double cycles) {
  return {.op = &op,
          .layouts = any_to_any,
          .call = convert,
          .conditions = kConversionConditions,
          .any_dtype = true,
          .work = elements(cycles)};
}
constexpr KernelRule normalization(const OpDef& op) {
  return {.op = &op,
          .layouts = contiguous,
          .call = normalize,
          .conditions = kConstantWeightsAlone,
          .work = elements(120)};
}

constexpr KernelRule kProductRules[] = {
    conversion(ops::kDequantize, 10),
    normalization(ops::kGroupNorm),
    normalization(ops::kLayerNorm),
    {.op = &ops::kMatmul,
     .layouts = contiguous,
     .call = matmul,
     .conditions = kMatmulConditions,
     .work = {{{45, 1.8}, {15, 0.28}}}},
    conversion(ops::kQuantize, 22),
    normalization(ops::kRmsNorm),
    {.op = &ops::kUpsampleBilinear2d,
     .layouts = channels_last,
     .call = resize,
     .work = elements(35)},
    {.op = &ops::kUpsampleNearest2d,
     .layouts = channels_last,
     .call = resize,
     .conditions = kNearestConditions,
     .work = elements(3)},
};

}  // namespace

std::span<const KernelRule> product_rules() { return kProductRules; }

}  // namespace dtr::cortex_m
