// Turns a batch_norm that nothing took into a depthwise convolution with a 1×1 kernel: one product and one sum a channel, which is what it
// computes, and which the backends and the quantizer know. Runs behind fold_batch_norm.
//
// Tensors of two or more than four dimensions are seen as (batch, channels, rest). Not where a parameter is not constant, or no element.
#include "transforms/channel_affine.h"
#include "transforms/edit.h"

namespace dtr::passes {
namespace {

class Pass : public GraphPass {
 public:
  using GraphPass::GraphPass;

  Result<size_t> run() {
    DTR_TRY(for_each_op(graph_, [&](OpId id) -> Status {
      if (graph_.op(id).def == &ops::kBatchNorm) return convolve(id);
      return {};
    }));
    return changes_;
  }

 private:
  Status convolve(OpId norm) {
    const Op op = graph_.op(norm);
    const Type type = graph_.type(op.results[0]);
    const auto affine = batch_norm_affine(program_, graph_, op);
    if (!affine) remarks_.add(norm, affine.error());
    if (!affine || type.elements() == 0) return {};
    const int64_t channels = type.shape[1];
    ValueId x = op.operands[0];
    const bool viewed = type.rank() != 3 && type.rank() != 4;
    if (viewed) {
      DTR_ASSIGN(x, view(norm, x, {type.shape[0], channels, type.elements() / (type.shape[0] * channels)}));
    }
    const size_t spatial = graph_.type(x).rank() - 2;
    Shape weight_shape(spatial + 2, 1);
    weight_shape[0] = channels;
    const std::string& name = graph_.value(op.results[0]).name;
    const ValueId weight = add_float_constant(program_, rewriter_, type.dtype, weight_shape, affine->scale, name + ".scale");
    const ValueId bias = add_float_constant(program_, rewriter_, type.dtype, {channels}, affine->offset, name + ".offset");
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

  Result<ValueId> view(OpId before, ValueId x, const Shape& shape) {
    return rewriter_.insert_value(
        before, {.def = &ops::kView, .operands = {x}, .attributes = {{"size", shape}}, .origin = graph_.op(before).origin});
  }
};

}  // namespace

constinit const PassDef kConvolveBatchNorm{.name = "convolve_batch_norm",
                                           .summary = "turn a batch_norm that stands alone into a depthwise convolution",
                                           .exactness = Exactness::kFloatRounding,
                                           .keeps_sources = true,
                                           .run = run_pass<Pass>};

}  // namespace dtr::passes
