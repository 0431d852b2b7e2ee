// The compare at the end of a compilation: what was built runs once and is held against the graph it was built from.
#pragma once

#include "compiler/compile.h"

namespace dtr {

// Runs the program on the first sample (on noise without samples): its outputs must equal the integer reference of `quantized` wherever
// both are integers or dequantized from equal integers; where ops between quantized values run in float, those of the graph as it was
// compiled, up to one step of quantization (a tie may round to either side). SQNR against `original` goes into the report, with the
// simulated cycles. Error: kCheckFailed, naming output, index and both values.
Status check_program(const Program& program, const Graph& original, const Graph& quantized, const Samples* samples,
                     CompiledProgram& compiled);

}  // namespace dtr
