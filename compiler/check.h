// The compare at the end of a compilation: what was built runs once and is held against the graph it was built from.
#pragma once

#include "compiler/compile.h"

namespace dtr {

// Runs the program on the first sample (on noise without samples). Its outputs must equal the reference of `quantized`: integers, and what
// is dequantized from integers, exactly; floats up to 2^-20 of the largest. Where they do not, every operator of the compiled graph must be
// right on the operands that the program computed (compiler/check_operators.h), and the compiled graph must be the same function in double,
// unless it quantizes what it computed in float: near a tie, float32 may choose the other neighbour. SQNR against `original` goes into the
// report, with the simulated cycles. Error: kCheckFailed, naming output, index, both values, and the first operator that is wrong.
Status check_program(const Program& program, const Graph& original, const Graph& quantized, const Samples* samples,
                     CompiledProgram& compiled);

}  // namespace dtr
