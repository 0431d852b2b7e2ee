// Resolves the patterns' specs for all ops of a graph: which values become int8, which of them
// share a quantization, and which values calibration must observe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/quantizer/pattern.h"

namespace dtr {

// Values that share one quantization.
struct QuantizationGroup {
  QuantSpec spec;  // kAffine, kSymmetric or kFixed
  std::vector<ValueId>
      observed;  // values whose elements determine the range, with constants; empty if it is given
};

struct AnnotatedOp {
  OpAnnotation specs;
  // group whose quantization each operand is read in; kNoGroup: the spec alone determines it
  std::vector<int> operand_groups;
};

// The verdict of a backend's patterns on an op.
struct PatternVerdict {
  std::string_view backend;
  std::optional<FloatReason> rejected;  // empty: its pattern was accepted
};

// An op that reads a value in another quantization than that of the value, so that a requantize is
// inserted. The op that computes a value determines its quantization: that of the group if the op
// shares one among operands and results, a symmetric one if a reader requires it. A fixed
// quantization is never changed.
struct QuantizationConflict {
  ValueId value;
  OpId reader;
  bool shared = false;  // the reader shares one quantization among several values
};

struct Annotation {
  static constexpr int kNoGroup = -1;

  std::vector<std::optional<AnnotatedOp>> ops;  // by op slot; empty: the op stays float
  std::vector<FloatReason> reasons;             // by op slot: why it stays float
  std::vector<std::vector<PatternVerdict>>
      verdicts;  // by op slot: of the backends in the recipe's order, up to the one that accepted
  std::vector<QuantizationConflict> conflicts;
  std::vector<QuantizationGroup> groups;
  // By value slot. For a result of an annotated op: its quantization. For any other value (input of
  // the graph, result of a float op): the quantization in which most annotated ops read it. An
  // operand may be read in another one (operand_groups).
  std::vector<int> group_of_value;
  // values that are not observed themselves, or not all of their elements, because all their
  // readers select: `observed` has other values for them, or they have a window
  std::vector<ValueId> selected;
  // By value slot: the elements that the readers of an observed value tell apart.
  std::vector<std::optional<ReadWindow>> windows;
};

// What is not to be quantized as its pattern says, by the ranges that calibration found.
struct Separations {
  std::vector<Use> apart;            // operands with a quantization of their own, rescaled for
                                     // the op (unlike_ranges.h)
  std::vector<OpId> kept_float;      // ops that stay float (unlike_ranges.h)
  std::vector<OpId> small_divisors;  // divisions and their operands' ops (small_divisors.h)
  std::vector<OpId> steep;           // what a steep function reads (steep_functions.h)
  std::vector<OpId> asked_float;     // ops that the caller's options keep float
  std::vector<OpId> not_finite;      // ops that compute or read NaN or infinity
  std::vector<OpId> scaling;         // products that scale channels of an input (equalize.h)
  std::map<OpId, FloatReason> between_floats;  // ops that the CPU runs in float next to others
  bool empty() const {
    return apart.empty() && kept_float.empty() && small_divisors.empty() && steep.empty() &&
           asked_float.empty() && not_finite.empty() && between_floats.empty();
  }
};

// Asks the patterns in order for each op, in program order; the first that accepts determines the
// specs. Resolves shared specs. Ops that no pattern accepts, or that compute on other dtypes than
// float32, stay float with a reason.
Annotation annotate(const Graph& graph,
                    std::span<const std::unique_ptr<QuantizationPatterns>> patterns,
                    const Separations& separations = {});

// The axis of operand 0 along which a convolution (not a transposed one) or linear layer with
// constant weights sums over channels; std::nullopt for other ops.
std::optional<int> channel_axis(const Graph& graph, OpId op);

}  // namespace dtr
