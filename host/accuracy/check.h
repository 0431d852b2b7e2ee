// The compare at the end of a compilation: what was built runs once and is held against the graph
// it was built from.
#pragma once

#include "compiler/pipeline/compilation.h"
#include "compiler/pipeline/report.h"

namespace dtr {

// Of an output that is all zeros, whatever the model computes, the error is as strong as the
// signal: 0 dB. Here it is half as strong.
inline constexpr double kLeastCheckDecibels = 3;

// Runs the program on the first sample (on noise without samples). Its outputs must equal the
// reference of the quantized graph: integers, and what is dequantized from integers, exactly;
// floats up to 2^-20 of the largest. Where they do not, every operator of the compiled graph must
// be right on the operands that the program computed (host/accuracy/check_operators.h), and the
// compiled graph must be the same function in double, unless it quantizes what it computed in
// float: near a tie, float32 may choose the other neighbour. Returns the SQNR against the model as
// it was read, and the simulated cycles, for `compile_report`. Errors: kCheckFailed, naming output,
// index, both values, and the first operator that is wrong; kCheckInaccurate, if a float output of
// the model has less than `least_decibels` (see below).
//
// Not held against a program: an output that is zero in the float model, if the program is within a
// step of quantization; one that float32 itself loses against double; and, where noise stands in
// for samples, the accuracy of a model that was calibrated on others, whose range noise may not
// reach, and errors of two steps and less.
Result<CheckFigures> check_program(const Compilation& compilation,
                                   double least_decibels = kLeastCheckDecibels);

}  // namespace dtr
