// aten.convolution and aten.linear: CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV, FULLY_CONNECTED,
// each with a bias.
#include "compiler/ops/convolution.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/backends/neutron_ir/forms.h"
#include "compiler/ops/ops.h"

namespace dtr::neutron_ir {
namespace {

// Elements of (O, I, H, W), or of the transposed (I, O, H, W) of one group, as (O, H, W, I) or,
// depthwise, (1, H, W, O).
std::vector<int8_t> arranged(std::span<const int8_t> from, const ops::ConvolutionShape& shape,
                             bool depthwise) {
  const int64_t taps = shape.taps(), outputs = shape.groups * shape.out;
  std::vector<int8_t> to;
  to.reserve(from.size());
  const auto push = [&](int64_t at) { to.push_back(from[static_cast<size_t>(at)]); };
  if (depthwise) {
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t o = 0; o < outputs; ++o) push(o * taps + tap);
    return to;
  }
  const int64_t step_out = shape.transposed ? taps : shape.in * taps,
                step_in = shape.transposed ? shape.out * taps : taps;
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t i = 0; i < shape.in; ++i) push(o * step_out + i * step_in + tap);
  return to;
}

// The operator's own, or one of zeros: converters expect it.
TensorIndex bias(Emitter& emitter, int64_t channels) {
  if (emitter.view().has(2)) return emitter.operand(2).index;
  const std::vector<int32_t> zeros(static_cast<size_t>(channels));
  return emitter.int32_constant(zeros, bias_quantization(*emitter.type(0).quantization,
                                                         *emitter.type(1).quantization, channels));
}

void transposed(Emitter& emitter, const ops::ConvolutionShape& shape, TensorIndex weight) {
  const auto& [h, w] = shape.window;
  const Image x = image_of(emitter, 0, false);
  const Activation activation = activation_of(emitter.view(), false);
  // The format knows no padding but half of it on each side: the whole result is computed, its
  // borders cut.
  const auto extent = [](const ops::WindowAxis& axis) {
    return std::max((axis.out - 1) * axis.stride + axis.kernel, axis.pad + axis.in);
  };
  const Shape whole{x.shape[0], extent(h), extent(w), shape.out},
      image{x.shape[0], h.in, w.in, shape.out};
  const TensorIndex result = image_result(emitter, image);
  const TensorIndex y = before_activation(emitter, activation, result, image);
  const bool cut = whole != image;
  const TensorIndex computed =
      cut ? emitter.temporary(whole, emitter.result_type().quantization) : y;
  const auto table = fb::CreateTransposeConvOptions(emitter.tables(), fb::Padding::VALID,
                                                    static_cast<int32_t>(w.stride),
                                                    static_cast<int32_t>(h.stride));
  emitter.add(BuiltinOperator::TRANSPOSE_CONV, 3,
              {emitter.integers(whole), weight, x.tensor, bias(emitter, shape.out)}, computed,
              Emitter::options(OptionsType::TransposeConvOptions, table));
  if (cut)
    emitter.add(BuiltinOperator::SLICE, 2,
                {computed, emitter.integers({0, h.pad, w.pad, 0}), emitter.integers(image)}, y);
  add_activation(emitter, activation, y, result);
  finish_image(emitter, result, false);
}

void convolution(Emitter& emitter) {
  const ops::ConvolutionShape shape = ops::convolution_shape(emitter.view());
  const auto& [h, w] = shape.window;
  const int64_t outputs = shape.groups * shape.out;
  const bool depthwise = !shape.transposed && shape.in == 1 && shape.groups > 1;
  const std::vector<int8_t> values = arranged(emitter.constant_values<int8_t>(1), shape, depthwise);
  const Shape weight_shape = depthwise ? Shape{1, h.kernel, w.kernel, outputs}
                                       : Shape{outputs, h.kernel, w.kernel, shape.in};
  const TensorIndex weight =
      emitter.int8_constant(values, weight_shape, *emitter.type(1).quantization, depthwise ? 3 : 0);
  if (shape.transposed) return transposed(emitter, shape, weight);

  const Image x = image_of(emitter, 0, false);
  const Quantization& quantization = *emitter.type(0).quantization;
  const Padding padding = padding_of(shape.window);
  const TensorIndex input = padded(emitter, x.tensor, x.shape, padding,
                                   static_cast<int8_t>(quantization.zero_point()), quantization);
  const Activation activation = activation_of(emitter.view());
  const Shape image{x.shape[0], h.out, w.out, outputs};
  const TensorIndex result = image_result(emitter, image);
  const TensorIndex y = before_activation(emitter, activation, result, image);
  const auto stride_w = static_cast<int32_t>(w.stride), stride_h = static_cast<int32_t>(h.stride);
  const auto dilation_w = static_cast<int32_t>(w.dilation),
             dilation_h = static_cast<int32_t>(h.dilation);
  const std::vector<TensorIndex> operands{input, weight, bias(emitter, outputs)};
  if (depthwise) {
    const auto table = fb::CreateDepthwiseConv2DOptions(emitter.tables(), padding.kind, stride_w,
                                                        stride_h, static_cast<int32_t>(shape.out),
                                                        activation.fused, dilation_w, dilation_h);
    emitter.add(BuiltinOperator::DEPTHWISE_CONV_2D, 3, operands, y,
                Emitter::options(OptionsType::DepthwiseConv2DOptions, table));
  } else {
    const auto table = fb::CreateConv2DOptions(emitter.tables(), padding.kind, stride_w, stride_h,
                                               activation.fused, dilation_w, dilation_h);
    emitter.add(BuiltinOperator::CONV_2D, 3, operands, y,
                Emitter::options(OptionsType::Conv2DOptions, table));
  }
  add_activation(emitter, activation, y, result);
  finish_image(emitter, result, false);
}

// Holds for every convolution that is not transposed.
constexpr Condition kOneGroup{kNoForm, "TRANSPOSE_CONV has no groups", kOtherForm,
                              [](const OpQuery& query) -> std::optional<std::string> {
                                const ops::ConvolutionShape shape =
                                    ops::convolution_shape(query.view);
                                if (!shape.transposed || shape.groups == 1) return std::nullopt;
                                return fmt::format("this one has {}", shape.groups);
                              }};
constexpr Condition kDense{kNoForm, "TRANSPOSE_CONV has no dilation", kOtherForm,
                           [](const OpQuery& query) -> std::optional<std::string> {
                             const ops::ConvolutionShape shape = ops::convolution_shape(query.view);
                             const auto& [h, w] = shape.window;
                             if (!shape.transposed || h.dilation * w.dilation == 1)
                               return std::nullopt;
                             return fmt::format("this one has {}x{}", h.dilation, w.dilation);
                           }};
constexpr const Condition* kConvolutionConditions[] = {&kOneGroup, &kDense};

void linear(Emitter& emitter) {
  const size_t rank = emitter.type(0).rank();
  const Activation activation = activation_of(emitter.view());
  const TensorIndex result = emitter.result(contiguous_order(rank));
  const TensorIndex y = before_activation(emitter, activation, result, emitter.result_type().shape);
  const auto table =
      fb::CreateFullyConnectedOptions(emitter.tables(), activation.fused,
                                      fb::FullyConnectedOptionsWeightsFormat::DEFAULT, rank != 2);
  emitter.add(BuiltinOperator::FULLY_CONNECTED, rank == 2 ? 4 : 5,
              {emitter.operand(0, contiguous_order(rank)), emitter.operand(1).index,
               bias(emitter, emitter.type(1).shape[0])},
              y, Emitter::options(OptionsType::FullyConnectedOptions, table));
  add_activation(emitter, activation, y, result);
}

// Matrices in the last two dimensions; TFLite broadcasts the dimensions before them.
void matmul(Emitter& emitter) {
  const auto table = fb::CreateBatchMatMulOptions(emitter.tables());
  const TensorIndex a = emitter.operand(0, contiguous_order(emitter.type(0).rank()));
  const TensorIndex b = emitter.operand(1, contiguous_order(emitter.type(1).rank()));
  emitter.add(BuiltinOperator::BATCH_MATMUL, 4, {a, b},
              emitter.result(contiguous_order(emitter.result_type().rank())),
              Emitter::options(OptionsType::BatchMatMulOptions, table));
}

constexpr Form kConvolutionForms[] = {
    {&ops::kConvolution, channels_last, convolution, kConvolutionConditions},
    {&ops::kLinear, contiguous, linear},
    {&ops::kMatmul, contiguous, matmul}};

}  // namespace

std::span<const Form> convolution_forms() { return kConvolutionForms; }

}  // namespace dtr::neutron_ir
