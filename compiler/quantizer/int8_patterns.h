// How operators become int8: activations per tensor, convolution and linear weights per output
// channel, int32 biases. All machines that compute to TFLite's integer specification share these
// rules, so that a value has one quantization whoever reads it. Source of the rules: ExecuTorch's
// Neutron quantizer, operator by operator; where Deuteron differs on purpose, the table says why.
#pragma once

#include <memory>
#include <string_view>

#include "compiler/quantizer/pattern.h"

namespace dtr {

struct Int8PatternOptions {
  std::string_view backend;      // its name: "neutron"
  std::string_view machine;      // who computes, in reasons: "the NPU"
  bool divides_tensors = false;  // it divides one computed value by another
};

std::unique_ptr<QuantizationPatterns> make_int8_patterns(const Int8PatternOptions& options);

}  // namespace dtr
