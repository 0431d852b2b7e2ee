// Rounds the weights of convolutions and linear layers by the error that they make in the layer's
// results, not in the weights.
//
// A row w of weights with scale Δ gets codes q that make (w − Δq)ᵀ H (w − Δq) small, where H is the
// second moment of the columns that the row is multiplied with: the layer's quantized operand, as
// the program computes it with the layers before already rounded. Weights are rounded one after the
// other, by descending H[i][i]; the error of each is moved to those behind it, weighted by the
// Cholesky factor of H⁻¹. If the layer has a bias, it takes the mean of the error, and H is the
// covariance. It also takes back what the program's operators before shifted the mean of each of
// the operand's channels by, if all calibration samples are run. λ = 0.01 · mean(H[i][i]) is added
// to the diagonal. A row whose error (undamped) is not smaller than that of rounding to the nearest
// keeps the nearest codes.
//
// Sources: Frantar et al., GPTQ, 2023; Hassibi and Stork, Second order derivatives for network
// pruning: Optimal Brain Surgeon, 1993.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/samples.h"
#include "compiler/quantizer/convert.h"

namespace dtr {

struct RoundingOptions {
  unsigned threads = 0;            // 0: one for each processor; the result does not depend on it
  size_t samples = 32;             // at most, in even distances
  size_t positions = 8192;         // columns of a layer's operand, at most, over all samples
  size_t most_columns = 1536;      // a layer whose rows are longer keeps the nearest codes
  size_t bytes = size_t{1} << 28;  // of the values that are alive; decides the number of samples
  // Of `original` on `samples`. Null: biases do not take back what the operators before a layer
  // shifted the means of its operand by.
  const CalibrationResult* calibration = nullptr;
};

struct RoundingReport {
  size_t layers = 0;                 // whose weights were rounded so
  size_t samples = 0;                // that were run
  std::vector<std::string> skipped;  // "conv2d_3: rows of 4,608 weights"
};

// Replaces int8 weights, and the int32 biases that follow from them, in `quantized`, which
// `convert` made of `original`: ops have the same ids. Runs the integer reference evaluation op by
// op. A model with states is run from their initial values on each sample. Errors: those of the
// evaluation (kIrInvalid).
Result<RoundingReport> round_weights(Module& module, Graph& quantized, const Graph& original,
                                     const Samples& samples, const RoundingOptions& options = {});

}  // namespace dtr
