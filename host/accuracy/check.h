// The check at the end of a compilation: runs the program once and compares its outputs with the
// graph that it was compiled from.
#pragma once

#include <optional>

#include "compiler/pipeline/compilation.h"
#include "compiler/pipeline/report.h"

namespace dtr {

// The lowest accepted SQNR. An output of zeros has 0 dB, whatever the model computes; at 3 dB the
// error has half the power of the signal.
inline constexpr double kLeastCheckDecibels = 3;

// Accuracy is looked at on so many samples, in even distances over all that there are.
inline constexpr size_t kMostCheckedSamples = 4;

// Inputs of the program for a sample of the model: the same, or quantized where the program takes
// int8. `signature` is the session's, `compiled` the graph that the program was made from.
std::vector<Tensor> program_inputs(const Graph& signature, const Graph& compiled,
                                   std::span<const TensorView> sample);

// Runs the program on the first sample; without samples on normally distributed noise, three
// deviations of which fill the range that an input is quantized in. Its outputs must equal the
// reference of the quantized graph: integers, and what is dequantized from integers, exactly;
// floats up to 2^-20 of the largest. Where they do not, every operator of the compiled graph must
// be right on the operands that the program computed (host/accuracy/check_operators.h), and the
// compiled graph must be the same function in double, unless it quantizes what it computed in
// float: near a tie, float32 may choose the other neighbour. Returns the SQNR against the model as
// it was read, of the worst of up to kMostCheckedSamples samples, and the simulated cycles of the
// first, for `compile_report`. `least_decibels` is kLeastCheckDecibels unless it is given. Uses up
// to `threads` threads (0: one for each processor). Errors:
// kCheckFailed, naming output, index, both values, and the first operator that is wrong;
// kCheckInaccurate, if a float output of the model has less than `least_decibels` on one of the
// samples (see below).
//
// Not held against a program: an output that is zero in the float model, if the program is within a
// step of quantization; one that is within a step on a sample other than the first, since int8 has
// nothing finer; one that float32 itself loses against double; and, where noise stands in for
// samples and `least_decibels` is not given, errors of two steps and less, and the accuracy of a
// model that was calibrated on others: noise is not what its ranges were chosen for.
Result<CheckFigures> check_program(const Compilation& compilation,
                                   std::optional<double> least_decibels = {}, unsigned threads = 0);

}  // namespace dtr
