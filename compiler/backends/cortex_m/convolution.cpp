// aten.convolution and aten.linear: weights in the order of the kernels, and a multiplier, shift
// and bias for each output channel.
#include "compiler/ops/convolution.h"

#include "compiler/backends/cortex_m/rules.h"
#include "compiler/ops/integer.h"
#include "device/numerics/cortex_m_scratch.h"

namespace dtr::cortex_m {
namespace {

// Multipliers and shifts of the output channels.
struct Stages {
  std::vector<int32_t> multipliers, shifts;
  numerics::Range range;
  int32_t zero_point = 0;

  Stages(const OpView& view, int64_t channels) {
    for (const numerics::OutputStage& stage : ops::output_stages(view, channels)) {
      multipliers.push_back(stage.by.multiplier);
      shifts.push_back(stage.by.shift);
      range = stage.range;
      zero_point = stage.zero_point;
    }
  }
};

// Elements between neighbours in the operator's weights.
struct WeightStrides {
  int64_t out, in, row;
};

WeightStrides strides_of(const ops::ConvolutionShape& shape) {
  const int64_t taps = shape.taps();
  return shape.transposed ? WeightStrides{taps, shape.out * taps, shape.window.w.kernel}
                          : WeightStrides{shape.in * taps, taps, shape.window.w.kernel};
}

// The weights as [O, kH, kW, I]; of a depthwise convolution, whose I is 1, as [1, kH, kW, O].
KernelArgument arranged(const CallContext& context, const ops::ConvolutionShape& shape,
                        bool depthwise) {
  const std::span<const int8_t> from =
      context.module.constants.values<int8_t>(context.graph.value(context.op.operands[1]).constant);
  const WeightStrides step = strides_of(shape);
  const int64_t rows = shape.window.h.kernel, columns = shape.window.w.kernel,
                outputs = shape.groups * shape.out;
  const auto at = [&](int64_t o, int64_t y, int64_t x, int64_t i) {
    // Of a transposed convolution, the weights' first dimension are the input channels of all
    // groups.
    const int64_t start = shape.transposed
                              ? o / shape.out * shape.in * step.in + o % shape.out * step.out
                              : o * step.out;
    return from[static_cast<size_t>(start + y * step.row + x + i * step.in)];
  };
  std::vector<int8_t> to;
  to.reserve(from.size());
  if (depthwise) {
    for (int64_t y = 0; y < rows; ++y)
      for (int64_t x = 0; x < columns; ++x)
        for (int64_t o = 0; o < outputs; ++o) to.push_back(at(o, y, x, 0));
    return context.values(to, {1, rows, columns, outputs});
  }
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t y = 0; y < rows; ++y)
      for (int64_t x = 0; x < columns; ++x)
        for (int64_t i = 0; i < shape.in; ++i) to.push_back(at(o, y, x, i));
  return context.values(to, {outputs, rows, columns, shape.in});
}

// Every tap of every output reads an input.
bool is_unpadded(const ops::WindowAxis& axis) {
  return axis.pad == 0 &&
         (axis.out - 1) * axis.stride + (axis.kernel - 1) * axis.dilation < axis.in;
}

// The input's offset, or 0 and biases that hold what it adds, where all weights of an output meet
// an input. Sums wrap as the kernels' do.
struct Folded {
  KernelArgument bias;
  int32_t offset = 0;
};
Folded fold_offset(const CallContext& context, int64_t outputs, bool whole) {
  Folded folded{context.operand(2), -context.view.operand(0).quantization->zero_point()};
  if (folded.offset == 0 || !whole) return folded;
  const auto constant = [&](size_t index) {
    return context.graph.value(context.op.operands[index]).constant;
  };
  const std::span<const int8_t> weights = context.module.constants.values<int8_t>(constant(1));
  std::vector<int32_t> biases(static_cast<size_t>(outputs));
  if (context.view.has(2))
    std::ranges::copy(context.module.constants.values<int32_t>(constant(2)), biases.begin());
  const size_t depth = weights.size() / biases.size();
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto product = static_cast<uint32_t>(weights[i] * folded.offset);
    biases[i / depth] = static_cast<int32_t>(static_cast<uint32_t>(biases[i / depth]) + product);
  }
  return {context.values(biases), 0};
}

bool is_depthwise(const ops::ConvolutionShape& shape) {
  return !shape.transposed && shape.in == 1 && shape.groups > 1;
}

int64_t scratch_bytes(Core core, const ops::ConvolutionShape& shape, bool depthwise,
                      bool has_offset) {
  const auto& [h, w] = shape.window;
  if (depthwise) return depthwise_scratch_bytes(core, shape.taps(), shape.groups, shape.out);
  const auto is_point = [](const ops::WindowAxis& axis) {
    return axis.kernel == 1 && is_unpadded(axis);
  };
  return convolution_scratch_bytes(core, {.depth = shape.in * shape.taps(),
                                          .group_channels = shape.in,
                                          .output_channels = shape.groups * shape.out,
                                          .output_pixels = h.out * w.out,
                                          .point = is_point(h) && is_point(w),
                                          .has_offset = has_offset});
}

KernelCall convolution(const CallContext& context) {
  const OpView& view = context.view;
  const ops::ConvolutionShape shape = ops::convolution_shape(view);
  const auto& [h, w] = shape.window;
  const int64_t outputs = shape.groups * shape.out;
  const bool depthwise = is_depthwise(shape);
  const Stages stages(view, outputs);
  const Folded folded =
      fold_offset(context, outputs, !shape.transposed && is_unpadded(h) && is_unpadded(w));
  KernelCall call{.name = shape.transposed ? "cortex_m::quantized_transpose_conv2d.out"
                          : depthwise      ? "cortex_m::quantized_depthwise_conv2d.out"
                                           : "cortex_m::quantized_conv2d.out"};
  call.arguments = {context.operand(0), arranged(context, shape, depthwise), folded.bias,
                    Ints{h.stride, w.stride}, Ints{h.pad, w.pad}};
  if (shape.transposed) {
    const Ints& extra = view.attribute<Ints>("output_padding");
    call.arguments.emplace_back(extra.size() == 1 ? Ints{0, extra[0]} : extra);
  }
  call.arguments.emplace_back(Ints{h.dilation, w.dilation});
  if (depthwise) call.arguments.emplace_back(shape.out);
  push(call, folded.offset);
  push(call, stages.zero_point);
  call.arguments.push_back(context.values(stages.multipliers));
  call.arguments.push_back(context.values(stages.shifts));
  push(call, stages.range);
  if (shape.transposed) {
    call.arguments.emplace_back(ScratchArgument{transposed_scratch_bytes(outputs)});
    call.arguments.emplace_back(ScratchArgument{0});
  } else {
    call.arguments.emplace_back(
        ScratchArgument{scratch_bytes(context.core, shape, depthwise, folded.offset != 0)});
  }
  return call;
}

// Where one multiplier serves all outputs the kernel is upstream's; an entry of its lists takes ten
// times the space of a tensor's.
KernelCall linear(const CallContext& context) {
  const OpView& view = context.view;
  const int64_t outputs = view.operand(1).shape[0];
  const bool one_rounding = view.attribute_or("one_rounding", false);
  const Stages stages(view, outputs);
  const Folded folded = fold_offset(context, outputs, true);
  if (!view.operand(1).quantization->per_channel() && !one_rounding) {
    KernelCall call{
        .name = "cortex_m::quantized_linear.out",
        .arguments = {context.operand(0), context.operand(1), folded.bias, std::monostate{}}};
    push(call, folded.offset);
    push(call, 0);
    push(call, stages.zero_point);
    call.arguments.emplace_back(Ints{stages.multipliers[0]});
    call.arguments.emplace_back(Ints{stages.shifts[0]});
    push(call, stages.range.high);
    push(call, stages.range.low);
    return call;
  }
  KernelCall call{.name = "deuteron::quantized_linear.out",
                  .arguments = {context.operand(0), context.operand(1), folded.bias}};
  push(call, folded.offset);
  push(call, stages.zero_point);
  call.arguments.push_back(context.values(stages.multipliers));
  call.arguments.push_back(context.values(stages.shifts));
  call.arguments.emplace_back(one_rounding);
  push(call, stages.range);
  return call;
}

// Transposed ones scatter one product after the other; depthwise ones share no input between sums.
WorkByCore convolution_work(const OpView& view) {
  const ops::ConvolutionShape shape = ops::convolution_shape(view);
  if (shape.transposed) return {{{30, 3.2}, {30, 2.4}}};
  if (is_depthwise(shape)) return {{{25, 5.2}, {8, 1.5}}};
  return {{{45, 1.3}, {11, 0.2}}};
}

constexpr KernelRule kConvolutionRules[] = {
    {.op = &ops::kConvolution,
     .layouts = channels_last,
     .call = convolution,
     .conditions = kConstantWeightsAlone,
     .work_of = convolution_work},
    {.op = &ops::kLinear,
     .layouts = contiguous,
     .call = linear,
     .conditions = kConstantWeightsAlone,
     .work = {{{50, 1.75}, {37, 0.16}}}},
};

}  // namespace

std::span<const KernelRule> convolution_rules() { return kConvolutionRules; }

}  // namespace dtr::cortex_m
