// From patterns to one consistent picture: which values become int8, which of them share a
// quantization, what has to be observed.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/quantizer/pattern.h"

namespace dtr {

// Values that get one and the same quantization.
struct QuantizationGroup {
  QuantSpec spec;  // kAffine, kSymmetric or kFixed
  std::vector<ValueId>
      observed;  // values whose elements decide the range, constants included; empty for kFixed
};

struct AnnotatedOp {
  OpAnnotation specs;
  std::vector<int> operand_groups;  // group in which each operand is read; kNoGroup: as the spec
                                    // says, without a group
};

// What a backend's patterns said about an op.
struct PatternVerdict {
  std::string_view backend;
  std::optional<FloatReason> rejected;  // empty: its pattern decides
};

// An op that reads a value in another quantization than the one in which it is made, so that a
// requantize stands between. The rule: who makes a value decides. Its quantization becomes that of
// ops that share one among operands and results, and symmetric if a reader needs that; a fixed one
// gives way to nobody.
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
      verdicts;  // by op slot: of the backends that were asked, in order
  std::vector<QuantizationConflict> conflicts;
  std::vector<QuantizationGroup> groups;
  // By value slot. For a value that an annotated op makes: its quantization. For any other (input
  // of the graph, result of a float op): the quantization in which most annotated ops read it. An
  // operand may ask for another (operand_groups).
  std::vector<int> group_of_value;
  std::vector<ValueId> selected;  // values that other values stand for in `observed`, because all
                                  // their readers select
};

// Asks the patterns, first come first served, for each op in program order and resolves shared
// specs. Ops that no pattern wants, or that work on other dtypes than float32, stay float with a
// reason.
Annotation annotate(const Graph& graph,
                    std::span<const std::unique_ptr<QuantizationPatterns>> patterns);

// The axis of operand 0 along which a convolution (not a transposed one) or linear layer with
// constant weights sums over channels; nullopt for any other op.
std::optional<int> channel_axis(const Graph& graph, OpId op);

}  // namespace dtr
