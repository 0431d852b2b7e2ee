#include "compiler/quantizer/not_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dtr {
namespace {

bool is_not_finite(const Graph& graph, ValueId value, const CalibrationResult& calibration) {
  return value.valid() && calibration.not_finite.contains(graph.value(value).name);
}

}  // namespace

std::vector<OpId> find_not_finite(const Graph& graph, const Annotation& annotation,
                                  const CalibrationResult& calibration) {
  if (calibration.not_finite.empty()) return {};
  std::vector<bool> values(graph.value_slots(), false), reached(graph.op_slots(), false);
  std::vector<ValueId> open;
  const auto add = [&](ValueId value) {
    if (!value.valid() || graph.is_constant(value) || values[value.index]) return;
    values[value.index] = true;
    open.push_back(value);
  };
  const auto reach = [&](OpId id) {
    if (!id.valid()) return;
    reached[id.index] = true;
    const Op& op = graph.op(id);
    if (!op.def->has_trait(kMovesData) || op.operands.size() != 1) return;
    add(op.operands[0]);
    for (const ValueId result : op.results) add(result);
  };
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    for (const std::vector<ValueId>* each : {&op.operands, &op.results})
      for (const ValueId value : *each)
        if (is_not_finite(graph, value, calibration)) add(value);
  }
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    reach(graph.producer(value));
    for (const Use& use : graph.value(value).uses) reach(use.op);
  }
  std::vector<OpId> found;
  for (const OpId id : graph.ops())
    if (reached[id.index] && annotation.ops[id.index]) found.push_back(id);
  return found;
}

Result<CalibrationResult> calibrate_finite(const Module& module, const Graph& graph,
                                           Annotation& annotation,
                                           const MakeExecutor& make_executor,
                                           const Samples& samples,
                                           const CalibrationOptions& options,
                                           const AnnotateAgain& annotate_again) {
  std::vector<OpId> kept;
  decltype(CalibrationResult::not_finite) before;
  for (;;) {
    DTR_ASSIGN(const std::unique_ptr<Executor> executor, make_executor());
    DTR_ASSIGN(CalibrationResult result,
               calibrate(module, graph, annotation, *executor, samples, options));
    result.not_finite.merge(before);
    const std::vector<OpId> found = find_not_finite(graph, annotation, result);
    if (found.empty()) return result;
    kept.insert(kept.end(), found.begin(), found.end());
    annotation = annotate_again(kept);
    if (is_complete(graph, annotation, result)) return result;
    before = std::move(result.not_finite);
  }
}

std::optional<Diagnostic> not_finite_warning(const Module& module, const Graph& graph,
                                             const CalibrationResult& calibration) {
  size_t values = 0;
  OpId first;
  size_t sample = 0;
  for (const OpId id : graph.ops())
    for (const ValueId value : graph.op(id).results) {
      if (!is_not_finite(graph, value, calibration)) continue;
      if (values++ > 0) continue;
      first = id;
      sample = calibration.not_finite.find(graph.value(value).name)->second;
    }
  if (values == 0) return std::nullopt;
  return Diagnostic{
      .id = DiagnosticId::kCalibrationNotFinite,
      .reason = fmt::format(
          "the float model computes NaN or infinity on calibration sample {}{}; no output has it, "
          "and operators that compute or read it stay float",
          sample, values > 1 ? fmt::format(", in {} values", values) : ""),
      .fix =
          "nothing, if that is meant, as in a mask of -inf; -1e4 in its place lets the "
          "operators run in int8",
      .place = place_of(module, graph, first),
      .severity = Severity::kWarning};
}

}  // namespace dtr
