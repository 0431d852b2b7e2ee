// Turns a batch_norm that could not be folded into a layer into a depthwise convolution with a 1×1
// kernel. It computes the same, one product and one sum per channel, and the backends and the
// quantizer support it. Runs behind fold_batch_norm.
//
// Views give tensors of other ranks the form (batch, channels, rest). The norm stays if a parameter
// is not constant or if the tensor is empty.
//
// A quantized model needs the norm between a dequantize and a quantize; the weights are int8 then,
// with a code of ±127 per channel, so that fold_quantization makes it one quantized op. Ops that
// move or clamp elements may be before the quantize. Elsewhere the norm stays float.
#include <algorithm>
#include <cmath>

#include "compiler/transforms/channel_affine.h"
#include "compiler/transforms/edit.h"
#include "device/numerics/requantize.h"

namespace dtr::passes {
namespace {

class ConvolveBatchNorm : public GraphPass {
 public:
  using GraphPass::GraphPass;

  Result<size_t> run() {
    for (const OpId id : graph_.ops())
      quantized_ = quantized_ || graph_.op(id).def == &ops::kQuantize;
    DTR_TRY(for_each_op(graph_, [&](OpId id) -> Result<void> {
      if (graph_.op(id).def == &ops::kBatchNorm) return convolve(id);
      return {};
    }));
    return changes_;
  }

 private:
  Result<void> convolve(OpId norm) {
    const Op op = graph_.op(norm);
    const Type type = graph_.type(op.results[0]);
    const auto affine = batch_norm_affine(module_, graph_, op);
    if (!affine) remarks_.add(norm, affine.error());
    if (!affine || type.elements() == 0 || (quantized_ && !between(norm))) return {};
    const int64_t channels = type.shape[1];
    ValueId x = op.operands[0];
    const bool viewed = type.rank() != 3 && type.rank() != 4;
    if (viewed) {
      DTR_ASSIGN(x, view(norm, x,
                         {type.shape[0], channels, type.elements() / (type.shape[0] * channels)}));
    }
    const size_t spatial = graph_.type(x).rank() - 2;
    Shape weight_shape(spatial + 2, 1);
    weight_shape[0] = channels;
    const std::string& name = graph_.value(op.results[0]).name;
    ValueId weight;
    if (quantized_) {
      DTR_ASSIGN(weight, quantized_weight(norm, weight_shape, affine->scale, name + ".scale"));
      if (!weight.valid()) return {};
    } else {
      weight = add_float_constant(module_, rewriter_, type.dtype, weight_shape, affine->scale,
                                  name + ".scale");
    }
    const ValueId bias = add_float_constant(module_, rewriter_, type.dtype, {channels},
                                            affine->offset, name + ".offset");
    const auto all = [&](int64_t value) { return Ints(spatial, value); };
    DTR_ASSIGN(ValueId y, rewriter_.insert_value(norm, {.def = &ops::kConvolution,
                                                        .operands = {x, weight, bias},
                                                        .attributes = {{"stride", all(1)},
                                                                       {"padding", all(0)},
                                                                       {"dilation", all(1)},
                                                                       {"output_padding", all(0)},
                                                                       {"transposed", false},
                                                                       {"groups", channels}},
                                                        .origin = op.origin}));
    if (viewed) {
      DTR_ASSIGN(y, view(norm, y, type.shape));
    }
    rewriter_.replace(norm, y);
    ++changes_;
    return {};
  }

  bool between(OpId norm) const {
    if (!graph_.producer_if(graph_.op(norm).operands[0], ops::kDequantize).valid()) return false;
    for (OpId user = graph_.sole_user(graph_.op(norm).results[0]); user.valid();
         user = graph_.sole_user(graph_.op(user).results[0])) {
      const Op& op = graph_.op(user);
      if (op.def == &ops::kQuantize) return true;
      if (op.operands.size() != 1 || op.results.size() != 1 ||
          !(op.def->has_trait(kMovesData) || clamp_bounds(op)))
        return false;
    }
    return false;
  }

  // One number a channel is its code times a step; no step is so small that the bias of its channel
  // would not fit into 32 bits.
  Result<ValueId> quantized_weight(OpId before, const Shape& shape,
                                   const std::vector<double>& scales, const std::string& name) {
    constexpr int32_t kCodes = 127;
    constexpr double kLeast = 0x1p-12;  // of the greatest step
    double greatest = 0;
    for (const double scale : scales) greatest = std::max(greatest, std::abs(scale) / kCodes);
    if (!std::isnormal(static_cast<float>(greatest * kLeast))) return ValueId{};
    Quantization quantization{.scales = {},
                              .zero_points = std::vector<int32_t>(scales.size()),
                              .axis = 0,
                              .qmin = -kCodes,
                              .qmax = kCodes};
    std::vector<int8_t> codes;
    for (const double scale : scales) {
      quantization.scales.push_back(
          static_cast<float>(std::max(std::abs(scale) / kCodes, greatest * kLeast)));
      const auto step = static_cast<double>(quantization.scales.back());
      codes.push_back(
          static_cast<int8_t>(numerics::nearest_code(scale, step, 0, {-kCodes, kCodes})));
    }
    const ConstantId id = module_.constants.add_values<int8_t>(DType::kInt8, codes);
    const ValueId weight = rewriter_.add_constant(
        {.dtype = DType::kInt8, .shape = shape, .quantization = std::move(quantization)}, id, name);
    return rewriter_.insert_value(
        before,
        {.def = &ops::kDequantize, .operands = {weight}, .origin = graph_.op(before).origin});
  }

  Result<ValueId> view(OpId before, ValueId x, const Shape& shape) {
    return rewriter_.insert_value(before, {.def = &ops::kView,
                                           .operands = {x},
                                           .attributes = {{"size", shape}},
                                           .origin = graph_.op(before).origin});
  }

  bool quantized_ = false;
};

}  // namespace

constinit const PassDef kConvolveBatchNorm{
    .name = "convolve_batch_norm",
    .summary = "turn a batch_norm that no layer absorbs into a depthwise convolution",
    .exactness = Exactness::kFloatRounding,
    .keeps_sources = true,
    .run = run_pass<ConvolveBatchNorm>};

}  // namespace dtr::passes
