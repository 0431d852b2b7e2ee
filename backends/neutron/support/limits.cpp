#include "backends/neutron/support/limits.h"

#include <fmt/format.h>

#include "abi/npu/microcode.h"

namespace dtr::neutron {
namespace {

bool is_npu_type(const Type& type) { return type.dtype == DType::kInt8 && type.quantized() && !type.quantization->per_channel(); }

std::string describe(const Type& type) {
  if (!type.quantized()) return std::string(name(type.dtype));
  return fmt::format("{} quantized {}", name(type.dtype), type.quantization->per_channel() ? "per channel" : "per tensor");
}

}  // namespace

MaybeRefusal refuse_element_type(const OpView& view, size_t index) {
  constexpr std::string_view kLimit = "the NPU computes int8 with one scale and zero point a tensor";
  const auto refusal = [&](std::string_view what, const Type& type) {
    return Refusal{"npu-element-type", fmt::format("{}; {} is {}", kLimit, what, describe(type)),
                   "quantize the model: compile it with calibration data"};
  };
  if (view.has(index) && !is_npu_type(view.operand(index))) return refusal(fmt::format("operand {}", index), view.operand(index));
  for (const Type* result : view.results)
    if (!is_npu_type(*result)) return refusal("the result", *result);
  return std::nullopt;
}

MaybeRefusal refuse_empty(const OpView& view) {
  const auto refusal = [](const Type& type) {
    return Refusal{"npu-empty-tensor", fmt::format("the NPU needs at least one element; a tensor has shape {}", to_string(type.shape)),
                   "remove the operator: it computes nothing"};
  };
  for (const Type* type : view.operands)
    if (type != nullptr && type->elements() == 0) return refusal(*type);
  for (const Type* type : view.results)
    if (type->elements() == 0) return refusal(*type);
  return std::nullopt;
}

MaybeRefusal refuse_rank(const OpView& view) {
  size_t rank = 0;
  for (const Type* type : view.operands)
    if (type != nullptr) rank = std::max(rank, type->rank());
  for (const Type* type : view.results) rank = std::max(rank, type->rank());
  if (rank <= npu::kMoveRank) return std::nullopt;
  return Refusal{"npu-rank", fmt::format("the NPU copies tensors of up to {} dimensions; this one has {}", npu::kMoveRank, rank),
                 "merge dimensions with a view before the operator"};
}

MaybeRefusal refuse_dynamic(const Graph& graph, OpId op, size_t index, std::string_view what) {
  const std::vector<ValueId>& operands = graph.op(op).operands;
  if (index >= operands.size() || !operands[index].valid() || graph.is_constant(operands[index])) return std::nullopt;
  return Refusal{"npu-dynamic-weight",
                 fmt::format("the NPU needs a constant {}; `{}` is computed while the model runs", what, graph.value(operands[index]).name),
                 "make it a parameter or a buffer of the module"};
}

MaybeRefusal refuse_transposed(const OpView& view) {
  if (!view.attribute<bool>("transposed")) return std::nullopt;
  return Refusal{"npu-transposed-convolution", "the NPU has no transposed convolution", "upsample by nearest neighbours, then convolve"};
}

MaybeRefusal refuse_one_rounding(const OpView& view) {
  if (!view.attribute_or("one_rounding", false)) return std::nullopt;
  return Refusal{"npu-one-rounding", "the NPU rounds accumulators twice; FULLY_CONNECTED of a .tflite file is rounded once",
                 "quantize the float model with Deuteron"};
}

MaybeRefusal refuse_groups(const ops::ConvolutionShape& shape) {
  if (shape.groups == 1 || shape.in == 1) return std::nullopt;
  return Refusal{
      "npu-convolution-groups",
      fmt::format("the NPU convolves in 1 group or with 1 input channel a group; this convolution has {} groups of {} input channels",
                  shape.groups, shape.in),
      "use 1 group, or as many groups as input channels"};
}

MaybeRefusal refuse_window(const npu::Target& target, const ops::Window& window) {
  const auto check = [&](std::string_view id, std::string_view what, int64_t height, int64_t width) -> MaybeRefusal {
    if (std::max(height, width) <= target.max_kernel) return std::nullopt;
    return Refusal{id, fmt::format("{} {}x{} exceeds {} per axis", what, height, width, target.max_kernel),
                   fmt::format("choose a {} of at most {}", what, target.max_kernel)};
  };
  return first_of([&] { return check("npu-kernel-size", "kernel", window.h.kernel, window.w.kernel); },
                  [&] { return check("npu-stride", "stride", window.h.stride, window.w.stride); },
                  [&] { return check("npu-dilation", "dilation", window.h.dilation, window.w.dilation); });
}

MaybeRefusal refuse_window_of_padding(const ops::Window& window) {
  for (const ops::WindowAxis* axis : {&window.h, &window.w})
    for (int64_t o = 0; o < axis->out; ++o)
      if (const ops::WindowAxis::Taps taps = axis->taps(o); taps.begin >= taps.end)
        return Refusal{"npu-window-of-padding",
                       fmt::format("window {} of the pool (kernel {}, dilation {}, padding {}) covers no element of an extent of {}", o,
                                   axis->kernel, axis->dilation, axis->pad, axis->in),
                       "choose less padding or no dilation"};
  return std::nullopt;
}

MaybeRefusal refuse_reduction(const npu::Target& target, int64_t height, int64_t width, int64_t channels) {
  const int64_t lanes = target.macs;
  const int64_t rounded = (channels + lanes - 1) / lanes * lanes;
  // The product may not fit 64 bits: compare by division.
  if (rounded <= target.max_reduction && height <= target.max_reduction / rounded && width <= target.max_reduction / rounded / height)
    return std::nullopt;
  return Refusal{"npu-reduction",
                 fmt::format("kernel {}x{} over {} channels (rounded up to {}) adds more than {} products", height, width, channels,
                             rounded, target.max_reduction),
                 "choose a smaller kernel or fewer input channels"};
}

MaybeRefusal refuse_memory(const npu::Target& target, const Graph& graph, OpId op, uint64_t staged) {
  const Op& of = graph.op(op);
  uint64_t activations = 0;
  for (const ValueId operand : of.operands)
    if (operand.valid() && !graph.is_constant(operand)) activations += static_cast<uint64_t>(graph.type(operand).bytes());
  for (const ValueId result : of.results) activations += static_cast<uint64_t>(graph.type(result).bytes());
  if (activations + staged <= target.sram_bytes) return std::nullopt;
  return Refusal{"npu-sram",
                 fmt::format("operands and results take {} bytes and constants {} bytes, together more than the {} bytes of SRAM",
                             activations, staged, target.sram_bytes),
                 "use smaller tensors: a lower resolution, fewer channels or a smaller batch"};
}

}  // namespace dtr::neutron
