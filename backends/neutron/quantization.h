// How the NPU wants ops quantized: int8 activations per tensor, convolution and linear weights per output channel, int32 biases.
// Source of the rules: ExecuTorch's Neutron quantizer, operator by operator; where Deuteron differs on purpose, the table says why.
#pragma once

#include <memory>

#include "quantizer/pattern.h"

namespace dtr::neutron {

std::unique_ptr<QuantizationPatterns> make_quantization_patterns();

}  // namespace dtr::neutron
