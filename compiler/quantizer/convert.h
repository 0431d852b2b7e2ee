// Converts a float graph, with its annotation and calibration, to a quantized graph.
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

// The verdicts of backends on an op, in the order of the recipe; the one without a reason accepted
// it.
struct PatternRow {
  Place place;
  std::string op;
  std::vector<PatternVerdict> verdicts;
};

// A value that an op reads in another quantization than its own (annotate.h has the rule).
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
  // Values that were zero in all of calibration; then channels whose weight scale was widened
  // because their bias would have overflowed.
  std::vector<Diagnostic> notes;
  // the graph before the conversion; its ops and values have the same ids afterwards
  Graph float_graph;
  std::vector<ValueId> selected;  // Annotation::selected
};

// The quantization of each group of the annotation, from the merged statistics of the values that
// it observes. Works on up to `threads` threads (0: default_threads()), with the same result.
// Errors: as `convert`.
Result<std::vector<Quantization>> group_quantizations(const Module& module, const Graph& graph,
                                                      const Annotation& annotation,
                                                      const CalibrationResult& calibration,
                                                      unsigned threads);

// The same of one group. Errors: as `convert`.
Result<Quantization> group_quantization(const Module& module, const Graph& graph,
                                        const QuantizationGroup& group,
                                        const CalibrationResult& calibration);

// Rewrites `graph` in place: results of annotated ops become int8 with the quantization of their
// group, weights int8 constants, biases int32 constants of scale s_in·s_w. Inserts `quantize` and
// `dequantize` between float and int8, and `requantize` where an op reads a value in another
// quantization than its own; they have the origin of the op that they serve. Inputs and outputs
// stay float. A bias beyond ±2^30 widens the weight scale of its channel, so that bias and
// accumulator fit int32 together (as in TFLite's quantizer). Works on up to `threads` threads (0:
// default_threads()), with the same result. Errors: kCalibrationMismatch,
// kWeightNotFinite; the graph is then unusable.
Result<ConversionReport> convert(Module& module, Graph& graph, const Annotation& annotation,
                                 const CalibrationResult& calibration, unsigned threads = 0);

}  // namespace dtr
