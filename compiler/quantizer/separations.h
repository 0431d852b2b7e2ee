// Finds what the ranges of calibration change in an annotation: one list for every command that
// quantizes, so that training simulates what `compile` makes of the same samples.
#pragma once

#include <functional>

#include "compiler/quantizer/annotate.h"
#include "compiler/quantizer/calibration.h"

namespace dtr {

// Values of unlike ranges (unlike_ranges.h), divisions by small divisors (small_divisors.h) and
// what steep functions read (`calibration.steep`). Empty if the annotation can stay as it is; else
// the graph is annotated again, with what the caller keeps float added.
Separations find_separations(const Graph& graph, const Annotation& annotation,
                             const CalibrationResult& calibration);

// Annotates the graph again; the caller adds what it keeps float itself.
using AnnotateApart = std::function<Annotation(const Separations&)>;
// Observes what the annotation lists, over the samples of `calibration`.
using ObserveAgain = std::function<Result<CalibrationResult>(const Annotation&)>;

// Annotates the graph as find_separations asks, and returns what it found. An op that stays float
// reads all of its operand, of which calibration may have observed only what the op selected
// (conv → clamp → divide): `observe` then adds the statistics that `calibration` lacks. Without
// `observe`, there are no samples, the lack is an error of `convert`. `not_finite`: ops that stay
// float already for NaN or infinity; the result has those of the added values with them. Errors:
// those of `observe`.
Result<Separations> separate(const Graph& graph, Annotation& annotation,
                             CalibrationResult& calibration, std::vector<OpId> not_finite,
                             const AnnotateApart& annotate_apart, const ObserveAgain& observe);

}  // namespace dtr
