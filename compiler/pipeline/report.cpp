#include "compiler/pipeline/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/quantized_values.h"
#include "compiler/pipeline/compilation.h"
#include "compiler/pipeline/placement_report.h"
#include "compiler/plugins/plugins.h"
#include "compiler/support/encode.h"
#include "compiler/support/text.h"
#include "device/pte/manifest.h"

namespace dtr {
namespace {

std::string joined_names(const Module& module, const Origin& origin) {
  std::string text;
  for (const uint32_t source : origin.sources) {
    if (!text.empty()) text += " + ";
    text += module.sources[source].name;
  }
  return text;
}

OperatorRow row_for(const Module& module, const Origin& origin) {
  OperatorRow row{.name = joined_names(module, origin)};
  const Place place = place_of(module, origin);
  row.module_path = place.module_path;
  row.source_line = place.source_line;
  if (!origin.sources.empty()) row.op = module.sources[origin.sources.front()].target;
  return row;
}

void fill_operators(const Compilation& compilation, CompileReport& report) {
  const Module& module = compilation.module;
  const EmitResult& emitted = compilation.emitted;
  const npu::Target& npu = compilation.target->npu;
  for (size_t i = 0; i < emitted.plan.calls.size(); ++i) {
    const std::string backend(compilation.recipe[emitted.backends[i]]->name());
    if (const auto* call = std::get_if<KernelCallPlan>(&emitted.plan.calls[i])) {
      OperatorRow row = row_for(module, call->origin);
      row.backend = backend;
      row.kernel = call->kernel;
      row.macs = call->macs;
      row.cpu_cycles = call->cycles;
      report.cpu_cycles += row.cpu_cycles;
      ++report.cpu_calls;
      report.operators.push_back(std::move(row));
      continue;
    }
    ++report.partitions;
    for (const StepInfo& step : emitted.partitions[i]->step_info) {
      report.knows_kernels |= step.command != StepInfo::kNoCommand;
      OperatorRow row = row_for(module, step.origin);
      row.backend = backend;
      row.kernel = step.kernel;
      row.macs = step.macs;
      row.cycles = step.cycles;
      row.utilization = step.cycles == 0
                            ? 0
                            : static_cast<double>(step.macs) /
                                  (static_cast<double>(step.cycles) * npu.pipelines * npu.macs);
      row.limited_by = step.limit;
      report.operators.push_back(std::move(row));
    }
  }
}

void fill_io(const Compilation& compilation, CompileReport& report) {
  const MethodPlan& plan = compilation.emitted.plan;
  for (const bool is_output : {false, true}) {
    const std::vector<TensorRef>& tensors = is_output ? plan.outputs : plan.inputs;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const PlanTensor& tensor = plan.tensor(tensors[i]);
      if (has_real_values(tensor.type)) {
        report.codes.push_back({is_output, i, tensor.name, *tensor.type.quantization});
      } else if (compilation.wants_int8_io && tensor.type.dtype == DType::kFloat32) {
        report.float_io.push_back({is_output, i, tensor.name});
      }
    }
  }
}

void fill_check(const CheckFigures& check, CompileReport& report) {
  report.npu_calls = check.npu_calls;
  report.npu_busy_cycles = check.npu_busy_cycles;
  report.npu_host_cycles = check.npu_host_cycles;
  report.npu_stall_cycles = check.npu_stall_cycles;
  report.npu_total_cycles = check.npu_total_cycles;
  report.check = check.outputs;
  report.checked = true;
}

// Whether the check measures the accuracy on real inputs: on noise it does not.
bool measures_accuracy(const OutputCheck& check) {
  return !check.on_noise && !check.came_quantized;
}

std::string_view data_of(const OutputCheck& check) {
  if (!check.on_noise) return "calibration";
  return check.calibrated_on_noise ? "calibration noise" : "noise";
}

std::string_view reference_of(const OutputCheck& check) {
  return check.came_quantized ? "quantized model" : "float model";
}

}  // namespace

std::string to_text(const OutputCheck& check) {
  const std::string samples =
      fmt::format("{}{}{}{}", check.samples, check.on_noise ? " sample" : " calibration sample",
                  check.samples == 1 ? "" : "s",
                  !check.on_noise             ? ""
                  : check.calibrated_on_noise ? " of the noise that chose its ranges"
                                              : " of noise");
  if (check.came_quantized && check.equal)
    return fmt::format("equals the quantized model on {}", samples);
  std::string text = fmt::format("{} against the {}: ", check.is_int8 ? "int8 program" : "program",
                                 reference_of(check));
  if (check.equal) {
    text += fmt::format("no difference on {}", samples);
  } else {
    if (check.has_floats) {
      text += check.sqnr_db >= 99 ? std::string("99 dB or more")
                                  : fmt::format("{:.1f} dB", check.sqnr_db);
      text += check.samples == 1 ? " on " + samples : ", the worst of " + samples;
    }
    if (const OutputCheck::Integers& other = check.worst_integers; other.differing > 0)
      text += fmt::format("{}{} of {} elements of `{}` differ{}", check.has_floats ? ", " : "",
                          with_thousands(static_cast<uint64_t>(other.differing)),
                          with_thousands(static_cast<uint64_t>(other.elements)), other.output,
                          check.has_floats ? "" : " on " + samples);
  }
  if (check.came_quantized || !check.is_int8) return text;
  return text + (measures_accuracy(check) ? "; accuracy: `deuteron eval`"
                                          : "; it says nothing of accuracy: use `deuteron eval`");
}

SramUse sram_use(const Compilation& compilation) {
  const MemoryMap& map = compilation.memory;
  const auto state_bytes = static_cast<uint64_t>(compilation.emitted.plan.state_bytes);
  SramUse use{.planned_bytes = static_cast<uint64_t>(map.value_bytes),
              .live_bound_bytes = static_cast<uint64_t>(map.max_live_values),
              .staging_bytes = static_cast<uint64_t>(map.arena_bytes - map.value_bytes),
              .state_bytes = state_bytes,
              .total_bytes = static_cast<uint64_t>(map.arena_bytes) + state_bytes,
              .target_bytes = compilation.target->memory.sram_bytes};
  use.budget_bytes = compilation.recipe_spec.options.sram_bytes.value_or(use.target_bytes);
  if (constants_of(*compilation.target, compilation.recipe_spec) == ConstantMemory::kSram) {
    use.program_bytes = compilation.pte().size() + compilation.tensor_file().size();
    use.total_bytes += use.program_bytes;
  }
  for (const std::unique_ptr<LoweredPartition>& partition : compilation.emitted.partitions)
    if (partition != nullptr)
      use.runtime_bytes = std::max<uint64_t>(use.runtime_bytes, partition->runtime_bytes);
  return use;
}

CompileReport compile_report(const Compilation& compilation,
                             const std::optional<CheckFigures>& check) {
  const TargetDescription& target = *compilation.target;
  const BackendOptions& options = compilation.recipe_spec.options;
  const ProgramSizes& sizes = compilation.written.sizes;
  CompileReport report{
      .model = compilation.module.file,
      .target = &target,
      .checksum = compilation.written.checksum,
      .clock_hz = clock_hz(target),
      .refusals = refusal_rows(compilation),
      .transposes = transpose_rows(compilation),
      .has_npu = has_npu(target),
      .constants = constants_of(target, compilation.recipe_spec),
      .nxp_like = (compilation.emitted.plan.manifest_flags & pte::kNxpLikeSchedule) != 0,
      .converter = options.converter.command,
      .sram = sram_use(compilation),
      .optimize = options.optimize.value_or(Optimize::kSpeed),
      .flash_bytes = static_cast<uint64_t>(sizes.constants + sizes.external + sizes.payloads),
      .external_bytes = static_cast<uint64_t>(sizes.external),
      .program_bytes = compilation.pte().size()};
  fill_io(compilation, report);
  fill_operators(compilation, report);
  if (check) fill_check(*check, report);
  return report;
}

std::optional<TimedWork> timed_work(const CompileReport& report) {
  if (report.partitions > 0 && !report.checked) return std::nullopt;
  TimedWork work{
      .target = report.target,
      .configuration = NpuConfiguration{.nxp_like = report.nxp_like, .constants = report.constants},
      .npu_cycles = report.npu_total_cycles,
      .npu_calls = report.npu_calls};
  for (const OperatorRow& row : report.operators) {
    if (row.cycles > 0) {
      work.npu_macs += static_cast<uint64_t>(row.macs);
      work.npu_kernels.push_back(row.kernel);
    }
    if (row.cpu_cycles == 0 && find_plugin_kernel(row.kernel) == nullptr) continue;
    work.cpu.push_back({row.kernel, row.cpu_cycles});
    work.cpu_macs += static_cast<uint64_t>(row.macs);
  }
  return work;
}

std::string to_json(const CompileReport& report) {
  std::string text = "{\n";
  text += fmt::format("  \"model\": {}, \"target\": {},\n", json_quote(report.model),
                      json_quote(report.target->name));
  if (const std::optional<TimedWork> work = timed_work(report))
    text += fmt::format("  {},\n", inference_json(*work, report.clock_hz));
  else
    text += fmt::format(
        "  \"clock_hz\": {}, \"cpu_cycles\": {}, \"total_cycles\": null, \"milliseconds\": null, "
        "\"time_error_percent\": null, \"npu_error_percent\": null, \"cpu_error_percent\": null, "
        "\"time_known\": \"not known\", "
        "\"time_error_reason\": \"the cycles of the NPU were not counted\",\n",
        report.clock_hz, report.cpu_cycles);
  if (report.accuracy) text += fmt::format("  \"accuracy\": {},\n", to_json(*report.accuracy));
  text += fmt::format("  \"checksum\": \"{:08x}\",\n", report.checksum);
  text += fmt::format("  \"partitions\": {}, \"cpu_calls\": {},\n", report.partitions,
                      report.cpu_calls);
  if (report.checked)
    text += fmt::format(
        "  \"npu_calls\": {}, \"npu_busy_cycles\": {}, \"npu_host_cycles\": {}, "
        "\"npu_stall_cycles\": {}, \"npu_total_cycles\": {},\n",
        report.npu_calls, report.npu_busy_cycles, report.npu_host_cycles, report.npu_stall_cycles,
        report.npu_total_cycles);
  const SramUse& sram = report.sram;
  text += fmt::format(
      "  \"sram\": {{\"planned_bytes\": {}, \"live_bound_bytes\": {}, \"state_bytes\": {}, "
      "\"staging_bytes\": {}, \"program_bytes\": {}, \"total_bytes\": {}, "
      "\"target_bytes\": {}, \"budget_bytes\": {}}}, \"optimize\": \"{}\", \"runtime_bytes\": "
      "{},\n",
      sram.planned_bytes, sram.live_bound_bytes, sram.state_bytes, sram.staging_bytes,
      sram.program_bytes, sram.total_bytes, sram.target_bytes, sram.budget_bytes,
      name(report.optimize), sram.runtime_bytes);
  text += fmt::format(
      "  \"constants\": \"{}\", \"flash_bytes\": {}, \"external_bytes\": {}, \"program_bytes\": "
      "{},\n",
      name(report.constants), report.flash_bytes, report.external_bytes, report.program_bytes);
  text += "  \"int8\": [";
  for (const CodesRow& row : report.codes)
    text += fmt::format(
        "{}{{\"what\": \"{}\", \"index\": {}, \"name\": {}, \"scale\": {:.9g}, "
        "\"zero_point\": {}, \"quant_min\": {}, \"quant_max\": {}}}",
        &row == report.codes.data() ? "" : ", ", row.is_output ? "output" : "input", row.index,
        json_quote(row.name), row.quantization.scale(), row.quantization.zero_point(),
        row.quantization.qmin, row.quantization.qmax);
  text += "],\n";
  if (report.checked) {
    const OutputCheck& check = report.check;
    text += fmt::format(
        "  \"check_sqnr_db\": {}, \"check_equal\": {}, \"check_reference\": \"{}\", "
        "\"check_data\": \"{}\", \"check_samples\": {}, \"check_says_accuracy\": {}, "
        "\"calibrated_on_noise\": {}, \"check_worst_output\": {}, \"check_worst_output_db\": "
        "{:.2f},\n",
        check.has_floats ? fmt::format("{:.2f}", check.sqnr_db) : "null", check.equal,
        reference_of(check), data_of(check), check.samples, measures_accuracy(check),
        check.calibrated_on_noise, json_quote(check.worst_output), check.worst_output_db);
  }
  text += "  \"operators\": [";
  for (size_t i = 0; i < report.operators.size(); ++i) {
    const OperatorRow& row = report.operators[i];
    text += fmt::format(
        "{}\n    {{\"name\": {}, \"op\": {}, \"module_path\": {}, \"source_line\": {}, "
        "\"backend\": {}, \"kernel\": {}, \"macs\": {}, "
        "\"cycles\": {}, \"cpu_cycles\": {}, \"cpu_error_percent\": {}, \"utilization\": {:.4f}, "
        "\"limited_by\": {}}}",
        i == 0 ? "" : ",", json_quote(row.name), json_quote(row.op), json_quote(row.module_path),
        json_quote(row.source_line), json_quote(row.backend), json_quote(row.kernel), row.macs,
        row.cycles, row.cpu_cycles,
        to_json(row.cpu_cycles == 0 ? std::nullopt : cpu_error(*report.target, row.kernel)),
        row.utilization, json_quote(row.limited_by));
  }
  return fmt::format("{}\n  ],\n{},\n{}\n}}\n", text, refusals_json(report),
                     transposes_json(report));
}

namespace {

// Calls and cycles of the NPU and of the CPU, and the time of both.
std::string cost_text(const CompileReport& report) {
  std::string text;
  const std::string partitions =
      fmt::format("{} partition{}", report.partitions, report.partitions == 1 ? "" : "s");
  if (!report.converter.empty() && report.partitions > 0)
    text +=
        terminal_format(
            "NPU     {} made by `{}`: what they cost is known where NXP's driver runs them\n",
            partitions, report.converter) +
        (report.knows_kernels ? ""
                              : "        its log does not tell which operators a kernel computes: "
                                "events of kernels have none\n");
  else if (report.partitions > 0 && !report.checked)
    text += fmt::format(
        "NPU     {}: calls and cycles are counted by the check, which was left out\n", partitions);
  else if (report.partitions > 0)
    text += fmt::format(
        "NPU     {} kernel calls in {}: {} cycles busy + {} host + {} waiting for flash\n",
        report.npu_calls, partitions, with_thousands(report.npu_busy_cycles),
        with_thousands(report.npu_host_cycles), with_thousands(report.npu_stall_cycles));
  if (report.cpu_calls > 0)
    text += fmt::format("CPU     {} kernel call{}: about {} cycles (estimates, docs/targets.md)\n",
                        report.cpu_calls, report.cpu_calls == 1 ? "" : "s",
                        with_thousands(report.cpu_cycles));
  const std::optional<TimedWork> work = timed_work(report);
  if (!work) return text;
  text += fmt::format("time    {}\n", inference_text(*work, report.clock_hz));
  const std::string reason = time_error(*work).reason;
  if (reason.empty()) return text;
  return text +
         fmt::format("error   {} (docs/{}.md)\n", reason, work->npu_cycles > 0 ? "npu" : "targets");
}

}  // namespace

std::string to_text(const CompileReport& report) {
  size_t name_width = 8, module_width = 6, kernel_width = 6;
  for (const OperatorRow& row : report.operators) {
    name_width = std::clamp<size_t>(row.name.size(), name_width, 34);
    module_width = std::clamp<size_t>(row.module_path.size(), module_width, 26);
    kernel_width = std::clamp<size_t>(row.kernel.size(), kernel_width, 28);
  }
  std::string text = fmt::format("{:<{}}  {:<{}}  {:<8}  {:<{}}  {:>12}  {:>11}  {:>5}  {}\n",
                                 "operator", name_width, "module", module_width, "runs on",
                                 "kernel", kernel_width, "MACs", "cycles", "util", "limited by");
  for (const OperatorRow& row : report.operators) {
    if (row.cycles == 0 && row.limited_by == "flash") continue;  // copies run beside the calls
    const std::string cycles = row.cycles > 0       ? with_thousands(row.cycles)
                               : row.cpu_cycles > 0 ? "~" + with_thousands(row.cpu_cycles)
                                                    : std::string();
    const std::string utilization =
        row.macs > 0 && row.cycles > 0 ? fmt::format("{:.0f} %", 100 * row.utilization) : "";
    text += terminal_format("{:<{}}  {:<{}}  {:<8}  {:<{}}  {:>12}  {:>11}  {:>5}  {}\n",
                            clipped(row.name, name_width), name_width,
                            clipped(row.module_path, module_width), module_width, row.backend,
                            clipped(row.kernel, kernel_width), kernel_width,
                            row.macs > 0 ? with_thousands(static_cast<uint64_t>(row.macs)) : "",
                            cycles, utilization, row.limited_by);
  }
  text += refusals_text(report) + transposes_text(report);
  text += '\n' + cost_text(report);
  const SramUse& sram = report.sram;
  const bool in_sram = report.constants == ConstantMemory::kSram;
  const uint64_t others = in_sram ? sram.program_bytes : sram.staging_bytes;
  text += fmt::format(
      "SRAM    {} bytes{}: activations {} (no placement of them needs less than {}){}{}{}\n",
      with_thousands(sram.total_bytes),
      sram.budget_bytes == INT32_MAX ? "" : " of " + with_thousands(sram.budget_bytes),
      with_thousands(sram.planned_bytes), with_thousands(sram.live_bound_bytes),
      sram.state_bytes == 0
          ? std::string()
          : fmt::format(", states kept between runs {}", with_thousands(sram.state_bytes)),
      others == 0
          ? std::string()
          : fmt::format(", {} {}", in_sram ? "the program with its constants" : "staged weights",
                        with_thousands(others)),
      sram.runtime_bytes == 0 ? std::string()
                              : fmt::format("; beside them the delegate takes {} from its runtime",
                                            with_thousands(sram.runtime_bytes)));
  text += fmt::format("flash   {} bytes of constants and microcode, {} bytes of program in all{}\n",
                      with_thousands(report.flash_bytes), with_thousands(report.program_bytes),
                      in_sram ? ", copied to SRAM at start" : "");
  for (const CodesRow& row : report.codes)
    text += terminal_format("{:<8}{} `{}`: int8, {}\n", row.is_output ? "output" : "input",
                            row.index, row.name, codes_text(row.quantization));
  for (const FloatIoRow& row : report.float_io)
    text += terminal_format("{:<8}{} `{}`: float32 in spite of --io int8: {} float\n",
                            row.is_output ? "output" : "input", row.index, row.name,
                            row.is_output ? "it is made in" : "operators read it in");
  if (report.external_bytes > 0)
    text += fmt::format("tensors {} bytes of the constants are in the tensor file\n",
                        with_thousands(report.external_bytes));
  if (report.checked) text += fmt::format("check   {}\n", to_text(report.check));
  if (report.accuracy) text += '\n' + to_text(*report.accuracy);
  return text;
}

}  // namespace dtr
