// Quantized operators that the placement would run in float on the CPU next to others in float. A
// pair of conversions between two of them costs cycles and codes, and nothing reads the codes.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/partitioner/placement.h"
#include "compiler/quantizer/annotate.h"
#include "compiler/quantizer/calibration.h"

namespace dtr {

struct BetweenFloatsOptions {
  bool io_is_float = true;  // inputs and outputs of the program
  uint64_t most_bytes = 0;  // that the results of the ops found may have in float; more: none
};

// The ops of `float_graph` that need no quantization, in its order: those that fell back to float
// and read a float or make one for another op in float, and those between them that only move data.
// `annotation` is of the float graph, `placement` of what became of it: its ops have the same ids.
std::vector<OpId> find_between_floats(const Graph& float_graph, const Annotation& annotation,
                                      const Placement& placement,
                                      const BetweenFloatsOptions& options);

// Adds to `calibration` what `annotation`, of the same graph with fewer quantized ops, observes in
// addition: values whose readers selected elements before, or that shared a quantization. They have
// the codes of `quantized`, what the graph was converted to. False if a value has none there.
bool complete_statistics(const Graph& quantized, const Annotation& annotation,
                         CalibrationResult& calibration);

// Why an op that was found is not on a delegate.
const Reason& reason_of(const Placement& placement, OpId found);

}  // namespace dtr
