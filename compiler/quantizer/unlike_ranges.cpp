#include "compiler/quantizer/unlike_ranges.h"

#include <algorithm>
#include <span>

#include "compiler/ops/ops.h"

namespace dtr {
namespace {

// Two bits of the operand's eight are lost; a rescale costs less.
constexpr double kUnlike = 4;
// Four bits of an output's smallest part are lost; a float concatenation costs about what
// dequantizing the output does.
constexpr double kUnlikeOutputs = 16;

class Finder {
 public:
  Finder(const Graph& graph, const Annotation& annotation, const CalibrationResult& calibration)
      : graph_(graph), annotation_(annotation), calibration_(calibration) {}

  Separations find() const {
    Separations found;
    for (const OpId id : graph_.ops()) {
      if (!annotation_.ops[id.index] || !shares_quantization(id)) continue;
      const double joint = width_of(group_of(id).observed);
      if (joint == 0) continue;
      const Op& op = graph_.op(id);
      double smallest = joint;
      std::vector<Use> unlike;
      for (uint32_t i = 0; i < op.operands.size(); ++i) {
        const double own = width_of({&op.operands[i], 1});
        if (own == 0) continue;
        smallest = std::min(smallest, own);
        if (joint > kUnlike * own && has_other_reader(op.operands[i], id))
          unlike.push_back({id, i});
      }
      const Value& result = graph_.value(op.results[0]);
      if (op.def == &ops::kCat && result.uses.empty() && joint > kUnlikeOutputs * smallest) {
        found.kept_float.push_back(id);
      } else {
        found.apart.insert(found.apart.end(), unlike.begin(), unlike.end());
      }
    }
    return found;
  }

 private:
  const QuantizationGroup& group_of(OpId op) const {
    return annotation_
        .groups[static_cast<size_t>(annotation_.ops[op.index]->operand_groups.front())];
  }

  // Several operands have one quantization, which is not given.
  bool shares_quantization(OpId id) const {
    const AnnotatedOp& op = *annotation_.ops[id.index];
    return op.specs.operands.size() > 1 && op.specs.operands[1].kind == QuantSpec::Kind::kShared &&
           op.operand_groups.front() != Annotation::kNoGroup &&
           group_of(id).spec.kind != QuantSpec::Kind::kFixed;
  }

  // Of the least range that holds zero and all elements of the values; 0 if they are not known.
  double width_of(std::span<const ValueId> values) const {
    double low = 0, high = 0;
    for (const ValueId id : values) {
      if (graph_.is_constant(id)) continue;
      const auto at = calibration_.values.find(graph_.value(id).name);
      if (at == calibration_.values.end() || at->second.empty()) continue;
      low = std::min(low, static_cast<double>(at->second.range().min));
      high = std::max(high, static_cast<double>(at->second.range().max));
    }
    return high - low;
  }

  bool has_other_reader(ValueId value, OpId reader) const {
    const Value& v = graph_.value(value);
    return v.output_uses > 0 ||
           std::ranges::any_of(v.uses, [&](const Use& use) { return use.op != reader; });
  }

  const Graph& graph_;
  const Annotation& annotation_;
  const CalibrationResult& calibration_;
};

}  // namespace

Separations find_unlike_ranges(const Graph& graph, const Annotation& annotation,
                               const CalibrationResult& calibration) {
  return Finder(graph, annotation, calibration).find();
}

}  // namespace dtr
