// y[c] = x[c] · scale[c] + offset[c] along one dimension, and how it goes into the weights of the
// convolution or linear that makes x or reads y. What batch norms and constants beside a layer
// become.
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

// A batch_norm so.
// Errors: the reason, if a parameter is not constant or a scale is not finite.
tl::expected<ChannelAffine, std::string> batch_norm_affine(const Module& module, const Graph& graph,
                                                           const Op& norm);

// What an op does that adds, subtracts, multiplies or divides by a float constant and changes
// nothing else of its operand's type.
struct ConstantAffine {
  ValueId x;                   // the operand that is not the constant
  std::optional<size_t> axis;  // the dimension along which the constant differs; without one, a
                               // single factor for all elements
  ChannelAffine function;      // one entry an index of `axis`, or one in all
  ChannelAffine over(size_t channels) const;  // one entry a channel
};
// nullopt for other ops, with a fused activation, and where a factor or offset is no finite
// float32.
std::optional<ConstantAffine> constant_affine(const Module& module, const Graph& graph,
                                              const Op& op);

// The convolution or linear that makes `value` so that its output channels lie along dimension
// `axis`, through permutes and views that keep that dimension whole; each value on the way has one
// user. Without `axis` (one factor for all elements) any order of the elements will do, and with
// `across_products` also the way through an operand of a matmul. Errors: the reason why there is
// none whose constant weights can take it.
tl::expected<OpId, std::string> layer_before(const Graph& graph, ValueId value,
                                             std::optional<size_t> axis,
                                             bool across_products = false);
// The convolution or linear that alone reads `value`, so that its input channels lie along `axis`
// if there is one.
tl::expected<OpId, std::string> layer_after(const Graph& graph, ValueId value,
                                            std::optional<size_t> axis);

// A convolution or linear.
bool is_layer(const Op& op);
// The dimension of its operand or result that its channels lie along.
size_t channel_axis(const Graph& graph, const Op& layer, ValueId value);

// Whether the channels of a layer's operand can be shifted by its weights: where it does not pad,
// and every output is made of all taps.
bool takes_offsets(const Op& layer);

// New weights and bias, computed in double and rounded once: other users keep the old ones. The
// counts of channels fit.
void apply_after(Module& module, Rewriter& rewriter, OpId layer,
                 const ChannelAffine& affine);  // layer(x) becomes affine(layer(x))
void apply_before(Module& module, Rewriter& rewriter, OpId layer,
                  const ChannelAffine& affine);  // layer(x) becomes layer(affine(x))
// Erases `folded`, an op of a function that a layer found by layer_before or layer_after took.
// Their origins join; values on the way are no operator's result any more, so that their ops become
// parts of both.
void finish_before(Rewriter& rewriter, OpId folded, ValueId x, OpId layer);
void finish_after(Rewriter& rewriter, OpId folded, ValueId x, OpId layer);

int64_t output_channels(const Graph& graph, OpId layer);
int64_t input_channels(const Graph& graph, OpId layer);

}  // namespace dtr
