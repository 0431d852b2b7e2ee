// Reports where quantization loses accuracy: the error of each tensor, and the error that each
// operator adds.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/samples.h"
#include "compiler/pipeline/compilation.h"
#include "compiler/quantizer/observer.h"

namespace dtr {

// A channel whose elements take a small part of the range that all channels share.
struct NarrowChannel {
  int64_t channel = 0;
  Range range;
};

// A quantized tensor compared with the same tensor of the float model, over all samples.
struct TensorRow {
  std::string name;
  Range range;  // of the float model's elements
  float scale = 0;
  int32_t zero_point = 0;
  double saturated = 0;   // share of elements more than half a step outside of the range of codes
  double sqnr_db = 0;     // relative to the float model: all accumulated errors
  bool selected = false;  // the readers never select elements that saturate, which are not counted
  // If a quarter of the channels (along the second or the last axis) have less than 16 codes: the
  // narrowest of them that is not zero.
  std::optional<NarrowChannel> narrow = {};
};

// An operator of the quantized graph.
struct ErrorRow {
  std::string name, op, module_path, source_line;
  std::string tensor;  // its result
  // relative to the float operator on the same quantized operands: rounding of weights and result
  double adds_db = 0;
  double sqnr_db = 0;    // of the result, relative to the float model
  double saturated = 0;  // of the result
  // Of the outputs' error (host/accuracy/error_shares.h); an operator with several results has it
  // at the first. Absent: not computed.
  std::optional<double> share = {};
  // Parts of the error that it adds, 0 to 1: the rounding of weights (and other approximations),
  // and the saturation of the result. The rest is the rounding of the result.
  double by_weights = 0, by_saturation = 0;
  // If the weights of a quarter of the input channels have less than 16 codes: the channel with the
  // fewest.
  std::optional<int64_t> narrow_weights = {};
};

struct QuantizationReport {
  size_t samples = 0;
  double bad_db = 0;
  std::vector<TensorRow> tensors;  // in program order
  // The largest share of the outputs' error first; without shares, the most added error (relative
  // to the result).
  std::vector<ErrorRow> operators;
  std::string first_bad;  // the first tensor, in program order, below bad_db; empty: none
  std::vector<std::string> float_ops;  // operators that are not quantized
  size_t share_samples = 0;            // from which shares were computed; 0: there are none
  double outputs_db = 99;              // of the worst float output, relative to the float model
  bool has_float_outputs = true;
  std::string advice;  // one sentence; empty: none
};

struct QuantizationReportOptions {
  size_t samples = 8;   // at most
  double bad_db = 10;   // as `deuteron verify`
  bool shares = false;  // compute ErrorRow::share, which takes the time of many runs
};

// The float counterpart of a quantized graph: the same ops and ids, with dequantized constants and
// without rounding.
Graph float_counterpart(const Graph& quantized);

// Runs `ideal` and `quantized`, which have the same ids, on the same samples. `selected`:
// Annotation::selected. Errors: those of the executors.
Result<QuantizationReport> report_quantization(const Module& module, const Graph& ideal,
                                               const Graph& quantized, const Samples& samples,
                                               std::span<const ValueId> selected = {},
                                               const QuantizationReportOptions& options = {});

// The report of a quantized compilation, on its samples; advice is for models that were quantized
// here. Errors: kCalibrationMissing (it has no samples), and those of the executors.
Result<QuantizationReport> report_quantization(const Compilation& compilation,
                                               const QuantizationReportOptions& options = {});

std::string to_text(const QuantizationReport& report);
std::string to_json(const QuantizationReport& report);

}  // namespace dtr
