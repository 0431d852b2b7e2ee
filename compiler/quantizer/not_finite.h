// Calibration of models that compute NaN or infinity inside, as those do that exclude elements with
// a mask of -inf.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "compiler/quantizer/annotate.h"
#include "compiler/quantizer/calibration.h"

namespace dtr {

// Annotates the graph again, with these ops kept float (Separations::not_finite).
using AnnotateAgain = std::function<Annotation(const std::vector<OpId>& not_finite)>;
// Makes an executor of the graph, whose states have their initial values.
using MakeExecutor = std::function<Result<std::unique_ptr<Executor>>()>;

// The annotated ops that compute or read a value that has NaN or infinity
// (CalibrationResult::not_finite), or its elements in another order.
std::vector<OpId> find_not_finite(const Graph& graph, const Annotation& annotation,
                                  const CalibrationResult& calibration);

// Calibrates, and makes `annotation` anew where ops are to stay float for find_not_finite;
// calibrates again if that observes further values. Each round keeps at least one more op float.
// Errors: those of calibrate and of make_executor.
Result<CalibrationResult> calibrate_finite(const Module& module, const Graph& graph,
                                           Annotation& annotation,
                                           const MakeExecutor& make_executor,
                                           const Samples& samples,
                                           const CalibrationOptions& options,
                                           const AnnotateAgain& annotate_again);

// One warning for all, if the calibration found such values: kCalibrationNotFinite.
std::optional<Diagnostic> not_finite_warning(const Module& module, const Graph& graph,
                                             const CalibrationResult& calibration);

}  // namespace dtr
