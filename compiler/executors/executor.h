// Runs graphs on the host: the interface for calibration, verification and tests, and its reference
// implementation.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace dtr {

// Called with every value once it is computed (first inputs, no constants); the tensor is valid
// during the call only.
using ValueObserver = std::function<void(ValueId, const TensorView&)>;

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs the graph once. `inputs` must have dtype and logical shape of the graph's inputs. An
  // executor may evaluate float graphs in double if its factory says so. Thread-safe. Errors:
  // kOutOfMemory, kPluginKernelFailed.
  virtual Result<std::vector<Tensor>> run(std::span<const TensorView> inputs,
                                          const ValueObserver& observer = {}) = 0;
};

// The type in which the reference executor evaluates float ops.
enum class Precision : uint8_t { kFloat, kDouble };

// The function of its OpDef by which the reference executor evaluates an op; nullptr: none can.
Evaluation reference_evaluation(const Graph& graph, OpId op,
                                Precision precision = Precision::kFloat);

// Evaluates one op after the other by its OpDef: with the integer evaluation if the first operand
// or result is a quantized integer, else in float. kDouble evaluates float ops in double: inputs
// and constants are converted, and outputs have f64.
std::unique_ptr<Executor> make_reference_executor(const Module& module, const Graph& graph,
                                                  Precision precision = Precision::kFloat);

}  // namespace dtr
