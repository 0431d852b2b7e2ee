// Runs graphs on the host: the interface that calibration, verification and tests use, and its
// reference implementation.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace dtr {

// Called with every value as soon as it is computed (inputs first, constants never); the tensor is
// valid during the call only.
using ValueObserver = std::function<void(ValueId, const TensorView&)>;

class Executor {
 public:
  virtual ~Executor() = default;
  // One run. `inputs` have dtype and logical shape of the graph's inputs (checked by the caller).
  // Float graphs may be run in double by an executor that says so. Thread-safe: several runs at
  // once.
  virtual Result<std::vector<Tensor>> run(std::span<const TensorView> inputs,
                                          const ValueObserver& observer = {}) = 0;
};

enum class Precision : uint8_t { kFloat, kDouble };

// One op after the other by its OpDef's evaluation: integer where its first operand or result is
// quantized integer, float else. kDouble evaluates float ops in double (inputs and constants are
// converted, outputs come back as f64).
std::unique_ptr<Executor> make_reference_executor(const Module& module, const Graph& graph,
                                                  Precision precision = Precision::kFloat);

}  // namespace dtr
