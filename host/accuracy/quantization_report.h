// Where quantization loses accuracy: tensor by tensor, and operator by operator what each adds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/ir/samples.h"
#include "compiler/pipeline/compilation.h"
#include "compiler/quantizer/observer.h"

namespace dtr {

// A quantized tensor beside the same tensor of the float model, over all samples.
struct TensorRow {
  std::string name;
  Range range;  // of the float model's elements
  float scale = 0;
  int32_t zero_point = 0;
  double saturated = 0;   // share of the elements more than half a step beyond the codes
  double sqnr_db = 0;     // against the float model: all errors so far
  bool selected = false;  // what saturates is never selected by the readers, and does not count
};

// An operator of the quantized graph.
struct ErrorRow {
  std::string name, op, module_path, source_line;
  std::string tensor;    // its result
  double adds_db = 0;    // against the float operator on the same, already quantized, operands:
                         // rounding of weights and result
  double sqnr_db = 0;    // of the result against the float model
  double saturated = 0;  // of the result
};

struct QuantizationReport {
  size_t samples = 0;
  double bad_db = 0;
  std::vector<TensorRow> tensors;   // in program order
  std::vector<ErrorRow> operators;  // the most added error (relative to the result) first
  std::string first_bad;            // the first tensor, in program order, below bad_db; empty: none
  std::vector<std::string> float_ops;  // operators that are not quantized
};

struct QuantizationReportOptions {
  size_t samples = 8;  // at most
  double bad_db = 10;  // as `deuteron verify`
};

// The float counterpart of a graph that came quantized: the same ops and ids, constants
// dequantized, no rounding in between.
Graph float_counterpart(const Graph& quantized);

// Runs `ideal` and `quantized`, which have the same ids, side by side. `selected`:
// Annotation::selected. Errors: those of the executors.
Result<QuantizationReport> report_quantization(const Module& module, const Graph& ideal,
                                               const Graph& quantized, const Samples& samples,
                                               std::span<const ValueId> selected = {},
                                               const QuantizationReportOptions& options = {});

// Of a compilation that is quantized, on its samples. Errors: kCalibrationMissing (it has none),
// and those of the executors.
Result<QuantizationReport> report_quantization(const Compilation& compilation);

std::string to_text(const QuantizationReport& report);
std::string to_json(const QuantizationReport& report);

}  // namespace dtr
