// The per-channel function y[c] = x[c] · scale[c] + offset[c] along one dimension, and how it is
// folded into the weights of the convolution or linear layer before or after it. Batch norms and
// constants beside a layer have this form.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/rewriter.h"

namespace dtr {

struct ChannelAffine {
  std::vector<double> scale, offset;
  bool shifts() const;  // some offset is not 0
};

// The function of a batch_norm. Errors: the reason, if a parameter is not constant or a scale is
// not finite.
tl::expected<ChannelAffine, std::string> batch_norm_affine(const Module& module, const Graph& graph,
                                                           const Op& norm);

// The function of an op that adds, subtracts, multiplies or divides by a float constant and keeps
// its operand's type.
struct ConstantAffine {
  ValueId x;                   // the operand that is not the constant
  std::optional<size_t> axis;  // the dimension along which the constant differs; without one, a
                               // single factor for all elements
  ChannelAffine function;      // one entry for each index of `axis`, or a single one
  ChannelAffine over(size_t channels) const;  // expanded to one entry for each channel
};
// std::nullopt for other ops, for ops with a fused activation, and if a factor or offset is not a
// finite float32.
std::optional<ConstantAffine> constant_affine(const Module& module, const Graph& graph,
                                              const Op& op);

// Finds the convolution or linear layer that computes `value` with its output channels along
// dimension `axis`, through permutes and views that keep that dimension whole; each value on the
// path has one user. Without `axis` (one factor for all elements) any order of elements is
// accepted, and with `across_products` the path may go through an operand of a matmul. Errors: the
// reason why there is no such layer with constant weights.
tl::expected<OpId, std::string> layer_before(const Graph& graph, ValueId value,
                                             std::optional<size_t> axis,
                                             bool across_products = false);
// Finds the convolution or linear layer that is the only reader of `value`, with its input channels
// along `axis` if given. Errors: as layer_before.
tl::expected<OpId, std::string> layer_after(const Graph& graph, ValueId value,
                                            std::optional<size_t> axis);

// Where dimension `axis` of a permute's or view's operand is in its result; std::nullopt for other
// ops, and for a dimension that is not whole there.
std::optional<size_t> axis_behind(const Graph& graph, const Op& op, size_t axis);

// True for convolutions and linear layers.
bool is_layer(const Op& op);
// Whether weight and bias of a layer can be computed anew. Error: the reason, if one is no float
// constant.
tl::expected<void, std::string> check_weights(const Graph& graph, const Op& layer);
// The dimension of the channels in `value`, the layer's operand or result.
size_t channel_axis(const Graph& graph, const Op& layer, ValueId value);

// True if offsets of the operand's channels can be folded into the layer's bias: it does not pad,
// and every output sums over all taps.
bool takes_offsets(const Op& layer);

// The layers that can take weight and bias of a layer or RMS normalization over one dimension: all
// readers of its result, behind permutes and views that keep that dimension. `shifts`: the bias is
// not 0. Empty if there is another reader, or weights that others read too (fold_norm_parameters).
std::vector<OpId> layers_behind_norm(const Graph& graph, OpId norm, bool shifts);

// Replace weights and bias, computed in double and rounded once; other users keep the old
// constants. The channel counts must match.
void apply_after(Module& module, Rewriter& rewriter, OpId layer,
                 const ChannelAffine& affine);  // layer(x) becomes affine(layer(x))
void apply_before(Module& module, Rewriter& rewriter, OpId layer,
                  const ChannelAffine& affine);  // layer(x) becomes layer(affine(x))
// Erase `folded`, the op whose function was folded into the layer that layer_before or layer_after
// found. Their origins are merged, and so are those of ops on the path, whose values no longer
// exist in the model.
void finish_before(Rewriter& rewriter, OpId folded, ValueId x, OpId layer);
void finish_after(Rewriter& rewriter, OpId folded, ValueId x, OpId layer);

int64_t output_channels(const Graph& graph, OpId layer);
int64_t input_channels(const Graph& graph, OpId layer);

}  // namespace dtr
