#include "host/commands/inference.h"

#include <algorithm>

#include "compiler/program/machine.h"
#include "device/pte/debug_map_generated.h"
#include "device/pte/program_generated.h"
#include "device/pte/scalar_type.h"
#include "host/profiler/profile.h"

namespace dtr {
namespace {

// The NPU's kernel calls of a delegate.
void add_steps(const pte::DebugCall& call, TimedWork& work) {
  if (call.steps() == nullptr) return;
  for (const pte::DebugStep* step : *call.steps()) {
    if (step->kernel()->string_view() == "Copy") continue;
    ++work.npu_calls;
    work.npu_macs += static_cast<uint64_t>(step->macs());
    work.npu_kernels.push_back(step->kernel()->str());
  }
}

}  // namespace

Inference inference_of(const PteFile& pte_file, const RunStats& stats) {
  const TraceSource source = trace_source(pte_file);
  Inference inference{.work = {.target = target_of_manifest(pte_file),
                               .configuration = npu_configuration(pte_file),
                               .npu_cycles = stats.total_cycles,
                               .cpu_counted = !stats.instructions.empty()},
                      .clock_hz = source.clock_hz};
  TimedWork& work = inference.work;
  const pte::DebugMap* map = pte_file.debug_map();
  const pte::ExecutionPlan& plan = pte_file.plan();
  const auto* instructions = plan.chains()->Get(0)->instructions();
  for (uint32_t i = 0; instructions != nullptr && i < instructions->size(); ++i) {
    const pte::DebugCall* call = map == nullptr ? nullptr : map->calls()->Get(i);
    if (instructions->Get(i)->instr_args_as_KernelCall() == nullptr) {
      if (call != nullptr) add_steps(*call, work);
    } else if (i < stats.instructions.size()) {
      const uint64_t counted = stats.instructions[i];
      work.cpu.push_back(
          {"", work.target == nullptr ? counted : from_cpu_cycles(*work.target, counted)});
    } else if (call != nullptr) {
      work.cpu.push_back({call->name()->str(), call->cycles()});
      work.cpu_macs += static_cast<uint64_t>(call->macs());
    } else {
      work.cpu_known = false;
    }
  }
  if (map == nullptr) work.npu_calls = stats.npu_calls;
  return inference;
}

bool computes_in_int8(const PteFile& pte_file) {
  const pte::ExecutionPlan& plan = pte_file.plan();
  if (plan.delegates() != nullptr && plan.delegates()->size() > 0) return true;
  return plan.values() != nullptr &&
         std::ranges::any_of(*plan.values(), [](const pte::EValue* value) {
           const auto* tensor = value->val_as_Tensor();
           return tensor != nullptr &&
                  static_cast<ScalarType>(tensor->scalar_type()) == ScalarType::kChar;
         });
}

}  // namespace dtr
