#include "host/commands/run_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "device/pte/program_generated.h"
#include "host/commands/inference.h"

namespace dtr {

std::vector<NamedTensor> stacked(const std::vector<std::vector<Tensor>>& by_sample) {
  std::vector<NamedTensor> arrays;
  for (size_t output = 0; output < by_sample.front().size(); ++output) {
    const Tensor& first = by_sample.front()[output];
    Shape shape = first.shape();
    if (!shape.empty() && shape[0] == 1) shape.erase(shape.begin());
    shape.insert(shape.begin(), static_cast<int64_t>(by_sample.size()));
    Tensor all(first.dtype(), shape);
    for (size_t i = 0; i < by_sample.size(); ++i) {
      const auto bytes = by_sample[i][output].bytes();
      std::memcpy(all.view().data + i * bytes.size(), bytes.data(), bytes.size());
    }
    arrays.push_back({fmt::format("output_{}", output), std::move(all)});
  }
  return arrays;
}

std::vector<Diagnostic> nan_warnings(const Graph& signature, const Samples& samples, size_t count,
                                     const std::string& file) {
  std::vector<Diagnostic> warnings;
  for (size_t input = 0; input < signature.inputs().size(); ++input) {
    size_t found = 0, values = 0;
    for (size_t i = 0; i < count; ++i) {
      const TensorView view = samples.inputs(i)[input];
      if (view.dtype != DType::kFloat32) break;
      const std::span<const float> data = view.values<float>();
      found += static_cast<size_t>(
          std::ranges::count_if(data, [](float value) { return std::isnan(value); }));
      values += data.size();
    }
    if (found == 0) continue;
    warnings.push_back(
        {.id = DiagnosticId::kRunInputNan,
         .reason = fmt::format(
             "{} of {} values are NaN, which a quantized program converts to an ordinary number",
             found, values),
         .fix = "look for what makes them; results that depend on them mean nothing",
         .place = {.file = file, .node = signature.value(signature.inputs()[input]).name},
         .severity = Severity::kWarning});
  }
  return warnings;
}

Result<void> check_repeat(const Session& session, uint32_t repeat) {
  if (repeat <= 1 || !session.has_states()) return {};
  return fail(DiagnosticId::kRunInput,
              "the program keeps states between runs, so that a sample cannot be repeated alone",
              "run each sample once, or give the samples several times",
              {.file = session.pte_file().path()});
}

std::vector<std::string> step_names(const PteFile& pte_file) {
  const pte::ExecutionPlan& plan = pte_file.plan();
  std::vector<std::string> names;
  for (const pte::Instruction* step : *plan.chains()->Get(0)->instructions()) {
    const auto* call = step->instr_args_as_KernelCall();
    names.push_back(
        call != nullptr
            ? plan.operators()->Get(static_cast<uint32_t>(call->op_index()))->name()->str()
            : plan.delegates()
                  ->Get(static_cast<uint32_t>(step->instr_args_as_DelegateCall()->delegate_index()))
                  ->id()
                  ->str());
  }
  return names;
}

std::string stats_json(const PteFile& pte_file, const RunStats& stats, size_t samples) {
  std::vector<double> times = stats.milliseconds;
  std::sort(times.begin(), times.end());
  std::string steps;
  if (!stats.instructions.empty()) {
    const std::vector<std::string> names = step_names(pte_file);
    for (size_t i = 0; i < stats.instructions.size(); ++i)
      steps += fmt::format("{}{{\"kernel\": {}, \"instructions\": {}}}", i == 0 ? "" : ", ",
                           json_quote(names[i]), stats.instructions[i]);
    steps = fmt::format(", \"steps\": [{}]", steps);
  }
  const Inference inference = inference_of(pte_file, stats);
  // The firmware tells the NPU's cycles of a run, not what they are made of.
  const bool on_device = !stats.instructions.empty();
  const auto of_simulator = [&](uint64_t number) {
    return on_device && stats.total_cycles > 0 ? std::string("null") : std::to_string(number);
  };
  return fmt::format(
      "{{\"samples\": {}, \"runs\": {}, \"simulation_ms\": {{\"best\": {:.6f}, \"median\": "
      "{:.6f}}}, \"npu_calls\": {}, "
      "\"npu_busy_cycles\": {}, \"npu_host_cycles\": {}, "
      "\"npu_stall_cycles\": {}, \"npu_total_cycles\": {}, \"copied_bytes\": {}, "
      "\"sram_touched_bytes\": {}, {}{}}}\n",
      samples, stats.runs, times.front(), times[times.size() / 2], of_simulator(stats.npu_calls),
      of_simulator(stats.busy_cycles), of_simulator(stats.host_cycles),
      of_simulator(stats.stall_cycles), stats.total_cycles, of_simulator(stats.copied_bytes),
      of_simulator(stats.sram_touched_bytes), inference_json(inference.work, inference.clock_hz),
      steps);
}

}  // namespace dtr
