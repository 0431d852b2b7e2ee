#include "compiler/pipeline/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "compiler/executors/onednn_executor.h"
#include "compiler/ir/rewriter.h"
#include "compiler/ops/ops.h"
#include "compiler/partitioner/layout.h"
#include "compiler/partitioner/partition.h"
#include "compiler/pipeline/emit.h"
#include "compiler/pipeline/placement_report.h"
#include "compiler/program/memory_planner.h"
#include "compiler/program/writer.h"
#include "compiler/quantizer/annotate.h"
#include "compiler/recipes/selection.h"
#include "compiler/support/text.h"
#include "compiler/transforms/pipelines.h"
#include "device/pte/manifest.h"

namespace dtr {
namespace {

class Stage {
 public:
  Stage(const CompileSettings& settings, std::string_view name) : settings_(settings), name_(name) {}
  ~Stage() {
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start_;
    if (settings_.after_stage) settings_.after_stage(name_, taken.count());
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  const CompileSettings& settings_;
  std::string_view name_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// What the options, the recipe and the conversion say about where ops run.
Result<PlacementOptions> placement_options(const Program& program, const CompileSettings& settings, const RecipeSpec& spec,
                                           const ConversionReport* conversion) {
  PlacementOptions options{.weigh_costs = settings.weigh_costs};
  DTR_ASSIGN(const Exclusions exclusions, Exclusions::resolve(program, program.forward(), spec, conversion == nullptr));
  options.excluded = exclusions.masks();
  DTR_ASSIGN(options.wishes, resolve_wishes(program, settings.keep_off, settings.force_on));
  if (conversion != nullptr)
    for (const FloatOp& op : conversion->float_ops) options.known[op.id] = {op.why.id, op.why.reason, op.why.remedy};
  return options;
}

std::string joined_names(const Program& program, const Origin& origin) {
  std::string text;
  for (const uint32_t source : origin.sources) {
    if (!text.empty()) text += " + ";
    text += program.sources[source].name;
  }
  return text;
}

OperatorRow row_for(const Program& program, const Origin& origin) {
  OperatorRow row{.name = joined_names(program, origin)};
  const Place place = place_of(program, origin);
  row.module_path = place.module_path;
  row.source_line = place.source_line;
  if (!origin.sources.empty()) row.op = program.sources[origin.sources.front()].target;
  return row;
}

void fill_operators(const Program& program, const EmittedProgram& emitted, const Recipe& recipe, const npu::Target& npu,
                    CompileReport& report) {
  for (size_t i = 0; i < emitted.plan.calls.size(); ++i) {
    const std::string backend(recipe[emitted.backends[i]]->name());
    if (const auto* call = std::get_if<KernelCallPlan>(&emitted.plan.calls[i])) {
      OperatorRow row = row_for(program, call->origin);
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
      OperatorRow row = row_for(program, step.origin);
      row.backend = backend;
      row.kernel = step.kernel;
      row.macs = step.macs;
      row.cycles = step.cycles;
      row.utilization =
          step.cycles == 0 ? 0 : static_cast<double>(step.macs) / (static_cast<double>(step.cycles) * npu.pipelines * npu.macs);
      row.limited_by = step.limit;
      report.operators.push_back(std::move(row));
    }
  }
}

// The operator with the most bytes of constants.
Place most_constants(const Program& program, const Graph& graph) {
  OpId most;
  int64_t most_bytes = 0;
  for (const OpId op : graph.ops()) {
    int64_t bytes = 0;
    for (const ValueId operand : graph.op(op).operands)
      if (operand.valid() && graph.is_constant(operand)) bytes += graph.type(operand).bytes();
    if (bytes > most_bytes) most = op, most_bytes = bytes;
  }
  return most.valid() ? place_of(program, graph, most) : Place{.file = program.file};
}

// The program, its tensor file and its arena lie in SRAM together.
Status check_fits_sram(const Program& program, const TargetDescription& target, const CompileReport& report) {
  const SramUse& sram = report.sram;
  if (sram.total_bytes <= sram.target_bytes) return {};
  return fail(
      DiagnosticId::kMemoryExceeded,
      fmt::format("the program and its constants, which are to lie in SRAM, take {} bytes and its tensors {}: {} has {} bytes of SRAM",
                  with_thousands(sram.program_bytes), with_thousands(sram.total_bytes - sram.program_bytes), target.name,
                  with_thousands(sram.target_bytes)),
      "leave the constants in flash (--constants flash), or use a smaller model", most_constants(program, program.forward()));
}

SramUse sram_use(const MemoryMap& map, const npu::Target& npu) {
  return {.planned_bytes = static_cast<uint64_t>(map.value_bytes),
          .live_bound_bytes = static_cast<uint64_t>(map.max_live_values),
          .staging_bytes = static_cast<uint64_t>(map.arena_bytes - map.value_bytes),
          .total_bytes = static_cast<uint64_t>(map.arena_bytes),
          .target_bytes = npu.sram_bytes};
}

// Operands of delegates that want it so, where only quantize and dequantize stand on the other side: those take any layout.
void call_contiguous(Graph& graph, const Recipe& recipe, const std::vector<Unit>& units) {
  Rewriter rewriter(graph);
  const auto converts = [&](OpId op) { return graph.op(op).def == &ops::kQuantize || graph.op(op).def == &ops::kDequantize; };
  const auto relabel = [&](ValueId id) {
    const Type& type = graph.type(id);
    if (type.layout != Layout::kContiguous && same_order(type.shape, type.layout, Layout::kContiguous))
      rewriter.set_layout(id, Layout::kContiguous);
  };
  for (const Unit& unit : units) {
    if (!recipe[unit.backend]->prefers_contiguous()) continue;
    for (const ValueId input : unit.inputs)
      if (const OpId producer = graph.producer(input); producer.valid() && converts(producer)) relabel(input);
    for (const ValueId output : unit.outputs)
      if (const Value& value = graph.value(output);
          value.output_uses == 0 && std::ranges::all_of(value.uses, [&](const Use& use) { return converts(use.op); }))
        relabel(output);
  }
}

// Whether the file has fake quantization, of which nothing is left in the graph if it is switched off.
bool fakes_quantization(const Program& program) {
  return std::ranges::any_of(program.sources, [](const SourceOp& source) { return source.target.find("fake_quant") != std::string::npos; });
}

}  // namespace

RecipeSpec recipe_of(const CompileSettings& settings) {
  return settings.recipe ? *settings.recipe : recipe_of(*settings.target, settings.backend);
}

Status check_model(const Program& program, const TargetDescription& target) {
  const Graph& graph = program.forward();
  const auto check = [&](ValueId id, Place place) -> Status {
    const Value& value = graph.value(id);
    if (place.node.empty()) place.node = value.name;
    if (value.type.dtype == DType::kFloat64)
      return fail(DiagnosticId::kPt2UnsupportedDtype, fmt::format("`{}` is f64; programs compute in f32 and in int8", value.name),
                  "export the model and its example inputs as float32: model.float()", std::move(place));
    if (value.type.elements() > static_cast<int64_t>(target.npu.sram_bytes))
      return fail(DiagnosticId::kMemoryExceeded,
                  fmt::format("`{}` of shape {} has {} elements; {} has {} bytes of SRAM", value.name, to_string(value.type.shape),
                              value.type.elements(), target.name, target.npu.sram_bytes),
                  "use a smaller input", std::move(place));
    return {};
  };
  for (const ValueId input : graph.inputs()) DTR_TRY(check(input, {.file = program.file}));
  for (const OpId op : graph.ops())
    for (const ValueId result : graph.op(op).results) DTR_TRY(check(result, place_of(program, graph, op)));
  return {};
}

Result<ConversionReport> quantize_program(Program& program, const CompileSettings& settings, const Samples* samples,
                                          std::optional<CalibrationResult>& calibration) {
  Graph& graph = program.forward();
  DTR_TRY(check_model(program, *settings.target));
  {
    const Stage stage(settings, "float passes");
    DTR_TRY(run_pipeline(program, graph, float_pipeline(), settings.passes));
  }
  const RecipeSpec spec = recipe_of(settings);
  DTR_ASSIGN(const Exclusions exclusions, Exclusions::resolve(program, graph, spec, true));
  const auto patterns = make_patterns(spec, exclusions);
  Annotation annotation = annotate(graph, patterns);
  if (settings.observer == QuantSpec::Observer::kMinMax)
    for (QuantizationGroup& group : annotation.groups) group.spec.observer = QuantSpec::Observer::kMinMax;
  if (!calibration && patterns.empty()) calibration.emplace();  // nothing is quantized
  if (!calibration) {
    const Stage stage(settings, "calibrate");
    if (samples == nullptr && fakes_quantization(program))
      return fail(
          DiagnosticId::kCalibrationMissing,
          "the model is float, because its fake quantization is switched off, and there are no calibration data to choose ranges from",
          "switch it on before the export, for example model.quantization.fake_quant_on.fill_(1)", {.file = program.file});
    if (samples == nullptr)
      return fail(
          DiagnosticId::kCalibrationMissing, "the model is float and there are no calibration data to choose quantization ranges from",
          "give samples of real inputs with --calibrate DATA.npz (or ask for noise by name: --calibrate-random N)", {.file = program.file});
    DTR_ASSIGN(const std::unique_ptr<Executor> executor, make_onednn_executor(program, graph, {.observe_any_layout = true}));
    DTR_ASSIGN(calibration,
               calibrate(program, graph, annotation, *executor, *samples, {.threads = settings.threads, .progress = settings.progress}));
  }
  const Stage stage(settings, "quantize");
  return convert(program, graph, annotation, *calibration);
}

Status import_quantization(Program& program, const CompileSettings& settings) {
  DTR_TRY(check_model(program, *settings.target));
  const Stage stage(settings, "quantized passes");
  DTR_TRY(run_pipeline(program, program.forward(), quantized_pipeline(), settings.passes));
  return {};
}

Result<CompiledProgram> compile_program(Program& program, const CompileSettings& settings, const ConversionReport* conversion) {
  Graph& graph = program.forward();
  const npu::Target& npu = settings.target->npu;
  CompiledProgram compiled;
  CompileReport& report = compiled.report;
  report.model = program.file;
  report.target = settings.target->name;
  report.clock_hz = npu.clock_hz;
  report.has_npu = has_npu(*settings.target);

  const RecipeSpec spec = recipe_of(settings);
  report.converter = spec.options.converter.command;
  report.constants = constants_of(*settings.target, spec);
  report.nxp_like = spec.options.schedule == NeutronSchedule::kNxpLike;
  const Recipe recipe = make_recipe(*settings.target, spec);
  if (settings.io == Io::kInt8) DTR_TRY(run_pipeline(program, graph, int8_io_pipeline(), settings.passes));
  EmittedProgram emitted;
  {
    const Stage stage(settings, "place and lower");
    DTR_ASSIGN(const PlacementOptions options, placement_options(program, settings, spec, conversion));
    DTR_ASSIGN(Placement placement, place(program, graph, recipe, options));
    report.refusals = refusal_rows(program, graph, placement);
    DTR_ASSIGN(const LayoutResult layouts, assign_layouts(program, graph, recipe, placement));
    const std::vector<Unit> units = partition(graph, placement, recipe);
    call_contiguous(graph, recipe, units);
    DTR_ASSIGN(emitted, emit(program, graph, recipe, units));
    report.transposes = transpose_rows(program, graph, recipe, placement, layouts, emitted);
  }
  emitted.plan.target = settings.target->name;
  emitted.plan.target_hash = has_npu(*settings.target) ? npu::hash(npu) : 0;
  emitted.plan.tool = "deuteron " DTR_VERSION;
  emitted.plan.source_hash = settings.source_hash;
  if (report.constants == ConstantMemory::kSram) emitted.plan.manifest_flags |= pte::kConstantsInSram;
  if (report.nxp_like) emitted.plan.manifest_flags |= pte::kNxpLikeSchedule;
  MemoryMap memory;
  {
    const Stage stage(settings, "plan and encode");
    DTR_ASSIGN(memory, plan_memory(emitted.plan, npu.sram_bytes));
    DTR_TRY(encode_payloads(emitted.plan));
    report.sram = sram_use(memory, npu);
  }
  const Stage stage(settings, "write");
  DTR_ASSIGN(SerializedProgram written,
             serialize_program(emitted.plan,
                               {.debug_map = settings.debug_map, .external_constants = settings.external_constants, .memory = &memory}));
  compiled.pte = std::move(written.bytes);
  compiled.tensor_file = std::move(written.tensor_file);
  for (const auto& [value, call, tensor] : emitted.results)
    compiled.values.push_back({value, call, written.value_of_tensor.at(tensor.index)});
  report.checksum = written.checksum;
  report.program_bytes = compiled.pte.size();
  report.flash_bytes = static_cast<uint64_t>(written.sizes.constants + written.sizes.external + written.sizes.payloads);
  report.external_bytes = static_cast<uint64_t>(written.sizes.external);
  if (report.constants == ConstantMemory::kSram) {
    report.sram.program_bytes = compiled.pte.size() + compiled.tensor_file.size();
    report.sram.total_bytes += report.sram.program_bytes;
    DTR_TRY(check_fits_sram(program, *settings.target, report));
  }
  fill_operators(program, emitted, recipe, npu, report);
  return compiled;
}

}  // namespace dtr
