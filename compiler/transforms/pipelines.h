// Named lists of passes.
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

// What every model goes through before it is quantized or placed: canonical shapes, batch norm and
// padding into convolutions, fused activations, nothing left that computes what is known.
const Pipeline& float_pipeline();
// For models that come quantized: the same, and dequantize → op → quantize become ops on quantized
// types.
const Pipeline& quantized_pipeline();
// After quantization, for `--io int8`: inputs and outputs in their quantized form.
const Pipeline& int8_io_pipeline();
// Finds in a float model what quantization-aware training quantizes: each value stays that of the
// last source of its op.
const Pipeline& training_pipeline();

}  // namespace dtr
