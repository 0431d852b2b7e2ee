// Folds what scales and shifts the channels of a convolution or linear with quantized weights into their scales and its bias: products,
// quotients, sums and differences with constants, and batch_norm. That is the simulated fusion of training: the weights are multiplied by
// γ / √(var + eps) before they are quantized, the result is divided by it, shifted by the bias and normalized after all; what is left of it
// is a factor of one and a bias.
//
// A factor of one, but for the rounding of float, leaves the codes and scales of the weights as they were trained. The layer has no fused
// activation, the values between have no other user, and the factors lie along the layer's output channels.
#include <fmt/format.h>

#include <cmath>

#include "transforms/channel_affine.h"
#include "transforms/edit.h"

namespace dtr::passes {
namespace {

constexpr double kOneUpToRounding = 0x1p-20;

class Pass {
 public:
  Pass(Program& program, Graph& graph, Remarks& remarks) : program_(program), graph_(graph), rewriter_(graph), remarks_(remarks) {}

  Result<size_t> run() {
    for (OpId id = graph_.first_op(); id.valid(); id = graph_.op(id).next) {
      const Op& op = graph_.op(id);
      if ((op.def == &ops::kConvolution || op.def == &ops::kLinear) && takes_activation(op)) fold(id);
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
    return std::all_of(zero_points.begin(), zero_points.end(), [](int32_t zero_point) { return zero_point == 0; }) ? codes : ValueId{};
  }

  void fold(OpId layer) {
    const ValueId codes = codes_of(layer);
    if (!codes.valid()) return;
    const ValueId result = graph_.op(layer).results[0];
    ChannelAffine affine;
    affine.scale.assign(static_cast<size_t>(output_channels(graph_, layer)), 1.0);
    affine.offset.assign(affine.scale.size(), 0.0);
    std::vector<OpId> chain;
    for (ValueId value = result;;) {
      const OpId next = graph_.sole_user(value);
      if (!next.valid() || graph_.op(next).results.size() != 1 || graph_.type(graph_.op(next).results[0]) != graph_.type(result)) break;
      if (!append(next, value, channel_axis(layer), affine)) break;
      chain.push_back(next);
      value = graph_.op(next).results[0];
    }
    if (chain.empty()) return;
    const auto biases = new_biases(layer, affine);
    if (!biases) return remarks_.add(chain.front(), "the bias before it is computed while the model runs");
    if (!scale_weights(layer, codes, affine.scale))
      return remarks_.add(chain.front(), "the quantized weights before it cannot take one factor an output channel");
    set_bias(layer, *biases);
    Origin origin = graph_.op(layer).origin;
    for (const OpId op : chain) origin = merge(origin, graph_.op(op).origin);
    rewriter_.set_origin(layer, std::move(origin));
    for (size_t i = chain.size(); i-- > 0;) rewriter_.replace(chain[i], graph_.op(chain[i]).operands[data_operand(chain[i])]);
    changes_ += chain.size();
  }

  size_t channel_axis(OpId layer) const {
    return graph_.op(layer).def == &ops::kLinear ? graph_.type(graph_.op(layer).results[0]).rank() - 1 : 1;
  }

  // The operand that is not the constant.
  size_t data_operand(OpId id) const {
    const Op& op = graph_.op(id);
    return op.def != &ops::kBatchNorm && graph_.is_constant(op.operands[0]) ? 1 : 0;
  }

  // Applies `op`, which reads `value`, after `affine`; false if it is of another kind.
  bool append(OpId id, ValueId value, size_t axis, ChannelAffine& affine) const {
    const Op& op = graph_.op(id);
    if (op.operands[data_operand(id)] != value) return false;
    if (op.def == &ops::kBatchNorm) {
      const auto norm = axis == 1 ? batch_norm_affine(program_, graph_, op) : tl::unexpected(std::string());
      if (!norm) return false;
      return apply(*norm, affine);
    }
    const bool adds = op.def == &ops::kAddTensor || op.def == &ops::kSubTensor;
    const bool first = data_operand(id) == 0;
    if (!adds && op.def != &ops::kMulTensor && (op.def != &ops::kDivTensor || !first)) return false;
    if (op.operands.size() != 2 || op.attributes.find("activation") != nullptr) return false;
    const auto constants = by_channel(op.operands[first ? 1 : 0], graph_.type(value).rank(), axis, affine.scale.size());
    if (!constants) return false;
    const double alpha = op.attributes.get_or("alpha", 1.0);
    ChannelAffine own;
    for (const double x : *constants) {
      double scale = 1, offset = 0;  // of this op
      if (op.def == &ops::kMulTensor) scale = x;
      if (op.def == &ops::kDivTensor) scale = 1 / x;
      if (op.def == &ops::kAddTensor) std::tie(scale, offset) = first ? std::pair(1.0, alpha * x) : std::pair(alpha, x);
      if (op.def == &ops::kSubTensor) std::tie(scale, offset) = first ? std::pair(1.0, -alpha * x) : std::pair(-alpha, x);
      own.scale.push_back(scale);
      own.offset.push_back(offset);
    }
    return apply(own, affine);
  }

  // Makes `affine` what `next` makes of it; false and unchanged if that leaves float32.
  static bool apply(const ChannelAffine& next, ChannelAffine& affine) {
    ChannelAffine both = affine;
    for (size_t c = 0; c < both.scale.size(); ++c) {
      both.scale[c] *= next.scale[c];
      both.offset[c] = both.offset[c] * next.scale[c] + next.offset[c];
      if (!std::isfinite(static_cast<float>(both.scale[c])) || !std::isfinite(static_cast<float>(both.offset[c]))) return false;
    }
    affine = std::move(both);
    return true;
  }

  // The elements of a float constant that is broadcast to `rank` dimensions and differs along `axis` alone; one an index of that.
  std::optional<std::vector<double>> by_channel(ValueId constant, size_t rank, size_t axis, size_t channels) const {
    if (!is_float_constant(graph_, constant)) return std::nullopt;
    const Shape& shape = graph_.type(constant).shape;
    if (shape.size() > rank) return std::nullopt;
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != 1 && i + rank - shape.size() != axis) return std::nullopt;
    std::vector<double> elements = constant_doubles(program_, graph_, constant);
    if (elements.size() == 1) elements.resize(channels, elements.front());
    return elements.size() == channels ? std::optional(std::move(elements)) : std::nullopt;
  }

  std::optional<std::vector<double>> new_biases(OpId layer, const ChannelAffine& affine) const {
    std::vector<double> biases(affine.scale.size(), 0.0);
    if (const ValueId bias = operand_or_absent(graph_.op(layer), 2); bias.valid()) {
      const OpId dequantize = graph_.producer_if(bias, ops::kDequantize);
      const ValueId codes = dequantize.valid() ? graph_.op(dequantize).operands[0] : ValueId{};
      if (is_float_constant(graph_, bias)) {
        biases = constant_doubles(program_, graph_, bias);
      } else if (graph_.is_constant(codes) && graph_.type(codes).dtype == DType::kInt32) {
        const Quantization& q = *graph_.type(codes).quantization;
        const auto values = program_.constants.values<int32_t>(graph_.value(codes).constant);
        for (size_t c = 0; c < biases.size(); ++c) {
          const size_t channel = q.per_channel() ? c : 0;
          biases[c] = (static_cast<double>(values[c]) - q.zero_points[channel]) * static_cast<double>(q.scales[channel]);
        }
      } else {
        return std::nullopt;
      }
    }
    for (size_t c = 0; c < biases.size(); ++c) biases[c] = biases[c] * affine.scale[c] + affine.offset[c];
    return biases;
  }

  void set_bias(OpId layer, const std::vector<double>& biases) {
    const bool present = operand_or_absent(graph_.op(layer), 2).valid();
    if (!present && std::all_of(biases.begin(), biases.end(), [](double bias) { return bias == 0; })) return;
    const std::string name = graph_.value(graph_.op(layer).results[0]).name + ".bias";
    rewriter_.set_operand(layer, 2,
                          add_float_constant(program_, rewriter_, DType::kFloat32, {static_cast<int64_t>(biases.size())}, biases, name));
  }

  // Multiplies the weights' scales by one factor an output channel, their codes by its sign. False if the codes cannot be told apart by
  // output channel (a transposed convolution in groups) or have no negative.
  bool scale_weights(OpId layer, ValueId codes, const std::vector<double>& factors) {
    if (std::all_of(factors.begin(), factors.end(), [](double factor) { return std::abs(factor - 1) <= kOneUpToRounding; })) return true;
    const Op& op = graph_.op(layer);
    Type type = graph_.type(codes);
    const size_t axis = op.attributes.get_or("transposed", false) ? 1 : 0;
    const auto channels = static_cast<size_t>(type.shape[axis]);
    Quantization& quantization = *type.quantization;
    if (channels != factors.size() || (quantization.per_channel() && static_cast<size_t>(quantization.axis) != axis)) return false;
    if (!quantization.per_channel()) {
      quantization.axis = static_cast<int>(axis);
      quantization.scales.resize(channels, quantization.scales.front());
      quantization.zero_points.resize(channels, 0);
    }
    const auto old = program_.constants.values<int8_t>(graph_.value(codes).constant);
    std::vector<int8_t> signed_codes(old.begin(), old.end());
    const auto run = static_cast<size_t>(strides(type.shape, Layout::kContiguous)[axis]);
    for (size_t i = 0; i < signed_codes.size(); ++i) {
      const double factor = factors[i / run % channels];
      if (factor < 0 && signed_codes[i] == -128) return false;
      signed_codes[i] = static_cast<int8_t>(factor < 0 ? -signed_codes[i] : factor > 0 ? signed_codes[i] : 0);
    }
    for (size_t c = 0; c < channels; ++c)
      if (factors[c] != 0) quantization.scales[c] = static_cast<float>(quantization.scales[c] * std::abs(factors[c]));
    for (const float scale : quantization.scales)
      if (!(scale > 0) || !std::isfinite(scale)) return false;
    const std::string name = graph_.value(codes).name;
    const ValueId scaled = rewriter_.add_constant(type, program_.constants.add_values<int8_t>(DType::kInt8, signed_codes), name);
    const auto weights = rewriter_.insert_value(layer, {.def = &ops::kDequantize, .operands = {scaled}, .origin = graph_.op(layer).origin});
    if (!weights) return false;
    rewriter_.set_operand(layer, 1, *weights);
    return true;
  }

  Program& program_;
  Graph& graph_;
  Rewriter rewriter_;
  Remarks& remarks_;
  size_t changes_ = 0;
};

Result<size_t> run(Program& program, Graph& graph, Remarks& remarks) { return Pass(program, graph, remarks).run(); }

}  // namespace

constinit const PassDef kFoldChannelAffine{
    .name = "fold_channel_affine",
    .summary = "fold factors, sums and batch_norm after quantized weights into their scales and the bias",
    .exactness = Exactness::kFloatRounding,
    .run = run};

}  // namespace dtr::passes
