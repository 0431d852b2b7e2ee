// Finds where values of unlike ranges would share one quantization. Joining copies codes, so that a
// concatenation and all its operands have one scale, the coarsest: an operand that others read too
// is better quantized by itself and rescaled on its way into the concatenation, and an output that
// joins boxes and scores is better joined in float.
#pragma once

#include <vector>

#include "compiler/quantizer/annotate.h"
#include "compiler/quantizer/calibration.h"

namespace dtr {

// What a second annotation is to do otherwise. Values without statistics are left as they are.
Separations find_unlike_ranges(const Graph& graph, const Annotation& annotation,
                               const CalibrationResult& calibration);

}  // namespace dtr
