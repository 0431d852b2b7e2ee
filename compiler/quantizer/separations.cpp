#include "compiler/quantizer/separations.h"

#include "compiler/quantizer/small_divisors.h"
#include "compiler/quantizer/unlike_ranges.h"

namespace dtr {

Separations find_separations(const Graph& graph, const Annotation& annotation,
                             const CalibrationResult& calibration) {
  Separations separations = find_unlike_ranges(graph, annotation, calibration);
  separations.small_divisors = find_small_divisors(graph, annotation, calibration);
  return separations;
}

}  // namespace dtr
