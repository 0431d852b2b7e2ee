// Prepares a float export for quantization-aware training in PyTorch: inserts fake quantization
// where the target's patterns quantize.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/samples.h"
#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/read_model.h"
#include "compiler/quantizer/equalize.h"

namespace dtr {

struct QatPrepared {
  std::vector<std::byte> archive;  // a .pt2 file that torch.export.load reads
  size_t activations = 0;          // values with fake quantization
  size_t weights = 0;
  size_t batch_norms = 0;  // with simulated fusion
  Equalization equalization;
  std::vector<std::string> notes;  // what stays float during training, and why
};

// Inserts into `bytes`, the .pt2 file that `module` was read from, before training:
//  * behind every value that the recipe quantizes, a moving average of its range and the fake
//  quantization with it. Values that share a
//    quantization share the buffers `quantization.NAME.{running_min,running_max,scale,zero_point}`;
//    `quantization.observer_on` and `quantization.fake_quant_on` switch all of them. Fixed ranges
//    (softmax, sigmoid, tanh) are constants;
//  * at every weight, fake quantization around zero with one scale an output channel, from the
//  largest weight at the time; `quantization.weight_quant_on` switches all of them;
//  * at a convolution or linear with a batch norm behind it, the simulated fusion: the weights
//  times γ / √(var + eps) are quantized, and the
//    result is divided by it before the bias and the batch norm.
// With settings.equalize the channels are equalized before (spell_equalization.h);
// settings.observer holds as for `compile`. No node can be kept float: what stands between fake
// quantizations is int8 for `compile`.
// Gradients go straight through. With samples, ranges start from these; else the first batch sets
// them. Errors: those of the archive; kQatQuantized (it is quantized already);
// kPt2ControlFlow (an operator is inside of a branch or loop); kAccuracyOptions (equalization or
// an observer without samples); those of calibration.
Result<QatPrepared> qat_prepare(Module module, std::span<const std::byte> bytes,
                                const CompileSettings& settings, const Samples* samples);

// Errors: kQatNotExport, for a model that PyTorch cannot train; `file` names it.
Result<void> check_trainable(FileKind kind, const std::string& file);

}  // namespace dtr
