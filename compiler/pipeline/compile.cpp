#include "compiler/pipeline/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "compiler/executors/onednn_executor.h"
#include "compiler/executors/stream.h"
#include "compiler/ir/rewriter.h"
#include "compiler/ops/ops.h"
#include "compiler/pipeline/between_floats.h"
#include "compiler/pipeline/report.h"
#include "compiler/quantizer/annotate.h"
#include "compiler/quantizer/not_finite.h"
#include "compiler/quantizer/separations.h"
#include "compiler/quantizer/steep_functions.h"
#include "compiler/recipes/selection.h"
#include "compiler/support/cancellation.h"
#include "compiler/support/heap.h"
#include "compiler/support/text.h"
#include "compiler/targets/target_file.h"
#include "compiler/transforms/pipelines.h"
#include "device/pte/manifest.h"

namespace dtr {
namespace {

// The operator with the most bytes of constants.
Place most_constants(const Module& module, const Graph& graph) {
  OpId most;
  int64_t most_bytes = 0;
  for (const OpId op : graph.ops()) {
    int64_t bytes = 0;
    for (const ValueId operand : graph.op(op).operands)
      if (operand.valid() && graph.is_constant(operand)) bytes += graph.type(operand).bytes();
    if (bytes > most_bytes) most = op, most_bytes = bytes;
  }
  return most.valid() ? place_of(module, graph, most) : Place{.file = module.file};
}

// For backends with prefers_contiguous(): marks inputs and outputs of their partitions contiguous
// if the bytes are the same in both layouts and the op on the other side is a quantize or a
// dequantize, which take any layout.
void relabel_boundary_as_contiguous(Graph& graph, const Recipe& recipe,
                                    const std::vector<Partition>& partitions) {
  Rewriter rewriter(graph);
  const auto converts = [&](OpId op) {
    return graph.op(op).def == &ops::kQuantize || graph.op(op).def == &ops::kDequantize;
  };
  const auto relabel = [&](ValueId id) {
    const Type& type = graph.type(id);
    if (type.layout != Layout::kContiguous &&
        same_order(type.shape, type.layout, Layout::kContiguous))
      rewriter.set_layout(id, Layout::kContiguous);
  };
  for (const Partition& partition : partitions) {
    const DelegateBackend* delegate = recipe[partition.backend]->as_delegate();
    if (delegate == nullptr || !delegate->prefers_contiguous()) continue;
    for (const ValueId input : partition.inputs)
      if (const OpId producer = graph.producer(input); producer.valid() && converts(producer))
        relabel(input);
    for (const ValueId output : partition.outputs)
      if (const Value& value = graph.value(output);
          value.output_uses == 0 &&
          std::ranges::all_of(value.uses, [&](const Use& use) { return converts(use.op); }))
        relabel(output);
  }
}

// Whether the file has fake quantization. If it is switched off in the model, the graph has none.
bool fakes_quantization(const Module& module) {
  return std::ranges::any_of(module.sources, [](const SourceOp& source) {
    return source.target.find("fake_quant") != std::string::npos;
  });
}

tl::unexpected<Diagnostic> no_ranges(const Module& module) {
  if (fakes_quantization(module))
    return fail(
        DiagnosticId::kCalibrationMissing,
        "the model is float, because its fake quantization is switched off, and there are no "
        "calibration data to choose ranges from",
        "switch it on before the export, for example model.quantization.fake_quant_on.fill_(1)",
        {.file = module.file});
  return fail(
      DiagnosticId::kCalibrationMissing,
      "the model is float and there are no calibration data to choose quantization ranges from",
      "give samples of real inputs with --calibrate DATA.npz (or, to calibrate on noise, "
      "--calibrate-random N; for a program in float, a --recipe whose only backend is portable)",
      {.file = module.file});
}

// One compilation: each step is a function, and the tables below say in which order they run and
// why.
class Compiler {
 public:
  struct Step {
    std::string_view name;
    Result<void> (Compiler::*run)();
  };

  Compiler(ModelSource source, const CompileSettings& settings)
      : settings_(settings), passes_(settings.passes), source_(std::move(source)) {
    c_.target = settings.target;
    if (settings.target != nullptr) c_.recipe_spec = recipe_of(settings);
    if (passes_.remarks == nullptr) passes_.remarks = &c_.remarks;
  }

  Result<void> run(std::span<const Step> steps) {
    for (const Step& step : steps) {
      const auto start = std::chrono::steady_clock::now();
      check_cancelled();
      DTR_TRY((this->*step.run)());
      const std::chrono::duration<double, std::milli> taken =
          std::chrono::steady_clock::now() - start;
      if (settings_.after_step) settings_.after_step(step.name, taken.count());
    }
    return {};
  }

  bool as_it_is() const { return std::holds_alternative<AsItIs>(settings_.ranges); }
  bool came_quantized() const { return c_.came_quantized; }
  Compilation take() { return std::move(c_); }
  const Compilation& made() const { return c_; }
  void set_budget(const SramBudget& budget) {
    c_.recipe_spec.options.sram_bytes = budget.bytes;
    c_.recipe_spec.options.optimize = budget.optimize;
  }

  // ---- reading

  // Of dimensions that the model leaves open.
  Result<DimensionSizes> sizes() const {
    DimensionSizes sizes{.given = settings_.dims};
    if (const auto* file = std::get_if<SampleFile>(&settings_.samples)) {
      DTR_ASSIGN(std::string path, first_sample_file(file->path));
      sizes.sampled = Samples::shapes_of(std::move(path));
    }
    return sizes;
  }

  Result<void> read() {
    DTR_ASSIGN(const DimensionSizes open_sizes, sizes());
    if (Module* module = std::get_if<Module>(&source_)) {
      c_.module = std::move(*module);
    } else if (const ModelBytes* model = std::get_if<ModelBytes>(&source_)) {
      c_.model_bytes = model->bytes;
      c_.kind = kind_of(model->bytes);
      DTR_ASSIGN(c_.module,
                 parse_model(model->bytes, c_.kind, model->name, model->detached, open_sizes));
      c_.source_hash = content_hash(model->bytes, model->detached);
    } else {
      const std::string& path = std::get<std::string>(source_);
      DTR_ASSIGN(FileContents file, FileContents::read(path));
      c_.model_bytes = file.bytes();
      c_.kind = kind_of(file.bytes());
      c_.source_hash = content_hash(file.bytes());
      DTR_ASSIGN(c_.module, read_model(std::move(file), c_.kind, path, open_sizes));
    }
    weights_ = hash_of_weights(c_.module.constants);
    return {};
  }

  Result<void> stop_at_node() {
    return settings_.stop_at.empty() ? Result<void>() : stop_at(c_.module, settings_.stop_at);
  }
  Result<void> check_types() {
    if (settings_.target == nullptr) return {};
    DTR_TRY(check_recipe(c_.recipe_spec));
    DTR_TRY(check_sram(*settings_.target, c_.recipe_spec));
    return check_model(c_.module, *settings_.target);
  }

  Result<void> keep_as_read() {
    c_.as_read = graph();
    c_.came_quantized = is_quantized(graph());
    return {};
  }

  Result<void> call_on_read() { return settings_.on_read ? settings_.on_read(c_) : Result<void>(); }

  Result<void> read_samples() {
    if (const auto* bound = std::get_if<const Samples*>(&settings_.samples))
      c_.bound_samples = *bound;
    const auto keep = [this](PickedSamples picked) {
      c_.samples_there = picked.there;
      c_.samples_every = picked.every;
      c_.own_samples = std::move(picked.samples);
    };
    if (const auto* bind = std::get_if<SampleBinding>(&settings_.samples)) {
      DTR_ASSIGN(PickedSamples picked, (*bind)(graph()));
      keep(std::move(picked));
    }
    const auto* noise = std::get_if<NoiseSamples>(&settings_.samples);
    c_.samples_are_noise = noise != nullptr;
    if (noise != nullptr) c_.own_samples = Samples::random(graph(), noise->count);
    if (const auto* file = std::get_if<SampleFile>(&settings_.samples)) {
      DTR_ASSIGN(PickedSamples picked, pick_samples(graph(), file->path, file->most));
      keep(std::move(picked));
    }
    return {};
  }

  // ---- a quantization

  Result<void> run_quantized_passes() { return run_passes_of(quantized_pipeline()); }
  Result<void> run_float_passes() {
    DTR_TRY(run_passes_of(float_pipeline()));
    release_constants();
    return {};
  }

  Result<void> choose_patterns() {
    DTR_ASSIGN(const Exclusions exclusions,
               Exclusions::resolve(c_.module, graph(), c_.recipe_spec, true));
    patterns_ = make_patterns(c_.recipe_spec, exclusions);
    quantizes_ = !patterns_.empty();
    DTR_ASSIGN(const std::vector<PlacementOverride> asked,
               resolve_overrides(c_.module, settings_.keep_float, {}));
    for (const OpId op : graph().ops())
      if (asked[op.index] == PlacementOverride::kKeepOff) asked_float_.push_back(op);
    // Nothing is quantized then, which needs no samples.
    if (std::ranges::find(settings_.keep_float, kAllNodes) != settings_.keep_float.end())
      quantizes_ = false;
    annotate_graph({});
    return {};
  }

  void annotate_graph(const Separations& separations) {
    annotation_ = annotation_of(graph(), separations);
  }
  Annotation annotation_of(const Graph& float_graph, Separations separations) const {
    separations.asked_float = asked_float_;
    separations.not_finite = not_finite_;
    if (c_.equalization) separations.scaling = c_.equalization->scaled_inputs;
    Annotation annotation = annotate(float_graph, patterns_, separations);
    for (QuantizationGroup& group : annotation.groups)
      if (group.spec.observer == QuantSpec::Observer::kHistogram)
        group.spec.observer = settings_.observer;
    return annotation;
  }

  Result<std::unique_ptr<Executor>> make_float_executor() {
    DTR_ASSIGN(std::unique_ptr<Executor> one_run,
               make_onednn_executor(c_.module, graph(), {.observe_any_layout = true}));
    return make_stream(c_.module, graph(), std::move(one_run));
  }

  // What chooses constants on samples needs them.
  Result<void> check_samples(std::string_view option) const {
    if (c_.samples() != nullptr) return {};
    return fail(DiagnosticId::kAccuracyOptions,
                fmt::format("{} runs the model on samples and there are none", option),
                "give samples of real inputs with --calibrate DATA.npz", {.file = c_.module.file});
  }

  Result<void> rotate_channels() {
    if (settings_.rotate) c_.rotation = rotate_streams(c_.module, graph());
    return {};
  }

  Result<void> equalize_channels() {
    if (!settings_.equalize || !quantizes_) return {};
    DTR_TRY(check_samples("--equalize"));
    {
      DTR_ASSIGN(const std::unique_ptr<Executor> executor, make_float_executor());
      DTR_ASSIGN(c_.equalization, equalize(c_.module, graph(), annotation_, *executor,
                                           *c_.samples(), settings_.threads));
    }
    annotate_graph({});  // constants have changed
    return {};
  }

  Result<void> round_layers() {
    if (settings_.rounding != Rounding::kError || !quantizes_) return {};
    DTR_TRY(check_samples("--round-weights error"));
    // Ranges of a file are of other samples.
    const bool from_file = std::holds_alternative<CalibrationFile>(settings_.ranges);
    DTR_ASSIGN(c_.rounding,
               round_weights(c_.module, graph(), c_.conversion->float_graph, *c_.samples(),
                             {.threads = settings_.threads,
                              .calibration = from_file ? nullptr : &*c_.calibration}));
    return {};
  }

  Result<void> find_ranges() {
    if (const auto* file = std::get_if<CalibrationFile>(&settings_.ranges)) {
      DTR_ASSIGN(c_.calibration, load_calibration(file->path));
      if (c_.calibration->weights != 0 && c_.calibration->weights != weights_)
        return fail(DiagnosticId::kCalibrationMismatch,
                    fmt::format("the ranges were observed on a model with other weights than {}",
                                c_.module.file),
                    "calibrate this model, with --calibrate and --save-calibration",
                    {.file = file->path});
    } else if (const auto* given = std::get_if<const CalibrationResult*>(&settings_.ranges)) {
      c_.calibration = **given;
    } else if (!quantizes_) {
      c_.calibration.emplace();
    } else if (c_.samples() == nullptr) {
      return no_ranges(c_.module);
    } else {
      const auto make_executor = [this] { return make_float_executor(); };
      const auto annotate_again = [this](const std::vector<OpId>& not_finite) {
        not_finite_ = not_finite;
        annotate_graph({});
        return annotation_;
      };
      DTR_ASSIGN(c_.calibration,
                 calibrate_finite(c_.module, graph(), annotation_, make_executor, *c_.samples(),
                                  {.threads = settings_.threads, .progress = settings_.progress},
                                  annotate_again));
      c_.calibration->on_noise = c_.samples_are_noise;
      c_.calibration->weights = weights_;
      DTR_TRY(find_steep_functions(
          c_.module, graph(), annotation_,
          [this] { return make_model_executor(c_.module, graph()); }, *c_.samples(),
          *c_.calibration));
    }
    keep_not_finite_float();
    return_free_memory();
    return {};
  }

  // Ranges that were given tell what was not finite when they were observed. Each round keeps at
  // least one more op float.
  void keep_not_finite_float() {
    for (;;) {
      const std::vector<OpId> found = find_not_finite(graph(), annotation_, *c_.calibration);
      if (found.empty()) return;
      not_finite_.insert(not_finite_.end(), found.begin(), found.end());
      annotate_graph({});
    }
  }

  // Ranges of a file are of samples that are not here.
  Result<void> separate_ranges() {
    const auto annotate_apart = [this](const Separations& separations) {
      not_finite_ = separations.not_finite;
      return annotation_of(graph(), separations);
    };
    ObserveAgain observe;
    if (c_.samples() != nullptr && !std::holds_alternative<CalibrationFile>(settings_.ranges))
      observe = [this](const Annotation& annotation) -> Result<CalibrationResult> {
        DTR_ASSIGN(const std::unique_ptr<Executor> executor, make_float_executor());
        return calibrate(c_.module, graph(), annotation, *executor, *c_.samples(),
                         {.threads = settings_.threads, .progress = settings_.progress});
      };
    DTR_ASSIGN(separations_, separate(graph(), annotation_, *c_.calibration, not_finite_,
                                      annotate_apart, observe));
    return {};
  }

  Result<void> convert_graph() {
    const std::optional<Diagnostic> warning =
        not_finite_warning(c_.module, graph(), *c_.calibration);
    DTR_ASSIGN(c_.conversion,
               convert(c_.module, graph(), annotation_, *c_.calibration, settings_.threads));
    if (warning) c_.conversion->notes.push_back(*warning);
    release_constants();
    return {};
  }

  // Places the graph for a trial, and quantizes it again without the ops that run in float between
  // others in float: conversions between them would cost cycles and codes.
  Result<void> leave_between_floats() {
    if (settings_.target == nullptr || !quantizes_) return {};
    constexpr int kMostRounds = 4;  // others may move to the CPU beside those that became float
    for (int round = 0; round < kMostRounds; ++round) {
      Graph trial = graph();
      DTR_ASSIGN(const PlacementOptions options, placement_options());
      const Result<Placement> placement =
          place(c_.module, trial, make_recipe(*settings_.target, c_.recipe_spec), options);
      if (!placement) return {};  // the placement itself has the error
      const std::vector<OpId> found = find_between_floats(
          c_.conversion->float_graph, annotation_, *placement,
          {.io_is_float = settings_.io == Io::kFloat, .most_bytes = sram_budget()});
      if (found.empty()) return {};
      for (const OpId op : found) {
        const Reason& reason = reason_of(*placement, op);
        separations_.between_floats.insert_or_assign(
            op, FloatReason{reason.refusal.id, reason.refusal.reason, reason.refusal.remedy});
      }
      Graph& float_graph = c_.conversion->float_graph;
      Annotation fewer = annotation_of(float_graph, separations_);
      if (!complete_statistics(graph(), fewer, *c_.calibration)) return {};
      annotation_ = std::move(fewer);
      for (const OpId op : found) {
        const Reason& reason = reason_of(*placement, op);
        between_floats_.insert_or_assign(op, KnownRefusal{reason.refusal, reason.because_of});
      }
      graph() = std::move(float_graph);
      DTR_TRY(convert_graph());
    }
    return {};
  }

  Result<void> quantize_states() {
    return graph().state_count() == 0 ? Result<void>() : run_passes_of(states_pipeline());
  }

  Result<void> keep_quantized() {
    c_.quantized = graph();
    return {};
  }

  Result<void> call_on_quantized() {
    if (settings_.on_quantized) DTR_TRY(settings_.on_quantized(c_));
    if (!settings_.keep_statistics && c_.calibration) {
      c_.calibration->values.clear();
      c_.calibration->channels.clear();
    }
    return {};
  }

  // ---- a program

  Result<void> take_int8_io() {
    if (settings_.io != Io::kInt8) return {};
    c_.wants_int8_io = true;
    return run_passes_of(int8_io_pipeline());
  }

  Result<PlacementOptions> placement_options() {
    PlacementOptions options{.weigh_costs = settings_.weigh_costs};
    DTR_ASSIGN(const Exclusions exclusions,
               Exclusions::resolve(c_.module, graph(), c_.recipe_spec, !c_.conversion));
    options.excluded = exclusions.masks();
    DTR_ASSIGN(options.overrides,
               resolve_overrides(c_.module, settings_.keep_off, settings_.force_on));
    if (c_.conversion)
      for (const FloatOp& op : c_.conversion->float_ops)
        options.known[op.id] = {.refusal = {op.why.id, op.why.reason, op.why.remedy}};
    for (const auto& [op, why] : between_floats_) options.known[op] = why;
    return options;
  }

  Result<void> place_ops() {
    c_.recipe = make_recipe(*settings_.target, c_.recipe_spec);
    DTR_ASSIGN(const PlacementOptions options, placement_options());
    DTR_ASSIGN(c_.placement, place(c_.module, graph(), c_.recipe, options));
    return {};
  }

  Result<void> lay_out() {
    DTR_ASSIGN(c_.layouts, assign_layouts(graph(), c_.recipe, c_.placement));
    return {};
  }

  Result<void> form_partitions() {
    c_.partitions = make_partitions(graph(), c_.placement, c_.recipe);
    relabel_boundary_as_contiguous(graph(), c_.recipe, c_.partitions);
    return {};
  }

  Result<void> lower() {
    DTR_ASSIGN(c_.emitted, emit(c_.module, graph(), c_.recipe, c_.partitions));
    return_free_memory();
    return {};
  }

  Result<void> fill_manifest() {
    MethodPlan& plan = c_.emitted.plan;
    plan.target = settings_.target->name;
    if (find_target(plan.target) == nullptr) plan.machine = to_json(*settings_.target);
    plan.target_hash = has_npu(*settings_.target) ? npu::format_hash(settings_.target->npu) : 0;
    plan.tool = "deuteron " DTR_VERSION;
    plan.source_hash = c_.source_hash;
    if (constants() == ConstantMemory::kSram) plan.manifest_flags |= pte::kConstantsInSram;
    for (const std::unique_ptr<Backend>& backend : c_.recipe)
      if (const DelegateBackend* delegate = backend->as_delegate();
          delegate != nullptr && !delegate->has_own_schedule())
        plan.manifest_flags |= pte::kNxpLikeSchedule;
    return {};
  }

  Result<void> plan_arena() {
    const BackendOptions& options = c_.recipe_spec.options;
    const SramBudget budget{.bytes = sram_budget(),
                            .optimize = options.optimize.value_or(Optimize::kSpeed),
                            .has_int8_io = settings_.io == Io::kInt8};
    DTR_ASSIGN(c_.memory, plan_within_budget(
                              c_.module, c_.emitted, budget, settings_.target->memory.sram_bytes,
                              [&](const MemoryMap& memory) -> Result<uint64_t> {
                                if (constants() == ConstantMemory::kFlash) return 0;
                                DTR_TRY(encode());
                                DTR_ASSIGN(const SerializedPte written, serialize(memory));
                                return written.bytes.size() + written.tensor_file.size();
                              },
                              settings_.threads, made_plans_));
    return {};
  }

  Result<void> end_planning() {
    for (const std::unique_ptr<LoweredPartition>& partition : c_.emitted.partitions)
      if (partition != nullptr) partition->end_planning();
    return_free_memory();
    return {};
  }

  Result<void> encode() { return encode_payloads(c_.emitted.plan); }

  // Weights are most of the memory that a large model takes: packed, they are in the payloads now.
  Result<void> release_partitions() {
    for (const std::unique_ptr<LoweredPartition>& partition : c_.emitted.partitions)
      if (partition != nullptr) partition->release();
    return_free_memory();
    return {};
  }

  Result<void> write() {
    DTR_ASSIGN(c_.written, serialize(c_.memory));
    for (PlanCall& call : c_.emitted.plan.calls)
      if (auto* delegate = std::get_if<DelegateCallPlan>(&call))
        delegate->payload = std::vector<std::byte>();  // it is in the file, and as large
    c_.values.clear();
    for (const auto& [value, call, tensor] : c_.emitted.results)
      c_.values.push_back({value, call, c_.written.value_of_tensor.at(tensor.index)});
    return {};
  }

  // With its constants in SRAM, the program counts against the budget together with its arena.
  // plan_within_budget leaves the error to this step, whose message names both sizes, and gives it
  // the smallest program that it found.
  Result<void> check_fits_sram() {
    const SramUse sram = sram_use(c_);
    if (constants() != ConstantMemory::kSram || sram.total_bytes <= sram.budget_bytes) return {};
    const bool has_own_budget = sram.budget_bytes < sram.target_bytes;
    return fail(
        DiagnosticId::kMemoryExceeded,
        fmt::format("no program within {} bytes of SRAM is found{}: with its constants in SRAM, "
                    "the smallest takes {}: {} for the program and {} for its tensors",
                    with_thousands(sram.budget_bytes),
                    has_own_budget ? "" : fmt::format(", which {} has", settings_.target->name),
                    with_thousands(sram.total_bytes), with_thousands(sram.program_bytes),
                    with_thousands(sram.total_bytes - sram.program_bytes)),
        fmt::format("{}{}",
                    sram.total_bytes - sram.program_bytes <= sram.budget_bytes
                        ? "leave the constants in flash (--constants flash), or "
                        : "",
                    has_own_budget ? fmt::format("give --sram {} or more", sram.total_bytes)
                                   : "use a smaller model"),
        most_constants(c_.module, graph()));
  }

 private:
  Graph& graph() { return c_.module.forward(); }
  // Passes leave constants that no graph refers to any more, of the size of the weights.
  void release_constants() {
    std::vector<bool> used(c_.module.constants.size());
    for (const Graph& each : c_.module.graphs) each.mark_constants(used);
    c_.as_read.mark_constants(used);
    if (c_.conversion) c_.conversion->float_graph.mark_constants(used);
    c_.module.constants.release_unused(used);
    return_free_memory();
  }
  Result<SerializedPte> serialize(const MemoryMap& memory) const {
    return serialize_program(c_.emitted.plan, {.debug_map = settings_.debug_map,
                                               .external_constants = settings_.external_constants,
                                               .io_constants = settings_.io_constants,
                                               .memory = &memory});
  }
  uint64_t sram_budget() const {
    return c_.recipe_spec.options.sram_bytes.value_or(settings_.target->memory.sram_bytes);
  }
  ConstantMemory constants() const { return constants_of(*settings_.target, c_.recipe_spec); }
  Result<void> run_passes_of(const Pipeline& pipeline) {
    DTR_TRY(run_pipeline(c_.module, graph(), pipeline, passes_));
    return {};
  }

  const CompileSettings& settings_;
  PassOptions passes_;
  ModelSource source_;
  Compilation c_;
  // Of a float model.
  std::vector<std::unique_ptr<QuantizationPatterns>> patterns_;
  Annotation annotation_;
  std::vector<OpId> asked_float_;
  std::vector<OpId> not_finite_;
  Separations separations_;
  std::map<OpId, KnownRefusal> between_floats_;
  MadePlans made_plans_;
  bool quantizes_ = false;  // the recipe has patterns
  uint64_t weights_ = 0;    // as read: passes may fold them differently on other machines
};

// clang-format off
using C = Compiler;
using Step = Compiler::Step;

constexpr Step kReading[] = {
    {"read",             &C::read},                  // Once: hash and graph are of the same bytes.
    {"stop at",          &C::stop_at_node},          // First: what is cut off is not checked.
    {"check types",      &C::check_types},           // Before memory for too large values is taken.
    {"keep as read",     &C::keep_as_read},          // Checks compare with the model before passes.
    {"on read",          &C::call_on_read},          // A tool can reject the model here.
    {"read samples",     &C::read_samples},          // Before passes, which may change the inputs.
};
// A model that comes quantized brings its ranges.
constexpr Step kTaking[] = {
    {"quantized passes", &C::run_quantized_passes},  // Conversions fold into the ops between them.
};
constexpr Step kQuantizing[] = {
    {"float passes",     &C::run_float_passes},      // First: ranges are observed of fused ops.
    {"rotate",           &C::rotate_channels},       // Before equalizing, which it may spare.
    {"annotate",         &C::choose_patterns},       // Backends choose what runs in int8.
    {"equalize",         &C::equalize_channels},     // Before ranges, which it changes.
    {"calibrate",        &C::find_ranges},           // Observes annotated values, or loads ranges.
    {"separate ranges",  &C::separate_ranges},       // Of unlike values, of small divisors.
    {"quantize",         &C::convert_graph},         // Scales of biases follow from the ranges.
    {"between floats",   &C::leave_between_floats},  // Needs the placement of a quantized graph.
    {"round weights",    &C::round_layers},          // Sees what the layers before compute in int8.
};
constexpr Step kKeeping[] = {
    {"quantize states",  &C::quantize_states},       // After both: next values have their types.
    {"keep quantized",   &C::keep_quantized},        // The integer reference of all later steps.
    {"on quantized",     &C::call_on_quantized},     // A tool saves results before a failure.
};
constexpr Step kPlacing[] = {
    {"int8 io",          &C::take_int8_io},          // Before placement, which sees conversions.
    {"place",            &C::place_ops},             // Each op gets a backend, int8 before float.
};
constexpr Step kLowering[] = {
    {"lay out",          &C::lay_out},               // After placement: layouts depend on backends.
    {"partition",        &C::form_partitions},       // After layouts: conversions join calls.
    {"lower",            &C::lower},                 // Partitions: a schedule or a kernel call.
    {"manifest",         &C::fill_manifest},         // Names machine, options and model (hash).
};
constexpr Step kPlanning[] = {
    {"plan memory",      &C::plan_arena},            // After lowering: delegates choose schedules.
};
constexpr Step kEndingPlans[] = {
    {"end planning",     &C::end_planning},          // Where no other plan follows.
};
constexpr Step kEncoding[] = {
    {"encode",           &C::encode},                // After planning: microcode holds addresses.
};
constexpr Step kReleasing[] = {
    {"release",          &C::release_partitions},    // Where no other plan follows.
};
constexpr Step kWriting[] = {
    {"write",            &C::write},                 // After encoding: payloads are segments.
    {"check size",       &C::check_fits_sram},       // After writing: in SRAM the file counts too.
};
// clang-format on

Result<void> quantize(Compiler& compiler) {
  DTR_TRY(compiler.run(kReading));
  if (!compiler.as_it_is())
    DTR_TRY(compiler.came_quantized() ? compiler.run(kTaking) : compiler.run(kQuantizing));
  return compiler.run(kKeeping);
}

class PreparedCompiler final : public BudgetCompiler {
 public:
  PreparedCompiler(ModelSource source, const CompileSettings& settings)
      : compiler_(std::move(source), settings) {}

  Result<const Compilation*> compile(const SramBudget& budget) override {
    if (!prepared_) prepared_ = prepare();
    DTR_TRY(*prepared_);
    compiler_.set_budget(budget);
    DTR_TRY(compiler_.run(kPlanning));
    DTR_TRY(compiler_.run(kEncoding));
    DTR_TRY(compiler_.run(kWriting));
    return &compiler_.made();
  }

 private:
  Result<void> prepare() {
    DTR_TRY(quantize(compiler_));
    DTR_TRY(compiler_.run(kPlacing));
    return compiler_.run(kLowering);
  }

  Compiler compiler_;
  std::optional<Result<void>> prepared_;
};

}  // namespace

RecipeSpec recipe_of(const CompileSettings& settings) {
  return settings.recipe ? *settings.recipe : recipe_of(*settings.target, settings.backend);
}

Result<void> check_model(const Module& module, const TargetDescription& target) {
  const Graph& graph = module.forward();
  const auto check = [&](ValueId id, uint64_t most, Place place) -> Result<void> {
    const Value& value = graph.value(id);
    if (place.node.empty()) place.node = value.name;
    if (value.type.dtype == DType::kFloat64)
      return fail(DiagnosticId::kPt2UnsupportedDtype,
                  fmt::format("`{}` is f64; programs compute in f32 and in int8", value.name),
                  "export the model and its example inputs as float32: model.float()",
                  std::move(place));
    if (value.type.elements() > static_cast<int64_t>(most))
      return fail(DiagnosticId::kMemoryExceeded,
                  fmt::format("`{}` of shape {} needs {} bytes in int8; {} has {} bytes of SRAM",
                              value.name, to_string(value.type.shape),
                              with_thousands(static_cast<uint64_t>(value.type.elements())),
                              target.name, with_thousands(target.memory.sram_bytes)),
                  "use a smaller input", std::move(place));
    return {};
  };
  // Inputs and outputs are in SRAM whole. Other tensors may be made and used stripe by stripe, or
  // disappear: whether they fit, the memory plan knows. The factor bounds what calibration, which
  // computes them whole, takes on the host.
  constexpr uint64_t kMostTimesSram = 16;
  const uint64_t most = target.memory.sram_bytes;
  for (const ValueId input : graph.inputs()) DTR_TRY(check(input, most, {.file = module.file}));
  for (const OpId op : graph.ops())
    for (const ValueId result : graph.op(op).results) {
      const bool is_output = std::ranges::find(graph.outputs(), result) != graph.outputs().end();
      DTR_TRY(check(result, is_output ? most : kMostTimesSram * most, place_of(module, graph, op)));
    }
  return {};
}

Result<Compilation> compile_model(ModelSource source, const CompileSettings& settings) {
  Compiler compiler(std::move(source), settings);
  DTR_TRY(quantize(compiler));
  DTR_TRY(compiler.run(kPlacing));
  DTR_TRY(compiler.run(kLowering));
  DTR_TRY(compiler.run(kPlanning));
  DTR_TRY(compiler.run(kEndingPlans));
  DTR_TRY(compiler.run(kEncoding));
  DTR_TRY(compiler.run(kReleasing));
  DTR_TRY(compiler.run(kWriting));
  return compiler.take();
}

std::unique_ptr<BudgetCompiler> make_budget_compiler(ModelSource source,
                                                     const CompileSettings& settings) {
  return std::make_unique<PreparedCompiler>(std::move(source), settings);
}

Result<Compilation> place_model(ModelSource source, const CompileSettings& settings) {
  Compiler compiler(std::move(source), settings);
  DTR_TRY(quantize(compiler));
  DTR_TRY(compiler.run(kPlacing));
  return compiler.take();
}

Result<Compilation> quantize_model(ModelSource source, const CompileSettings& settings) {
  Compiler compiler(std::move(source), settings);
  DTR_TRY(quantize(compiler));
  return compiler.take();
}

}  // namespace dtr
