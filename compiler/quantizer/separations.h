// Finds what the ranges of calibration change in an annotation: one list for every command that
// quantizes, so that training simulates what `compile` makes of the same samples.
#pragma once

#include "compiler/quantizer/annotate.h"
#include "compiler/quantizer/calibration.h"

namespace dtr {

// Values of unlike ranges (unlike_ranges.h) and divisions by small divisors (small_divisors.h).
// Empty if the annotation can stay as it is; else the graph is annotated again, with what the
// caller keeps float added.
Separations find_separations(const Graph& graph, const Annotation& annotation,
                             const CalibrationResult& calibration);

}  // namespace dtr
