#include "compiler/transforms/pipelines.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

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
    &passes::kRemoveDeadCode,    &passes::kFoldConstants,      &passes::kMergeCommonSubexpressions,
    &passes::kFoldChannelAffine, &passes::kConvolveBatchNorm,  &passes::kQuantizeBetween,
    &passes::kFoldQuantization,  &passes::kRemoveDeadCode,     &passes::kRemoveIdentities,
    &passes::kSimplifySlices,    &passes::kFoldConstants,      &passes::kFoldPadding,
    &passes::kFoldStrides,       &passes::kPermuteWeights,     &passes::kSplitJointActivations,
    &passes::kFuseActivation,    &passes::kCanonicalizeShapes,
};

constexpr const PassDef* kInterfacePasses[] = {&passes::kRemoveIoQuantization, &passes::kRemoveDeadCode};

// Of the float pipeline what lets every value be found in the model's file.
std::span<const PassDef* const> training_passes() {
  static const std::vector<const PassDef*> kept = [] {
    std::vector<const PassDef*> list;
    std::ranges::copy_if(kFloatPasses, std::back_inserter(list), &PassDef::keeps_sources);
    return list;
  }();
  return kept;
}

}  // namespace

std::span<const Pipeline> all_pipelines() {
  static const std::array<Pipeline, 4> pipelines{{
      {"float", "before quantization and placement", kFloatPasses},
      {"quantized", "for models that come quantized", kQuantizedPasses},
      {"int8-io", "for programs that take and give int8", kInterfacePasses},
      {"training", "to find what quantization-aware training quantizes", training_passes()},
  }};
  return pipelines;
}

const Pipeline* find_pipeline(std::string_view name) {
  const auto pipelines = all_pipelines();
  const auto at = std::ranges::find(pipelines, name, &Pipeline::name);
  return at == pipelines.end() ? nullptr : &*at;
}

const Pipeline& float_pipeline() { return all_pipelines()[0]; }
const Pipeline& quantized_pipeline() { return all_pipelines()[1]; }
const Pipeline& int8_io_pipeline() { return all_pipelines()[2]; }
const Pipeline& training_pipeline() { return all_pipelines()[3]; }

}  // namespace dtr
