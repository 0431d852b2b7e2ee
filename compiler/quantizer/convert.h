// Conversion: a float graph, its annotation and its calibration become a quantized graph.
#pragma once

#include <string>
#include <vector>

#include "compiler/quantizer/calibration.h"

namespace dtr {

// An op that stays float in a quantized graph.
struct FloatOp {
  OpId id;
  Place place;
  std::string op;
  FloatReason why;
};

// What every backend said about an op, in the order of the recipe; the one without a reason
// decided.
struct PatternRow {
  Place place;
  std::string op;
  std::vector<PatternVerdict> verdicts;
};

// A value that is read in another quantization than the one in which it is made (annotate.h states
// the rule).
struct ConflictRow {
  std::string value;
  Place reader;
  std::string op;  // of the reader
  bool shared = false;
};

struct ConversionReport {
  size_t quantized_ops = 0;
  std::vector<PatternRow> patterns;  // in the order of the graph
  std::vector<ConflictRow> conflicts;
  std::vector<FloatOp> float_ops;
  // Values that calibration found to be zero everywhere; then channels whose weight scale was
  // widened because their bias would not have fitted, by place.
  std::vector<Diagnostic> notes;
  Graph float_graph;              // as it was; its ops and values have the same ids in the result
  std::vector<ValueId> selected;  // Annotation::selected
};

// The quantization of each group of the annotation, from the merged statistics of what it observes.
// Errors: as `convert`.
Result<std::vector<Quantization>> group_quantizations(const Module& module, const Graph& graph,
                                                      const Annotation& annotation,
                                                      const CalibrationResult& calibration);

// Rewrites `graph` in place: results of annotated ops become int8 with the quantization of their
// group, weights int8 constants, biases int32 constants of scale s_in·s_w; `quantize` and
// `dequantize` stand where float meets int8, `requantize` where an op reads a value in another
// quantization than its own. Inserted ops have the origin of the op that they serve. Inputs and
// outputs stay float. A bias beyond ±2^30 widens the weight scale of its channel, so that bias and
// accumulator share int32 (as TFLite's quantizer does). Errors: kCalibrationMismatch,
// kWeightNotFinite; the graph is then of no further use.
Result<ConversionReport> convert(Module& module, Graph& graph, const Annotation& annotation,
                                 const CalibrationResult& calibration);

}  // namespace dtr
