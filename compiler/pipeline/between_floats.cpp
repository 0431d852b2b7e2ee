#include "compiler/pipeline/between_floats.h"

#include <algorithm>
#include <optional>
#include <span>

#include "compiler/ir/op_def.h"
#include "compiler/support/diagnostic.h"

namespace dtr {
namespace {

// A larger state takes a quarter of the memory between runs as codes.
constexpr int64_t kMostStateBytes = 1024;

class Finder {
 public:
  Finder(const Graph& graph, const Annotation& annotation, const Placement& placement,
         const BetweenFloatsOptions& options)
      : graph_(graph),
        annotation_(annotation),
        placement_(placement),
        options_(options),
        is_float_(graph.op_slots()),
        keeps_codes_(graph.value_slots()) {
    for (size_t i = 0; i < graph.state_count(); ++i)
      for (const ValueId state : {graph.state(i), graph.next_state(i)})
        keeps_codes_[state.index] = graph.type(state).bytes() > kMostStateBytes;
    if (options.io_is_float) return;
    const auto inputs =
        std::span(graph.inputs()).first(graph.inputs().size() - graph.state_count());
    const auto outputs =
        std::span(graph.outputs()).first(graph.outputs().size() - graph.state_count());
    for (const ValueId input : inputs) keeps_codes_[input.index] = true;
    for (const ValueId output : outputs) keeps_codes_[output.index] = true;
  }

  std::vector<OpId> find() {
    // What moves data of floats follows them; what computes may have become float behind it.
    mark_what_runs_in_float();
    std::vector<OpId> found;
    uint64_t bytes = 0;
    for (const OpId id : graph_.ops()) {
      if (!is_float_[id.index] || !annotation_.ops[id.index] || !saves_conversions(id)) continue;
      found.push_back(id);
      for (const ValueId result : graph_.op(id).results)
        bytes += static_cast<uint64_t>(graph_.type(result).bytes());
    }
    if (bytes > options_.most_bytes) found.clear();
    return found;
  }

 private:
  bool fell_back(OpId id) const {
    const auto at = placement_.in_float.find(id);
    return at != placement_.in_float.end() && placement_.reasons[at->second.index];
  }
  bool moves_on_cpu(OpId id) const {
    return graph_.op(id).def->has_trait(kMovesData) && placement_.reasons[id.index];
  }
  bool touches_codes(OpId id) const {
    const auto keeps = [&](ValueId value) -> bool {
      return value.valid() && keeps_codes_[value.index];
    };
    return std::ranges::any_of(graph_.op(id).operands, keeps) ||
           std::ranges::any_of(graph_.op(id).results, keeps);
  }
  // Of a value that is no constant.
  bool is_float_value(ValueId value) const {
    const OpId producer = graph_.producer(value);
    return producer.valid() ? is_float_[producer.index] : !keeps_codes_[value.index];
  }
  bool reads_floats_only(OpId id) const {
    return std::ranges::all_of(graph_.op(id).operands, [&](ValueId value) {
      return !value.valid() || graph_.is_constant(value) || is_float_value(value);
    });
  }

  void mark_what_runs_in_float() {
    for (const OpId id : graph_.ops()) {
      if (!annotation_.ops[id.index]) {
        is_float_[id.index] = true;
      } else if (!touches_codes(id)) {
        is_float_[id.index] = fell_back(id) || (moves_on_cpu(id) && reads_floats_only(id));
      }
    }
  }

  bool saves_conversions(OpId id) const {
    const Op& op = graph_.op(id);
    const bool reads = std::ranges::any_of(op.operands, [&](ValueId value) {
      return value.valid() && !graph_.is_constant(value) && is_float(graph_.type(value).dtype) &&
             is_float_value(value);
    });
    return reads || std::ranges::any_of(op.results, [&](ValueId result) {
             const Value& value = graph_.value(result);
             return value.output_uses > 0 ||
                    std::ranges::any_of(value.uses, [&](const Use& use) -> bool {
                      return is_float_[use.op.index];
                    });
           });
  }

  const Graph& graph_;
  const Annotation& annotation_;
  const Placement& placement_;
  const BetweenFloatsOptions& options_;
  std::vector<bool> is_float_;     // by op slot: it runs in float, or moves floats
  std::vector<bool> keeps_codes_;  // by value slot: of int8 inputs and outputs, and large states
};

}  // namespace

std::vector<OpId> find_between_floats(const Graph& float_graph, const Annotation& annotation,
                                      const Placement& placement,
                                      const BetweenFloatsOptions& options) {
  return Finder(float_graph, annotation, placement, options).find();
}

bool complete_statistics(const Graph& quantized, const Annotation& annotation,
                         CalibrationResult& calibration) {
  for (const QuantizationGroup& group : annotation.groups)
    for (const ValueId id : group.observed) {
      const Value& value = quantized.value(id);
      if (value.constant.valid() || calibration.values.contains(value.name)) continue;
      if (!value.type.quantized() || value.type.quantization->per_channel()) return false;
      const Quantization& codes = *value.type.quantization;
      std::vector<float> elements;
      for (int32_t code = codes.qmin; code <= codes.qmax; ++code)
        elements.push_back(codes.scale() * static_cast<float>(code - codes.zero_point()));
      ValueStatistics statistics(group.spec.observer != QuantSpec::Observer::kMinMax);
      if (!statistics.observe(elements)) return false;
      calibration.values.emplace(value.name, std::move(statistics));
    }
  return true;
}

const Reason& reason_of(const Placement& placement, OpId found) {
  const auto at = placement.in_float.find(found);
  const OpId placed = at == placement.in_float.end() ? found : at->second;
  const std::optional<Reason>& reason = placement.reasons[placed.index];
  DTR_CHECK(reason.has_value());
  return *reason;
}

}  // namespace dtr
