// The int8 patterns: activations per tensor, weights of convolutions and linear layers per output
// channel, int32 biases. All machines that implement TFLite's integer specification share these
// rules, so that the quantization of a value does not depend on its readers. Source of the rules:
// ExecuTorch's Neutron quantizer, operator by operator; the table gives the reason where Deuteron
// differs.
#pragma once

#include <memory>
#include <string_view>

#include "compiler/quantizer/pattern.h"

namespace dtr {

struct Int8PatternOptions {
  std::string_view backend;      // its name: "neutron"
  std::string_view machine;      // the processor, in reasons: "the NPU"
  bool divides_tensors = false;  // the processor can divide one computed value by another
  bool fixed_tables = false;     // sigmoid and tanh have the scales of TFLite's operators only
};

std::unique_ptr<QuantizationPatterns> make_int8_patterns(const Int8PatternOptions& options);

}  // namespace dtr
