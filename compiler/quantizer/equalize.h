// Cross-layer equalization: scales the channels of activations, so that one quantization fits all
// of them, without changing the function of the float graph.
//
// A value x with a positive factor s[c] for each channel becomes x[c]/s[c]. The layer that computes
// it divides its weights and bias by s, the layers that read it multiply theirs, and operators
// between them commute with the factor: relu(x/s) = relu(x)/s. With r[c], the range of channel c
// over that of the whole tensor, and w[c], its largest weight over that of the same row, the error
// of x and the error of the weights are balanced by
//
//   s[c] = √(r[c] / w[c]);  s[c] = r[c] where every reader is depthwise and has a scale a channel.
//
// relu6(x/s) = relu6(x)/s only for x below min(6, 6·s). So behind a bounded activation channels
// grow and never shrink: with the bound b and m[c], the larger of 1.25 times the largest element
// seen and the mean of the samples' largest elements and 5 deviations, m[c]/b ≤ s[c] ≤ 1. A channel
// that may reach the bound keeps its range; an element beyond m[c] saturates, as it would in int8.
//
// Sources: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction,
// 2019 (over ReLU and depthwise layers); Xiao et al., SmoothQuant, 2023, with α = 1/2 (from
// activations into weights, over a normalization). Here r and w are relative, because activations
// have one scale a tensor and weights one a row, and the factors of a residual group, of the parts
// of a concatenation, and of slices of one value are solved together. A part of a concatenation
// that has no factors, an input or a sigmoid, gets one for all of its channels: a product with a
// number in front of the concatenation, which in int8 is the same codes in another scale.
#pragma once

#include <vector>

#include "compiler/executors/executor.h"
#include "compiler/ir/samples.h"
#include "compiler/quantizer/annotate.h"

namespace dtr {

struct Equalization {
  size_t groups = 0;                // of values that share factors, and whose factors were changed
  size_t channels = 0;              // with a factor
  double largest = 1;               // ratio of the largest factor of a group to its smallest
  std::vector<OpId> scaled_inputs;  // products that scale the channels of an input; stay float
};

// Takes the factors in place of the graph: for a model's file, which training reads.
class FactorWriter {
 public:
  virtual ~FactorWriter() = default;
  // Whether it can change weight and bias of this layer or normalization, and put a product in
  // front of an operand of this concatenation.
  virtual bool can_scale(OpId op) const = 0;
  virtual bool can_scale_operand(OpId op, size_t operand) const = 0;
  // Multiplies the weights of a layer that read input channel i by in[i] and those that make output
  // channel o by out[o], and its bias by out; empty: by 1.
  virtual void scale_layer(OpId op, const std::vector<double>& in,
                           const std::vector<double>& out) = 0;
  virtual void scale_norm(OpId op, const std::vector<double>& out) = 0;
  virtual void scale_operand(OpId op, size_t operand, double by) = 0;
  // Multiplies an input by a factor for each index of `axis`, before anything reads it.
  virtual void scale_input(ValueId input, size_t axis, const std::vector<float>& by) = 0;
};

// Of an input whose channels differ by more than 8, and which a convolution or linear layer reads,
// a product with a factor a channel scales them in float.
//
// Rewrites constants of `graph`, and inserts products; ops and values keep their ids. `executor`
// runs `graph` on up to 64 of the samples, and may pass (N, C, H, W) to the observer as (N, H, W,
// C). Factors pass through relu, leaky_relu, prelu, pools,
// means and sums over other dimensions, additions, products with what has no factor, zero padding,
// resizing, and what moves elements along other dimensions or whole channels; convolutions, linear
// layers and the weights of a layer or RMS norm take them. All other operators end them, as do
// other inputs, outputs and states. With a writer the graph stays as it is. Errors: those of the
// executor.
Result<Equalization> equalize(Module& module, Graph& graph, const Annotation& annotation,
                              Executor& executor, const Samples& samples, unsigned threads = 0,
                              FactorWriter* writer = nullptr);

}  // namespace dtr
