#include "compiler/transforms/pipelines.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

namespace dtr {
namespace {

// One pass a line, with the reason for it or for its place. A pipeline is run until no pass changes
// anything.
// clang-format off
constexpr const PassDef* kFloatPasses[] = {
    &passes::kRemoveDeadCode,             // First: passes below see live ops only.
    &passes::kRemoveIdentities,           // No-ops would hide patterns of the passes below.
    &passes::kSimplifySlices,             // So would slices of slices and of concatenations.
    &passes::kFoldConstants,              // Passes below read weights; the graph may compute them.
    &passes::kRecognizeActivations,       // Before parts of an activation are folded into a layer.
    &passes::kRecognizeNormalizations,    // Likewise of a normalization.
    &passes::kMaskSoftmax,                // Before observers: scores of -inf have no range.
    &passes::kLiftMasks,                  // Likewise, what stands further before a softmax.
    &passes::kFoldBatchNorm,              // Into the layer before or behind it.
    &passes::kFoldScaleAndBias,           // Products and sums with constants, into the same layers.
    &passes::kConvolveBatchNorm,          // After both: only a batch norm that no layer took.
    &passes::kFoldNormParameters,         // After recognition, which gives norms their parameters.
    &passes::kFoldPadding,                // Convolutions and pools pad; a pad alone is a copy.
    &passes::kFoldStrides,                // A 1x1 convolution skips what a slice drops.
    &passes::kPermuteWeights,             // A permute before a linear is free in its weight.
    &passes::kMultiplyByReciprocal,       // The NPU multiplies by tensors, does not divide.
    &passes::kSplitJointActivations,      // Brings an activation of a concatenation to its layers.
    &passes::kFuseActivation,             // Before canonical shapes add views behind layers.
    &passes::kCanonicalizeShapes,         // Backends have kernels for 2-D layers.
    &passes::kMergeDimensions,            // Likewise, for tensors of up to six dimensions.
    &passes::kMergeCommonSubexpressions,  // Last: the passes above leave equal ops behind.
};

constexpr const PassDef* kQuantizedPasses[] = {
    &passes::kRemoveDeadCode,             // First: passes below see live ops only.
    &passes::kFoldConstants,              // Weights that the graph quantizes become int8 constants.
    &passes::kMergeCommonSubexpressions,  // A value quantized twice would keep its op float.
    &passes::kMaskSoftmax,                // Before folding: what masks scores is float.
    &passes::kFoldChannelAffine,          // Before folding: factors of channels are float.
    &passes::kConvolveBatchNorm,          // Before folding makes the convolution int8.
    &passes::kQuantizeBetween,            // Before folding, which needs both sides int8.
    &passes::kFoldQuantization,           // Passes below see quantized ops, no conversions between.
    &passes::kFoldLookups,                // What is float then, of one int8 value, is a table.
    &passes::kRemoveDeadCode,             // Folding leaves dequantizes without readers.
    &passes::kRemoveIdentities,           // From here on as in the float pipeline.
    &passes::kSimplifySlices,
    &passes::kFoldConstants,
    &passes::kFoldPadding,
    &passes::kFoldStrides,
    &passes::kPermuteWeights,
    &passes::kSplitJointActivations,
    &passes::kFuseActivation,
    &passes::kCanonicalizeShapes,
    &passes::kMergeDimensions,
};

constexpr const PassDef* kInterfacePasses[] = {
    &passes::kRemoveIoQuantization,  // Inputs and outputs take the int8 type next to them.
    &passes::kRemoveDeadCode,        // These conversions have no readers any more.
};

constexpr const PassDef* kStatePasses[] = {
    &passes::kQuantizeStates,  // States take the int8 type of their next values.
    &passes::kRemoveDeadCode,  // These conversions have no readers any more.
};
// clang-format on

constexpr const PassDef* kMaskPasses[] = {
    &passes::kMaskSoftmax,  // As in the float pipeline.
    &passes::kLiftMasks,
};

constexpr const PassDef* kRecognitionPasses[] = {
    &passes::kRemoveDeadCode,  // As in the float pipeline; steps of what was recognized are dead.
    &passes::kRecognizeActivations,
    &passes::kRecognizeNormalizations,
};

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
  static const std::array<Pipeline, 7> pipelines{{
      {"float", "before quantization and placement", kFloatPasses},
      {"quantized", "for models that come quantized", kQuantizedPasses},
      {"int8-io", "for programs that take and give int8", kInterfacePasses},
      {"states", "behind quantization, for models with states", kStatePasses},
      {"training", "to find what quantization-aware training quantizes", training_passes()},
      {"masks", "to find the masks that qat-prepare writes in front of softmaxes", kMaskPasses},
      {"recognition", "to find what qat-prepare writes as one operator", kRecognitionPasses},
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
const Pipeline& states_pipeline() { return all_pipelines()[3]; }
const Pipeline& training_pipeline() { return all_pipelines()[4]; }
const Pipeline& masks_pipeline() { return all_pipelines()[5]; }
const Pipeline& recognition_pipeline() { return all_pipelines()[6]; }

}  // namespace dtr
