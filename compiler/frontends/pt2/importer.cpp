#include "compiler/frontends/pt2/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/frontends/pt2/node_reads.h"
#include "compiler/frontends/pt2/remedies.h"
#include "compiler/frontends/pt2/trace.h"

namespace dtr::pt2 {
namespace {

constexpr size_t kMostNodes = 500'000;  // that subgraphs are imported as, with repetitions
// Of inputs and outputs that only order operators with effects, such as the check of a matrix that
// a decomposed inverse has. No value depends on them.
constexpr std::string_view kToken = "token";
constexpr std::string_view kExportAgain = "export the model again with torch.export.save";

// "aten.randn_like.default".
bool draws_numbers(std::string_view target) {
  constexpr std::string_view kSampling[] = {
      "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal",
      "poisson",   "rand",   "randint",     "randn",     "randperm",   "random",      "uniform"};
  std::string_view name = without_prefix(target, "aten.");
  name = name.substr(0, name.find('.'));
  if (name.ends_with("_")) name.remove_suffix(1);
  if (name.ends_with("_like")) name.remove_suffix(5);
  return std::ranges::find(kSampling, name) != std::end(kSampling);
}

// Layout whose strides the file states for an input or output. Dimensions of one element have no
// say.
std::optional<Layout> layout_of(const TensorMeta& meta) {
  for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    if (layout == Layout::kChannelsLast && meta.sizes.size() < 3) continue;
    const std::vector<int64_t> expected = strides(meta.sizes, layout);
    bool same = true;
    for (size_t i = 0; i < expected.size(); ++i)
      same = same && (meta.sizes[i] == 1 || meta.strides[i] == expected[i]);
    if (same) return layout;
  }
  return std::nullopt;
}

// Of a value of the graph: complex numbers have a dimension of their parts.
Shape shape_of(const TensorMeta& meta) {
  Shape shape = meta.sizes;
  if (is_complex(meta.scalar_type)) shape.push_back(2);
  return shape;
}

}  // namespace

Importer::Importer(const Archive& archive, Module& module, size_t release_step)
    : archive_(archive),
      file_(archive.program()),
      module_(module),
      rewriter_(module.forward()),
      program_{.graph = &file_, .first_source = 0},
      nodes_left_(kMostNodes),
      release_(release_step) {}

Result<void> Importer::run() {
  add_sources();
  find_written_buffers();
  DTR_TRY(find_live_nodes());
  DTR_TRY(check_static());
  DTR_TRY(check_converted());
  DTR_TRY(check_operators());
  note_narrowed_floats();
  for (const std::string& note : file_.dimension_notes)
    module_.notes.push_back({.id = DiagnosticId::kPt2SymbolicShape,
                             .reason = note,
                             .place = {.file = module_.file},
                             .severity = Severity::kNote});
  DTR_TRY(bind_inputs());
  for (size_t i = 0; i < file_.nodes.size(); ++i)
    if (program_.live[i]) {
      DTR_TRY(import_node(i));
      release_constants(i);
    }
  return set_outputs();
}

// Those of the program's graph come first, so that their numbers are those of the file's nodes.
// Those of subgraphs have the name of the operator in front: "cond/true_graph_0/linear".
void Importer::add_sources() {
  module_.sources.reserve(file_.nodes.size());
  first_source_.resize(file_.subgraphs.size());
  add_sources(file_, {});
}

void Importer::add_sources(const ExportedGraph& graph, const std::string& prefix) {
  for (const Node& node : graph.nodes)
    module_.sources.push_back({.name = prefix + std::string(node.name),
                               .target = std::string(operator_name(node)),
                               .module_path = module_path(node.module_stack),
                               .source_line = source_line(node.stack_trace),
                               .module_types = module_types(node.module_stack)});
  for (const Node& node : graph.nodes)
    for (const auto& [argument, value] : node.inputs)
      if (const auto* subgraph = std::get_if<Subgraph>(&value)) {
        const ExportedGraph& inner = file_.subgraphs[subgraph->index];
        first_source_[subgraph->index] = module_.sources.size();
        add_sources(inner, fmt::format("{}{}/{}/", prefix, node.name, inner.name));
      }
}

Place Importer::place_of_source(size_t source) const {
  return place_of(module_, Origin{.sources = {static_cast<uint32_t>(source)}});
}

Place Importer::place_of_node(size_t index) const {
  return place_of_source(scope_->first_source + index);
}

Importer::Scope Importer::scope_of(size_t subgraph) const {
  return {.graph = &file_.subgraphs[subgraph], .first_source = first_source_[subgraph]};
}

// Warns of an input that the model writes to: what the model returns is right, but programs leave
// their inputs as they are.
void Importer::keep_parameters() {
  for (const InputSpec& spec : file_.inputs)
    if (spec.kind == InputKind::kParameter) parameters_.insert(spec.name);
}

bool Importer::reads_parameter(OpId op) const {
  const Graph& graph = rewriter_.graph();
  return !parameters_.empty() && std::ranges::any_of(graph.op(op).operands, [&](ValueId operand) {
    return operand.valid() &&
           (graph.producer(operand).valid() || parameters_.contains(graph.value(operand).name));
  });
}

void Importer::warn_of_written_input(std::string_view name) {
  module_.notes.push_back(
      {.id = DiagnosticId::kPt2MutatedState,
       .reason = fmt::format("the model writes to its input `{}`, the program does not: the array "
                             "that is given stays as it is",
                             name),
       .fix = "return the new value if the caller needs it; what is to last until the next run, "
              "keep in a buffer (self.register_buffer)",
       .place = {.file = module_.file, .node = std::string(name)},
       .severity = Severity::kWarning});
}

// Buffers that the signature lists as mutated, and those that an in-place operator writes to,
// directly or through views.
void Importer::find_written_buffers() {
  std::unordered_map<std::string_view, std::string_view> input_of;  // of a view, by name
  for (const InputSpec& spec : file_.inputs)
    if (spec.kind == InputKind::kBuffer || spec.kind == InputKind::kUser)
      input_of.emplace(spec.name, spec.name);
  std::unordered_map<std::string_view, std::string_view> next_of;  // by name of the input
  for (const Node& node : file_.nodes) {
    const OperatorMatch match = match_of(node);
    const bool writes = writes_to_operand(operator_name(node));
    if (match.row == nullptr || !(match.row->aliases || writes)) continue;
    const auto source = input_of.find(written_tensor(node));
    if (source == input_of.end()) continue;
    const std::string_view input = source->second;
    if (writes) next_of.emplace(input, std::string_view());
    for (const std::string_view output : node.outputs) input_of.emplace(output, input);
  }
  for (const InputSpec& spec : file_.inputs) {
    if (spec.kind == InputKind::kUser && next_of.contains(spec.name))
      warn_of_written_input(spec.name);
    if (spec.kind != InputKind::kBuffer || is_leftover_counter(spec.name)) continue;
    for (const OutputSpec& output : file_.outputs)
      if (output.kind == "buffer_mutation" && output.target == spec.target)
        next_of.emplace(spec.name, output.name);
    if (const auto next = next_of.find(spec.name); next != next_of.end())
      written_.push_back({.spec = &spec, .next = next->second});
  }
}

const Importer::WrittenBuffer* Importer::find_written(std::string_view input) const {
  const auto at = std::ranges::find(written_, input,
                                    [](const WrittenBuffer& buffer) { return buffer.spec->name; });
  return at == written_.end() ? nullptr : &*at;
}

// Batch normalization in training mode counts its batches in a buffer that nothing at inference
// reads.
bool Importer::is_leftover_counter(std::string_view name) const {
  for (const InputSpec& spec : file_.inputs)
    if (spec.name == name)
      return spec.kind == InputKind::kBuffer && spec.target.ends_with("num_batches_tracked");
  return false;
}

// A node lives if an output of the program depends on it; in-place operators live, except on the
// counters of batch normalization.
Result<void> Importer::find_live_nodes() {
  const size_t count = file_.nodes.size();
  for (const OutputSpec& spec : file_.outputs) {
    const bool counter =
        spec.kind == "buffer_mutation" && spec.target.ends_with("num_batches_tracked");
    if (counter || spec.kind == kToken || spec.name.empty()) continue;
    if (spec.kind == "user_input_mutation") {
      if (std::ranges::find(file_.outputs, "user_output", &OutputSpec::kind) == file_.outputs.end())
        return fail(
            DiagnosticId::kPt2MutatedState,
            fmt::format("the model returns nothing, it only writes to its input `{}`", spec.target),
            "return the new value", {.file = archive_.file(), .node = std::string(spec.name)});
      warn_of_written_input(spec.target);
      continue;
    }
    if (spec.kind != "user_output" && spec.kind != "buffer_mutation")
      return fail(DiagnosticId::kPt2MutatedState,
                  fmt::format("the program has an output of kind {}", spec.kind),
                  "export model.eval() for inference",
                  {.file = archive_.file(), .node = std::string(spec.name)});
    scope_->last_use.emplace(spec.name, count);
  }
  for (const WrittenBuffer& buffer : written_) scope_->last_use.emplace(buffer.spec->name, count);
  find_live_nodes(program_);
  return {};
}

void Importer::find_live_nodes(Scope& scope) const {
  const std::vector<Node>& nodes = scope.graph->nodes;
  for (const std::string_view result : scope.graph->results)
    if (!result.empty()) scope.last_use.emplace(result, nodes.size());
  scope.live.resize(nodes.size());
  for (size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    bool live = std::ranges::any_of(
        node.outputs, [&](std::string_view name) { return scope.last_use.contains(name); });
    if (!live && writes_to_operand(operator_name(node)))
      live = !is_leftover_counter(written_tensor(node));
    scope.live[i] = live;
    if (live) for_each_read(node, [&](std::string_view name) { scope.last_use.emplace(name, i); });
  }
}

Result<Values> Importer::run_subgraph(size_t subgraph, const Values& operands, const Place& place) {
  Scope scope = scope_of(subgraph);
  const ExportedGraph& graph = *scope.graph;
  if (graph.operands.size() != operands.size())
    return fail(DiagnosticId::kPt2Invalid,
                fmt::format("`{}` takes {} operands and is given {}", graph.name,
                            graph.operands.size(), operands.size()),
                std::string(kExportAgain), place);
  find_live_nodes(scope);
  scope.borrowed_storages = operands.size();
  Scope* const outer = std::exchange(scope_, &scope);
  const auto run = [&]() -> Result<Values> {
    for (size_t i = 0; i < operands.size(); ++i) {
      scope.storages.emplace_back();
      DTR_TRY(bind(graph.operands[i],
                   {.value = operands[i], .target = {}, .storage = static_cast<uint32_t>(i)},
                   place));
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (!scope.live[i]) continue;
      if (nodes_left_-- == 0)
        return fail(
            DiagnosticId::kPt2ControlFlow,
            fmt::format("unrolled, the loops of the model have more than {} operators", kMostNodes),
            "export one step of the loop, whose state is an input and an output", place);
      DTR_TRY(import_node(i));
    }
    Values results;
    for (const std::string_view name : graph.results) {
      if (name.empty())
        return fail(DiagnosticId::kPt2ControlFlow,
                    fmt::format("`{}` returns a number that is no tensor", graph.name),
                    "return tensors (torch.tensor(n)) from branches and bodies of loops", place);
      DTR_ASSIGN(results.emplace_back(), value_of(name, place));
    }
    return results;
  };
  Result<Values> results = run();
  scope_ = outer;
  return results;
}

// Says what is computed in float32 that the model has in another float type.
void Importer::note_narrowed_floats() {
  std::map<std::string_view, std::string_view> first;  // by type
  const auto see = [&](std::string_view name) {
    const auto at = file_.tensors.find(name);
    if (at == file_.tensors.end()) return;
    const int type = at->second.scalar_type;
    if (has_sixteen_bits(type) || dtype_of(type) == DType::kFloat64)
      first.emplace(scalar_type_name(type), name);
  };
  for (const InputSpec& spec : file_.inputs)
    if (spec.kind == InputKind::kUser) see(spec.name);
  for (const OutputSpec& spec : file_.outputs) see(spec.name);
  for (size_t i = 0; i < file_.nodes.size(); ++i)
    if (program_.live[i])
      for (const std::string_view name : file_.nodes[i].outputs) see(name);
  for (const auto& [type, name] : first)
    module_.notes.push_back(
        {.id = DiagnosticId::kPt2UnsupportedDtype,
         .reason = fmt::format("`{}` is {}: it is computed in float32, and so is all else that is "
                               "{}; inputs and outputs are float32",
                               name, type, type),
         .place = {.file = module_.file, .node = std::string(name)},
         .severity = Severity::kNote});
}

// PT2E's observers are modules of their own until convert_pt2e replaces them; those of training may
// stay, as fake quantization.
Result<void> Importer::check_converted() const {
  std::unordered_map<std::string_view, std::string_view> observers;
  for (const InputSpec& spec : file_.inputs)
    if (spec.target.starts_with("activation_post_process_"))
      observers.emplace(spec.name, spec.target);
  for (size_t i = 0; i < file_.nodes.size() && !observers.empty(); ++i) {
    if (operator_name(file_.nodes[i]).find("fake_quant") != std::string_view::npos) continue;
    std::string_view observer;
    for_each_read(file_.nodes[i], [&](std::string_view name) {
      if (const auto found = observers.find(name); found != observers.end())
        observer = found->second;
    });
    if (!observer.empty())
      return fail(
          DiagnosticId::kPt2NotCalibrated,
          fmt::format(
              "the model is prepared for quantization, but not converted: it has the observer `{}`",
              observer),
          "run calibration data through the prepared model, call convert_pt2e, then export",
          place_of_node(i));
  }
  return {};
}

bool Importer::is_complex(std::string_view name) const {
  const auto at = scope_->graph->tensors.find(name);
  return at != scope_->graph->tensors.end() && pt2::is_complex(at->second.scalar_type);
}

bool Importer::has_complex(const Node& node) const {
  bool complex =
      std::ranges::any_of(node.outputs, [&](std::string_view name) { return is_complex(name); });
  for_each_read(node, [&](std::string_view name) { complex = complex || is_complex(name); });
  return complex;
}

OperatorMatch Importer::match_of(const Node& node) const {
  return has_complex(node) ? find_complex_operator(operator_name(node))
                           : find_operator(operator_name(node));
}

// Live nodes of the scope's graph, and of subgraphs of them, for which there is no row.
Result<void> Importer::find_missing(const Scope& scope, MissingOperators& missing) {
  for (size_t i = 0; i < scope.graph->nodes.size(); ++i) {
    if (!scope.live[i]) continue;
    const Node& node = scope.graph->nodes[i];
    const bool known = match_of(node).row != nullptr;
    if (!known && operator_name(node).starts_with("higher_order."))
      return fail(DiagnosticId::kPt2ControlFlow,
                  fmt::format("{} runs a part of the model in a way that is not known",
                              operator_name(node)),
                  "write it as plain operators: a Python loop or branch on shapes is unrolled by "
                  "the export",
                  place_of_node(i));
    if (!known) {
      const bool complex = has_complex(node);
      MissingOperator& entry = missing[{operator_name(node), complex}];
      if (entry.count++ == 0) entry.first = place_of_node(i);
    }
    for (const auto& [argument, value] : node.inputs)
      if (const auto* subgraph = std::get_if<Subgraph>(&value)) {
        Scope inner = scope_of(subgraph->index);
        find_live_nodes(inner);
        Scope* const outer = std::exchange(scope_, &inner);
        const Result<void> found = find_missing(inner, missing);
        scope_ = outer;
        DTR_TRY(found);
      }
  }
  return {};
}

Result<void> Importer::check_operators() {
  MissingOperators missing;
  DTR_TRY(find_missing(program_, missing));
  if (missing.empty()) return {};
  for (const auto& [kind, entry] : missing)
    if (const std::string_view target = kind.target; draws_numbers(target))
      return fail(DiagnosticId::kPt2UnsupportedOperator,
                  fmt::format("{} draws random numbers: the outputs of a program depend on its "
                              "inputs alone",
                              target),
                  std::string(remedy_of_random(target)), entry.first);
  std::string list;
  for (const auto& [kind, entry] : missing)
    list += fmt::format("{}{}{} ({}×)", list.empty() ? "" : ", ", kind.target,
                        kind.complex ? " of complex numbers" : "", entry.count);
  const auto first = [&](const Place& place) {
    const auto at = std::ranges::find(module_.sources, place.node, &SourceOp::name);
    return at - module_.sources.begin();
  };
  const auto earliest = std::ranges::min_element(
      missing, {}, [&](const auto& entry) { return first(entry.second.first); });
  return fail(DiagnosticId::kPt2UnsupportedOperator,
              fmt::format("{} kind{} of operator not supported: {}", missing.size(),
                          missing.size() == 1 ? "" : "s", list),
              remedy_of_missing(earliest->first.target, {.complex = earliest->first.complex,
                                                         .decomposed = file_.decomposed}),
              earliest->second.first);
}

Result<void> Importer::bind(std::string_view name, Binding binding, const Place& place) {
  if (name.empty()) return {};
  if (!scope_->bindings.emplace(name, binding).second)
    return fail(DiagnosticId::kPt2DuplicateName, fmt::format("two values are named `{}`", name),
                std::string(kExportAgain), place);
  scope_->storages[binding.storage].push_back(name);
  return {};
}

Result<void> Importer::bind_inputs() {
  for (const InputSpec& spec : file_.inputs) {
    const Place place{.file = archive_.file(),
                      .node = std::string(spec.name.empty() ? spec.description : spec.name)};
    if (spec.kind == InputKind::kUser) {
      DTR_TRY(bind_user_input(spec));
    } else if (find_written(spec.name) != nullptr) {
      continue;  // states are the last inputs
    } else if (spec.kind != InputKind::kOther) {
      scope_->storages.emplace_back();
      DTR_TRY(bind(spec.name,
                   {.value = {},
                    .target = spec.target,
                    .storage = static_cast<uint32_t>(scope_->storages.size() - 1)},
                   place));
    } else if (spec.description != "constant_input" && spec.description != kToken) {
      return fail(DiagnosticId::kPt2UnsupportedArgument,
                  fmt::format("the program takes an input of kind {}, which is no tensor",
                              spec.description),
                  "let the model take tensors only", place);
    }
  }
  for (const WrittenBuffer& buffer : written_) DTR_TRY(bind_state(buffer));
  return {};
}

Result<void> Importer::bind_state(const WrittenBuffer& buffer) {
  const InputSpec& spec = *buffer.spec;
  const Place place{.file = archive_.file(), .node = std::string(spec.name)};
  DTR_ASSIGN(Stored stored, load(spec.name, spec.target, place));
  scope_->storages.emplace_back();
  const ValueId value = rewriter_.add_state(std::move(stored.type), stored.id, spec.target);
  return bind(
      spec.name,
      {.value = value, .target = {}, .storage = static_cast<uint32_t>(scope_->storages.size() - 1)},
      place);
}

Result<void> Importer::bind_user_input(const InputSpec& spec) {
  const Place place{.file = archive_.file(), .node = std::string(spec.name)};
  const auto at = file_.tensors.find(spec.name);
  if (at == file_.tensors.end())
    return fail(DiagnosticId::kPt2Invalid, "the input has no type", std::string(kExportAgain),
                place);
  const TensorMeta& meta = at->second;
  const bool complex = is_complex(spec.name);
  auto dtype = complex ? part_dtype_of(meta.scalar_type) : dtype_of(meta.scalar_type);
  if (!dtype)
    return fail(DiagnosticId::kPt2UnsupportedDtype,
                fmt::format("the input has dtype {}", scalar_type_name(meta.scalar_type)),
                "convert the model and its example inputs to float32 before the export", place);
  if (dtype == DType::kFloat64) dtype = DType::kFloat32;
  auto layout = layout_of(meta);
  if (std::ranges::find(meta.sizes, 0) != meta.sizes.end()) layout = Layout::kContiguous;
  if (!layout)
    return fail(
        DiagnosticId::kPt2UnsupportedStrides,
        fmt::format("the input of shape {} has strides [{}], neither contiguous nor channels-last",
                    to_string(meta.sizes), fmt::join(meta.strides, ", ")),
        "call contiguous() on the example input before the export", place);
  if (complex) {
    layout = Layout::kContiguous;
    note_complex(spec.name, "input");
  }
  scope_->storages.emplace_back();
  const ValueId value = rewriter_.add_input(
      {.dtype = *dtype, .shape = shape_of(meta), .layout = *layout, .quantization = {}}, spec.name);
  return bind(
      spec.name,
      {.value = value, .target = {}, .storage = static_cast<uint32_t>(scope_->storages.size() - 1)},
      place);
}

// Complex numbers of the caller are floats of a program.
void Importer::note_complex(std::string_view name, std::string_view role) {
  module_.notes.push_back(
      {.id = DiagnosticId::kPt2UnsupportedDtype,
       .reason = fmt::format("the {0} `{1}` has complex numbers: the program's {0} is "
                             "torch.view_as_real({1}), float32 with a last dimension of 2",
                             role, name),
       .place = {.file = module_.file, .node = std::string(name)},
       .severity = Severity::kNote});
}

Result<void> Importer::load_constant(std::string_view name, Binding& binding, const Place& place) {
  DTR_ASSIGN(Stored stored, load(name, binding.target, place));
  binding.value = rewriter_.add_constant(std::move(stored.type), stored.id, name);
  return {};
}

Result<Importer::Stored> Importer::load(std::string_view name, std::string_view target,
                                        const Place& place) {
  auto elements = archive_.read(target);
  if (!elements) {
    Diagnostic problem = std::move(elements).error();
    problem.place.module_path = place.module_path;
    problem.place.source_line = place.source_line;
    return tl::unexpected(std::move(problem));
  }
  const TensorMeta& meta = archive_.find_payload(target)->meta;
  const auto stated = file_.tensors.find(name);
  if (stated != file_.tensors.end() &&
      (stated->second.sizes != meta.sizes || stated->second.scalar_type != meta.scalar_type))
    return fail(
        DiagnosticId::kPt2TypeMismatch,
        fmt::format("the graph says {} of {}, the data of `{}` are {} of {}",
                    to_string(stated->second.sizes), scalar_type_name(stated->second.scalar_type),
                    target, to_string(meta.sizes), scalar_type_name(meta.scalar_type)),
        std::string(kExportAgain), place);
  const ConstantId id = elements->in_place()
                            ? module_.constants.add_in_place(elements->dtype, elements->bytes)
                            : module_.constants.add(elements->dtype, elements->bytes);
  return Stored{.type = {.dtype = elements->dtype, .shape = shape_of(meta)}, .id = id};
}

Result<ValueId> Importer::value_of(std::string_view name, const Place& place) {
  const auto at = scope_->bindings.find(name);
  if (at == scope_->bindings.end()) {
    const bool later = std::ranges::any_of(scope_->graph->nodes, [&](const Node& node) {
      return std::ranges::find(node.outputs, name) != node.outputs.end();
    });
    return fail(DiagnosticId::kPt2UndefinedName,
                later ? fmt::format("`{}` is used before the node that makes it: the graph has a "
                                    "cycle or is out of order",
                                    name)
                      : fmt::format("no node makes `{}`", name),
                std::string(kExportAgain), place);
  }
  if (!at->second.value.valid()) DTR_TRY(load_constant(name, at->second, place));
  return at->second.value;
}

Result<void> Importer::import_node(size_t index) {
  const Node& node = scope_->graph->nodes[index];
  const OperatorMatch match = match_of(node);
  DTR_CHECK(match.row != nullptr);
  NodeImport context(*this, index);
  const size_t first_new_op = module_.forward().op_slots();
  DTR_ASSIGN(const Values results, import_operator(context, *match.row));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string_view name = node.outputs[i];
    if (i < results.size()) {
      DTR_TRY(bind_result(index, match, name, results[i], first_new_op));
    } else if (scope_->last_use.contains(name)) {
      return context.unsupported(
          fmt::format("output {} (`{}`) is used, only {} are supported", i, name, results.size()));
    }
  }
  return match.in_place && !results.empty() ? overwrite(index, results.front()) : Result<void>{};
}

Result<void> Importer::bind_result(size_t index, const OperatorMatch& match, std::string_view name,
                                   ValueId value, size_t first_new_op) {
  const Graph& graph = module_.forward();
  const auto stated = scope_->graph->tensors.find(name);
  if (stated != scope_->graph->tensors.end()) {
    const TensorMeta& meta = stated->second;
    const auto dtype = pt2::is_complex(meta.scalar_type) ? part_dtype_of(meta.scalar_type)
                                                         : dtype_of(meta.scalar_type);
    if (!dtype)
      return fail(DiagnosticId::kPt2UnsupportedDtype,
                  fmt::format("`{}` has dtype {}", name, scalar_type_name(meta.scalar_type)),
                  "convert the model to float32 before the export", place_of_node(index));
    const Type& type = graph.type(value);
    const bool narrowed = *dtype == DType::kFloat64 && type.dtype == DType::kFloat32;
    const bool shifted = *dtype == DType::kUint8 && type.dtype == DType::kInt8 &&
                         type.quantized();  // see quantization_operators.cpp
    if (type.shape != shape_of(meta) || (type.dtype != *dtype && !shifted && !narrowed))
      return fail(DiagnosticId::kPt2TypeMismatch,
                  fmt::format("the file says that `{}` is {} of {}, the operator gives {} of {}",
                              name, to_string(meta.sizes), dtr::name(*dtype), to_string(type.shape),
                              dtr::name(type.dtype)),
                  std::string(kExportAgain), place_of_node(index));
  }
  const OpId producer = graph.producer(value);
  if (producer.valid() && producer.index >= first_new_op && graph.value(value).name != name)
    rewriter_.rename(value, name);
  const std::string_view from = match.row->aliases || match.in_place
                                    ? written_tensor(scope_->graph->nodes[index])
                                    : std::string_view();
  const auto source = scope_->bindings.find(from);
  // A conversion to the dtype that the tensor has returns the tensor itself, to another one a copy.
  const bool alias = source != scope_->bindings.end() &&
                     (match.in_place || !source->second.value.valid() ||
                      graph.type(source->second.value).dtype == graph.type(value).dtype);
  const uint32_t storage =
      alias ? source->second.storage : static_cast<uint32_t>(scope_->storages.size());
  if (!alias) scope_->storages.emplace_back();
  return bind(name, {.value = value, .target = {}, .storage = storage}, place_of_node(index));
}

// After an in-place operator every name of the overwritten tensor means the new value, and the
// tensor that it is a slice of has that value as its part. Another view of the same memory that is
// read later would need its update too, which is refused.
Result<void> Importer::overwrite(size_t index, ValueId value) {
  std::string_view name = written_tensor(scope_->graph->nodes[index]);
  if (!scope_->bindings.contains(name)) return {};
  std::vector<ValueId> renewed;
  for (;;) {
    const Binding written = scope_->bindings.at(name);
    if (!written.target.empty())
      return fail(DiagnosticId::kPt2MutatedState,
                  fmt::format("the operator writes to `{}` of the model, which is no buffer",
                              written.target),
                  "keep what the model writes in a buffer (self.register_buffer), or export "
                  "model.eval()",
                  place_of_node(index));
    if (written.storage < scope_->borrowed_storages)
      return fail(
          DiagnosticId::kPt2MutatedState,
          fmt::format("the operator writes to `{}`, an operand of `{}`", name, scope_->graph->name),
          "return the new value from the branch, loop or region instead of writing in "
          "place",
          place_of_node(index));
    renewed.push_back(value);
    std::string_view stale;
    for (const std::string_view other : scope_->storages[written.storage]) {
      Binding& binding = scope_->bindings.at(other);
      const auto use = scope_->last_use.find(other);
      if (binding.value == written.value) {
        binding.value = value;
      } else if (stale.empty() && use != scope_->last_use.end() && use->second > index &&
                 std::ranges::find(renewed, binding.value) == renewed.end()) {
        stale = other;
      }
    }
    if (stale.empty()) return {};
    DTR_ASSIGN(const std::optional<ScatteredSource> whole, scatter_into_source(name, value));
    if (!whole)
      return fail(
          DiagnosticId::kPt2MutatedState,
          fmt::format("the operator overwrites `{}`, of which `{}` is a view that is read later",
                      name, stale),
          "use the operator that is not in-place", place_of_node(index));
    name = whole->name;
    value = whole->value;
  }
}

// The tensor that `name` is a slice of, with `value` in the slice's place.
Result<std::optional<Importer::ScatteredSource>> Importer::scatter_into_source(
    std::string_view name, ValueId value) {
  const auto makes = [&](const Node& node) {
    return std::ranges::find(node.outputs, name) != node.outputs.end();
  };
  const std::vector<Node>& nodes = scope_->graph->nodes;
  const auto maker = std::ranges::find_if(nodes, makes);
  if (maker == nodes.end()) return std::nullopt;
  // In-place operators return the tensor that they write to.
  if (match_of(*maker).in_place)
    return ScatteredSource{.name = written_tensor(*maker), .value = value};
  NodeImport slice(*this, static_cast<size_t>(maker - nodes.begin()));
  DTR_ASSIGN(const std::optional<ValueId> whole, scatter_into_view_source(slice, value));
  if (!whole) return std::nullopt;
  return ScatteredSource{.name = first_read(*maker), .value = *whole};
}

Result<void> Importer::set_outputs() {
  std::vector<ValueId> outputs;
  std::vector<Layout> layouts;  // contiguous where the file states other strides: those of a view
                                // of something larger
  for (const OutputSpec& spec : file_.outputs) {
    if (spec.kind != "user_output" || spec.name.empty()) continue;
    DTR_ASSIGN(const ValueId value,
               value_of(spec.name, {.file = archive_.file(), .node = std::string(spec.name)}));
    if (is_complex(spec.name)) note_complex(spec.name, "output");
    outputs.push_back(value);
    const auto stated = file_.tensors.find(spec.name);
    // The parts of complex numbers stay neighbours.
    layouts.push_back(stated == file_.tensors.end() || is_complex(spec.name)
                          ? Layout::kContiguous
                          : layout_of(stated->second).value_or(Layout::kContiguous));
  }
  if (outputs.empty())
    return fail(DiagnosticId::kPt2Invalid, "the program has no output",
                "let the model return a tensor", {.file = archive_.file()});
  for (const WrittenBuffer& buffer : written_) {
    const std::string_view name = buffer.next.empty() ? buffer.spec->name : buffer.next;
    const Place place{.file = archive_.file(), .node = std::string(name)};
    DTR_ASSIGN(const ValueId next, value_of(name, place));
    const Graph& graph = module_.forward();
    const Type& type = graph.type(graph.state(outputs.size() - layouts.size()));
    if (graph.type(next).dtype != type.dtype || graph.type(next).shape != type.shape)
      return fail(
          DiagnosticId::kPt2TypeMismatch,
          fmt::format("the buffer `{}` is {} of {}, what the model writes to it is {} of {}",
                      buffer.spec->target, to_string(type.shape), dtr::name(type.dtype),
                      to_string(graph.type(next).shape), dtr::name(graph.type(next).dtype)),
          std::string(kExportAgain), place);
    outputs.push_back(next);
  }
  rewriter_.set_outputs(std::move(outputs));
  for (size_t i = 0; i < layouts.size(); ++i) rewriter_.set_output_layout(i, layouts[i]);
  return {};
}

}  // namespace dtr::pt2
