// The check at the end of a compilation: runs the program once and compares its outputs with the
// graph that it was compiled from.
#pragma once

#include "compiler/pipeline/compilation.h"
#include "compiler/pipeline/report.h"

namespace dtr {

// The lowest accepted SQNR. An output of zeros has 0 dB, whatever the model computes; at 3 dB the
// error has half the power of the signal.
inline constexpr double kLeastCheckDecibels = 3;

// Runs the program on the first sample (on noise without samples). Its outputs must equal the
// reference of the quantized graph: integers and values dequantized from integers exactly, floats
// up to 2^-20 of the largest. If they differ, every operator of the compiled graph must still be
// correct on the operands that the program computed (host/accuracy/check_operators.h), and the
// compiled graph must be the same function in double, unless it quantizes values computed in float:
// near a tie, float32 may round to the other neighbour. Returns the SQNR relative to the model as
// it was read, and the simulated cycles, for `compile_report`. Errors: kCheckFailed, naming output,
// index, both values, and the first wrong operator; kCheckInaccurate, if a float output of the
// model has less than `least_decibels` (see below).
//
// Tolerated: an output that is zero in the float model if the program is within a quantization
// step; an output that float32 itself gets wrong compared with double; and, with noise instead of
// samples, the accuracy of a model that was calibrated on samples, whose range noise may not reach,
// and errors of at most two steps.
Result<CheckFigures> check_program(const Compilation& compilation,
                                   double least_decibels = kLeastCheckDecibels);

}  // namespace dtr
