// Compares each operator's result in the compiled program with the model evaluated in float, as
// PyTorch does; a quantized model is evaluated with its quantizations.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/samples.h"
#include "host/accuracy/compare.h"
#include "host/profiler/trace.h"
#include "host/session/session.h"
#include "host/tasks/tasks.h"

namespace dtr {

struct LayerError {
  std::string name, op, module_path, source_line;  // of the source operator
  std::string where;  // "value" of the program, or "npu": inside a delegate
  std::string dtype;  // of the program's tensor
  double sqnr_db = 0;
  double max_error = 0;  // largest absolute difference, in real values
  double steps = 0;      // the same in quantization steps; float tensors have none: 0
  double differing = 0;  // share of the elements that are more than half a step apart (float
                         // tensors: not equal), 0 to 1
  bool fused =
      // computed inside another operator's kernel call, so that there is no result to compare
      false;
};

// A row for each operator of the model whose result is in the program or was fused, in the model's
// order. `executor` runs the samples; `session` is the first of its workers. Errors: kNoDebugMap,
// kVerifyMismatch (the program was not compiled from this model), and those of running.
Result<std::vector<LayerError>> verify_layers(Session& session, const Module& model,
                                              const Samples& samples, size_t count,
                                              TaskExecutor& executor,
                                              const ProgressFunction& progress = {});

// The first layer below `least_decibels`; null: none.
const LayerError* first_bad(const std::vector<LayerError>& layers, double least_decibels);
// The table, and what is bad.
std::string to_text(const std::vector<LayerError>& layers, double least_decibels);
// {"checksum", "target", "layers": [{"name", "op", …}]}, of the program that was verified.
std::string to_json(const TraceSource& program, const std::vector<LayerError>& layers);

}  // namespace dtr
