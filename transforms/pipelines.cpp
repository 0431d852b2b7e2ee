#include "transforms/pipelines.h"

#include <algorithm>
#include <array>

namespace dtr {
namespace {

// Constants are folded before anything looks for them. What stands for one op is recognized before its parts are folded into layers. Batch
// norms that no layer takes become convolutions after the folding. Activations are fused before shapes become canonical, because the
// views that make a 1-D convolution 2-D would stand between it and its activation.
constexpr const PassDef* kFloatPasses[] = {
    &passes::kRemoveDeadCode,       &passes::kRemoveIdentities,          &passes::kSimplifySlices,        &passes::kFoldConstants,
    &passes::kRecognizeActivations, &passes::kRecognizeNormalizations,   &passes::kMaskSoftmax,           &passes::kFoldBatchNorm,
    &passes::kFoldScaleAndBias,     &passes::kConvolveBatchNorm,         &passes::kFoldPadding,           &passes::kFoldStrides,
    &passes::kPermuteWeights,       &passes::kMultiplyByReciprocal,      &passes::kSplitJointActivations, &passes::kFuseActivation,
    &passes::kCanonicalizeShapes,   &passes::kMergeCommonSubexpressions,
};

// Quantization is folded first, so that the other passes see quantized ops and not what stands between dequantize and quantize; equal
// dequantizes are merged before that, because a value that is quantized twice would keep its op float.
constexpr const PassDef* kQuantizedPasses[] = {
    &passes::kRemoveDeadCode,     &passes::kFoldConstants,         &passes::kMergeCommonSubexpressions,
    &passes::kFoldChannelAffine,  &passes::kQuantizeBetween,       &passes::kFoldQuantization,
    &passes::kRemoveDeadCode,     &passes::kRemoveIdentities,      &passes::kSimplifySlices,
    &passes::kFoldConstants,      &passes::kFoldPadding,           &passes::kFoldStrides,
    &passes::kPermuteWeights,     &passes::kSplitJointActivations, &passes::kFuseActivation,
    &passes::kCanonicalizeShapes,
};

constexpr const PassDef* kInterfacePasses[] = {&passes::kRemoveIoQuantization, &passes::kRemoveDeadCode};

// The float pipeline without what gives an op the place of another that is equal or in front of it: each value is still that of the last
// of its sources.
constexpr const PassDef* kTrainingPasses[] = {
    &passes::kRemoveDeadCode, &passes::kFoldConstants,        &passes::kFoldBatchNorm,  &passes::kConvolveBatchNorm,
    &passes::kFoldPadding,    &passes::kMultiplyByReciprocal, &passes::kFuseActivation, &passes::kCanonicalizeShapes,
};

constexpr std::array<Pipeline, 4> kPipelines{{
    {"float", "before quantization and placement", kFloatPasses},
    {"quantized", "for models that come quantized", kQuantizedPasses},
    {"int8-io", "for programs that take and give int8", kInterfacePasses},
    {"training", "to find what quantization-aware training quantizes", kTrainingPasses},
}};

}  // namespace

std::span<const Pipeline> all_pipelines() { return kPipelines; }

const Pipeline* find_pipeline(std::string_view name) {
  const auto at = std::find_if(kPipelines.begin(), kPipelines.end(), [&](const Pipeline& pipeline) { return pipeline.name == name; });
  return at == kPipelines.end() ? nullptr : &*at;
}

const Pipeline& float_pipeline() { return kPipelines[0]; }
const Pipeline& quantized_pipeline() { return kPipelines[1]; }
const Pipeline& int8_io_pipeline() { return kPipelines[2]; }
const Pipeline& training_pipeline() { return kPipelines[3]; }

}  // namespace dtr
