#include "compiler/quantizer/separations.h"

#include <utility>

#include "compiler/quantizer/not_finite.h"
#include "compiler/quantizer/small_divisors.h"
#include "compiler/quantizer/steep_functions.h"
#include "compiler/quantizer/unlike_ranges.h"

namespace dtr {

Separations find_separations(const Graph& graph, const Annotation& annotation,
                             const CalibrationResult& calibration) {
  Separations separations = find_unlike_ranges(graph, annotation, calibration);
  separations.small_divisors = find_small_divisors(graph, annotation, calibration);
  separations.steep = steep_functions_of(graph, annotation, calibration);
  return separations;
}

Result<Separations> separate(const Graph& graph, Annotation& annotation,
                             CalibrationResult& calibration, std::vector<OpId> not_finite,
                             const AnnotateApart& annotate_apart, const ObserveAgain& observe) {
  for (;;) {
    Separations separations = find_separations(graph, annotation, calibration);
    const bool apart = !separations.empty();
    separations.not_finite = not_finite;
    if (apart) annotation = annotate_apart(separations);
    if (!observe || is_complete(graph, annotation, calibration)) return separations;
    DTR_ASSIGN(CalibrationResult more, observe(annotation));
    calibration.values.merge(more.values);
    calibration.channels.merge(more.channels);
    calibration.not_finite.merge(more.not_finite);
    const std::vector<OpId> found = find_not_finite(graph, annotation, calibration);
    if (found.empty()) return separations;
    not_finite.insert(not_finite.end(), found.begin(), found.end());
    annotation = annotate_apart({.not_finite = not_finite});
  }
}

}  // namespace dtr
