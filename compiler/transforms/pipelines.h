// The pipelines: named lists of passes.
#pragma once

#include <span>
#include <string_view>

#include "compiler/transforms/pass.h"

namespace dtr {

struct Pipeline {
  std::string_view name;
  std::string_view summary;
  std::span<const PassDef* const> passes;  // run in this order until none of them changes anything
};

std::span<const Pipeline> all_pipelines();
const Pipeline* find_pipeline(std::string_view name);  // nullptr if there is none

// Runs on every model before it is quantized or placed: canonicalizes shapes, folds batch norms,
// padding and constants, fuses activations.
const Pipeline& float_pipeline();
// For quantized models: the same, and folds dequantize → op → quantize to ops on quantized types.
const Pipeline& quantized_pipeline();
// Runs after quantization for `--io int8`: removes quantize and dequantize at inputs and outputs.
const Pipeline& int8_io_pipeline();
// Runs behind quantization on models with states: keeps them as int8 where their values are.
const Pipeline& states_pipeline();
// For qat-prepare: passes that preserve the mapping from values to nodes of the exported model
// (PassDef::keeps_sources).
const Pipeline& training_pipeline();
// For qat-prepare: the passes that bring masks to the softmaxes.
const Pipeline& masks_pipeline();
// For qat-prepare: the passes that recognize functions which a model computes step by step.
const Pipeline& recognition_pipeline();

}  // namespace dtr
