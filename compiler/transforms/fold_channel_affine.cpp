// Folds what scales and shifts the channels of a convolution or linear with quantized weights into
// their scales and its bias: products, quotients, sums and differences with constants, and
// batch_norm. That is the simulated fusion of training: the weights are multiplied by γ / √(var +
// eps) before they are quantized, the result is divided by it, shifted by the bias and normalized
// after all; what is left of it is a factor of one and a bias.
//
// A factor of one, but for the rounding of float, leaves the codes and scales of the weights as
// they were trained. The layer has no fused activation, the values between have no other user, and
// the factors vary along the layer's output channels; permutes and views that keep that dimension
// whole may be between.
#include <fmt/format.h>

#include <cmath>

#include "compiler/transforms/channel_affine.h"
#include "compiler/transforms/edit.h"

namespace dtr::passes {
namespace {

constexpr double kOneUpToRounding = 0x1p-20;

class FoldChannelAffine : public GraphPass {
 public:
  using GraphPass::GraphPass;

  Result<size_t> run() {
    for (OpId id = graph_.first_op(); id.valid(); id = graph_.op(id).next) {
      const Op& op = graph_.op(id);
      if (is_layer(op) && takes_activation(op)) fold(id);
    }
    return changes_;
  }

 private:
  // Constant weights in codes around zero; invalid if they are not.
  ValueId codes_of(OpId layer) const {
    const OpId dequantize = graph_.producer_if(graph_.op(layer).operands[1], ops::kDequantize);
    if (!dequantize.valid()) return {};
    const ValueId codes = graph_.op(dequantize).operands[0];
    const Type& type = graph_.type(codes);
    if (!graph_.is_constant(codes) || type.dtype != DType::kInt8 || !type.quantized()) return {};
    const auto& zero_points = type.quantization->zero_points;
    return std::all_of(zero_points.begin(), zero_points.end(),
                       [](int32_t zero_point) { return zero_point == 0; })
               ? codes
               : ValueId{};
  }

  void fold(OpId layer) {
    const ValueId codes = codes_of(layer);
    if (!codes.valid()) return;
    const ValueId result = graph_.op(layer).results[0];
    ChannelAffine affine;
    affine.scale.assign(static_cast<size_t>(output_channels(graph_, layer)), 1.0);
    affine.offset.assign(affine.scale.size(), 0.0);
    size_t axis = channel_axis(graph_, graph_.op(layer), result);
    std::vector<OpId> chain;
    std::vector<ValueId> read;  // by each of them
    for (ValueId value = result;;) {
      const OpId next = graph_.sole_user(value);
      if (!next.valid() || graph_.op(next).results.size() != 1) break;
      if (const auto moved = axis_behind(graph_, graph_.op(next), axis)) {
        axis = *moved;
        value = graph_.op(next).results[0];
        continue;
      }
      if (graph_.type(graph_.op(next).results[0]) != graph_.type(value)) break;
      if (!append(graph_.op(next), value, axis, affine)) break;
      chain.push_back(next);
      read.push_back(value);
      value = graph_.op(next).results[0];
    }
    if (chain.empty()) return;
    const auto biases = new_biases(layer, affine);
    if (!biases)
      return remarks_.add(chain.front(), "the bias before it is computed while the model runs");
    if (!scale_weights(layer, codes, affine.scale))
      return remarks_.add(
          chain.front(),
          "the quantized weights before it cannot take one factor an output channel");
    set_bias(layer, *biases);
    Origin origin = graph_.op(layer).origin;
    for (const OpId op : chain) origin = merge(origin, graph_.op(op).origin);
    rewriter_.set_origin(layer, std::move(origin));
    for (size_t i = chain.size(); i-- > 0;) rewriter_.replace(chain[i], read[i]);
    changes_ += chain.size();
  }

  // Applies `op`, which reads `value`, after `affine`; false if it is of another kind.
  bool append(const Op& op, ValueId value, size_t axis, ChannelAffine& affine) const {
    if (op.def == &ops::kBatchNorm) {
      if (axis != 1 || op.operands[0] != value) return false;
      const auto norm = batch_norm_affine(module_, graph_, op);
      return norm && apply(*norm, affine);
    }
    const auto own = constant_affine(module_, graph_, op);
    if (!own || own->x != value || (own->axis && *own->axis != axis)) return false;
    return apply(own->over(affine.scale.size()), affine);
  }

  // Makes `affine` what `next` makes of it; false and unchanged if that leaves float32.
  static bool apply(const ChannelAffine& next, ChannelAffine& affine) {
    ChannelAffine both = affine;
    for (size_t c = 0; c < both.scale.size(); ++c) {
      both.scale[c] *= next.scale[c];
      both.offset[c] = both.offset[c] * next.scale[c] + next.offset[c];
      if (!std::isfinite(static_cast<float>(both.scale[c])) ||
          !std::isfinite(static_cast<float>(both.offset[c])))
        return false;
    }
    affine = std::move(both);
    return true;
  }

  std::optional<std::vector<double>> new_biases(OpId layer, const ChannelAffine& affine) const {
    std::vector<double> biases(affine.scale.size(), 0.0);
    if (const ValueId bias = operand_or_absent(graph_.op(layer), 2); bias.valid()) {
      const OpId dequantize = graph_.producer_if(bias, ops::kDequantize);
      const ValueId codes = dequantize.valid() ? graph_.op(dequantize).operands[0] : ValueId{};
      if (is_float_constant(graph_, bias)) {
        biases = constant_doubles(module_, graph_, bias);
      } else if (graph_.is_constant(codes) && graph_.type(codes).dtype == DType::kInt32) {
        const Quantization& q = *graph_.type(codes).quantization;
        const auto values = module_.constants.values<int32_t>(graph_.value(codes).constant);
        for (size_t c = 0; c < biases.size(); ++c) {
          const size_t channel = q.per_channel() ? c : 0;
          biases[c] = (static_cast<double>(values[c]) - q.zero_points[channel]) *
                      static_cast<double>(q.scales[channel]);
        }
      } else {
        return std::nullopt;
      }
    }
    for (size_t c = 0; c < biases.size(); ++c)
      biases[c] = biases[c] * affine.scale[c] + affine.offset[c];
    return biases;
  }

  void set_bias(OpId layer, const std::vector<double>& biases) {
    const bool present = operand_or_absent(graph_.op(layer), 2).valid();
    if (!present &&
        std::all_of(biases.begin(), biases.end(), [](double bias) { return bias == 0; }))
      return;
    const std::string name = graph_.value(graph_.op(layer).results[0]).name + ".bias";
    rewriter_.set_operand(layer, 2,
                          add_float_constant(module_, rewriter_, DType::kFloat32,
                                             {static_cast<int64_t>(biases.size())}, biases, name));
  }

  // Multiplies the weights' scales by one factor an output channel, their codes by its sign. False
  // if the codes cannot be told apart by output channel (a transposed convolution in groups) or
  // have no negative.
  bool scale_weights(OpId layer, ValueId codes, const std::vector<double>& factors) {
    if (std::all_of(factors.begin(), factors.end(),
                    [](double factor) { return std::abs(factor - 1) <= kOneUpToRounding; }))
      return true;
    const Op& op = graph_.op(layer);
    Type type = graph_.type(codes);
    const size_t axis = op.attributes.get_or("transposed", false) ? 1 : 0;
    const auto channels = static_cast<size_t>(type.shape[axis]);
    Quantization& quantization = *type.quantization;
    if (channels != factors.size() ||
        (quantization.per_channel() && static_cast<size_t>(quantization.axis) != axis))
      return false;
    if (!quantization.per_channel()) {
      quantization.axis = static_cast<int>(axis);
      quantization.scales.resize(channels, quantization.scales.front());
      quantization.zero_points.resize(channels, 0);
    }
    const auto old = module_.constants.values<int8_t>(graph_.value(codes).constant);
    std::vector<int8_t> signed_codes(old.begin(), old.end());
    const auto run = static_cast<size_t>(strides(type.shape, Layout::kContiguous)[axis]);
    for (size_t i = 0; i < signed_codes.size(); ++i) {
      const double factor = factors[i / run % channels];
      if (factor < 0 && signed_codes[i] == -128) return false;
      signed_codes[i] = static_cast<int8_t>(factor < 0   ? -signed_codes[i]
                                            : factor > 0 ? signed_codes[i]
                                                         : 0);
    }
    for (size_t c = 0; c < channels; ++c)
      if (factors[c] != 0)
        quantization.scales[c] = static_cast<float>(quantization.scales[c] * std::abs(factors[c]));
    for (const float scale : quantization.scales)
      if (!(scale > 0) || !std::isfinite(scale)) return false;
    const std::string name = graph_.value(codes).name;
    const ValueId scaled = rewriter_.add_constant(
        type, module_.constants.add_values<int8_t>(DType::kInt8, signed_codes), name);
    const auto weights = rewriter_.insert_value(
        layer, {.def = &ops::kDequantize, .operands = {scaled}, .origin = graph_.op(layer).origin});
    if (!weights) return false;
    rewriter_.set_operand(layer, 1, *weights);
    return true;
  }
};

}  // namespace

constinit const PassDef kFoldChannelAffine{
    .name = "fold_channel_affine",
    .summary =
        "fold factors, sums and batch_norm after quantized weights into their scales and the bias",
    .exactness = Exactness::kFloatRounding,
    .run = run_pass<FoldChannelAffine>};

}  // namespace dtr::passes
