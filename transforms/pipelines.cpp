#include "transforms/pipelines.h"

#include <algorithm>
#include <array>

namespace dtr {
namespace {

// Constants are folded before anything looks for them; activations are fused before shapes become canonical, because the views that
// make a 1-D convolution 2-D would stand between it and its activation.
constexpr const PassDef* kFloatPasses[] = {
    &passes::kRemoveDeadCode,       &passes::kRemoveIdentities,
    &passes::kFoldConstants,        &passes::kFoldBatchNorm,
    &passes::kConvolveBatchNorm,    &passes::kFoldPadding,
    &passes::kMultiplyByReciprocal, &passes::kFuseActivation,
    &passes::kCanonicalizeShapes,   &passes::kMergeCommonSubexpressions,
};

// Quantization is folded first, so that the other passes see quantized ops and not what stands between dequantize and quantize; equal
// dequantizes are merged before that, because a value that is quantized twice would keep its op float.
constexpr const PassDef* kQuantizedPasses[] = {
    &passes::kRemoveDeadCode,     &passes::kMergeCommonSubexpressions,
    &passes::kFoldQuantization,   &passes::kRemoveDeadCode,
    &passes::kRemoveIdentities,   &passes::kFoldConstants,
    &passes::kFoldPadding,        &passes::kFuseActivation,
    &passes::kCanonicalizeShapes,
};

constexpr std::array<Pipeline, 2> kPipelines{{
    {"float", "before quantization and placement", kFloatPasses},
    {"quantized", "for models that come quantized", kQuantizedPasses},
}};

}  // namespace

std::span<const Pipeline> all_pipelines() { return kPipelines; }

const Pipeline* find_pipeline(std::string_view name) {
  const auto at = std::find_if(kPipelines.begin(), kPipelines.end(), [&](const Pipeline& pipeline) { return pipeline.name == name; });
  return at == kPipelines.end() ? nullptr : &*at;
}

const Pipeline& float_pipeline() { return kPipelines[0]; }
const Pipeline& quantized_pipeline() { return kPipelines[1]; }

}  // namespace dtr
