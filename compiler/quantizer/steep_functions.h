// Finds values that int8 cannot carry because a steep function reads them: a logarithm, a root, a
// power below one, a reciprocal or a divisor, or a sine of many periods. Codes are equally far
// apart, so that a power spectrum of six decades has codes for its greatest two alone, and the
// logarithm of the others is noise; of a time from 0 to 1000, a period of a sine has two codes.
#pragma once

#include <functional>
#include <memory>

#include "compiler/executors/executor.h"
#include "compiler/ir/samples.h"
#include "compiler/quantizer/annotate.h"
#include "compiler/quantizer/calibration.h"

namespace dtr {

// Makes an executor of the float graph whose observers see values in their logical order.
using MakeLogicalExecutor = std::function<Result<std::unique_ptr<Executor>>()>;

// Adds to `calibration.steep` the ops that are to stay float for a steep function, by the name of
// their result. The graph is evaluated in float on 4 to 32 samples, round one function at a time:
// the function itself, what is float already in front of it, and what light ops (elementwise,
// moves, sums, means) make of its result. The values where those end are judged, by the ratio in dB
// of their variance to the squared error that codes make.
//   · Below 20 dB, with codes for the function's operand and result and for what light ops compute
//     with the result, the function stays float.
//   · A value beside a float op that takes the judged ones below 30 dB by its own codes becomes
//     float: the op that makes it, or the light ops that read it.
//   · A product (convolution, linear layer, product of matrices) joins them if it has at most an
//     eighth of the graph's multiplications, or if the judged values have less than 10 dB and
//     nothing else reads its result.
//   · What does not gain 6 dB stays int8.
// Nothing is added if values that the annotation observes have no statistics. Errors: those of the
// executor.
Result<void> find_steep_functions(const Module& module, const Graph& graph,
                                  const Annotation& annotation,
                                  const MakeLogicalExecutor& make_executor, const Samples& samples,
                                  CalibrationResult& calibration);

// The annotated ops that `calibration.steep` names.
std::vector<OpId> steep_functions_of(const Graph& graph, const Annotation& annotation,
                                     const CalibrationResult& calibration);

}  // namespace dtr
