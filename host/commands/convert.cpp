#include "host/commands/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "compiler/frontends/tflite/importer.h"
#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/read_model.h"
#include "compiler/program/reader.h"
#include "compiler/support/output_file.h"
#include "device/executorch/neutron_payload.h"
#include "device/pte/debug_map_generated.h"
#include "device/pte/program_generated.h"
#include "host/commands/compile_options.h"
#include "host/commands/neutron_graph.h"
#include "host/profiler/operator_map.h"

namespace dtr {
namespace {

using tflite::fb::TensorType;

constexpr size_t kMostRefusals = 256;  // after which no further operator is tried

// ---- models that compute nothing

bool same_quantization(const tflite::TensorInfo& a, const tflite::TensorInfo& b) {
  return a.shape == b.shape && a.type == b.type && a.scales == b.scales &&
         a.zero_points == b.zero_points;
}

// Whether every element of an int8 constant is zero.
bool is_zero(const tflite::TensorInfo& of) {
  if (!of.constant() || of.type != TensorType::INT8 || of.scales.size() != 1) return false;
  return std::ranges::all_of(of.data, [&](std::byte code) {
    return static_cast<int8_t>(std::to_integer<uint8_t>(code)) == of.zero_points[0];
  });
}

// The operand that an addition of zeros returns as it is; −1: none.
int32_t returned_operand(const tflite::ModelFile& file, const tflite::OperatorInfo& op) {
  namespace fb = tflite::fb;
  const bool adds = op.code == fb::BuiltinOperator::ADD;
  if ((!adds && op.code != fb::BuiltinOperator::SUB) || op.inputs.size() != 2 ||
      op.outputs.size() != 1)
    return -1;
  const auto* add = file.options<fb::AddOptions>(op, fb::OptionsType::AddOptions);
  const auto* sub = file.options<fb::SubOptions>(op, fb::OptionsType::SubOptions);
  constexpr auto kNone = fb::ActivationFunctionType::NONE;
  if ((add != nullptr && add->fused_activation_function() != kNone) ||
      (sub != nullptr && sub->fused_activation_function() != kNone))
    return -1;
  const auto tensor = [&](int32_t index) -> const tflite::TensorInfo& {
    return file.tensors[static_cast<size_t>(index)];
  };
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const int32_t x = op.inputs[side], zeros = op.inputs[1 - side];
    if (x < 0 || zeros < 0 || op.outputs[0] < 0 || (side == 1 && !adds)) continue;
    if (!tensor(x).constant() && is_zero(tensor(zeros)) &&
        same_quantization(tensor(x), tensor(op.outputs[0])))
      return x;
  }
  return -1;
}

// The model's input that each output is, if all operators add zeros.
std::optional<std::vector<size_t>> neutral_inputs(const tflite::ModelFile& file) {
  std::map<int32_t, size_t> input_of;  // by tensor
  for (size_t i = 0; i < file.inputs.size(); ++i) input_of.emplace(file.inputs[i], i);
  for (const tflite::OperatorInfo& op : file.operators) {
    const auto from = input_of.find(returned_operand(file, op));
    if (from == input_of.end()) return std::nullopt;
    input_of.emplace(op.outputs[0], from->second);
  }
  std::vector<size_t> inputs;
  for (const int32_t output : file.outputs) {
    const auto from = input_of.find(output);
    if (from == input_of.end()) return std::nullopt;
    inputs.push_back(from->second);
  }
  return inputs;
}

// ---- other models

class Converter {
 public:
  Converter(std::span<const std::byte> bytes, tflite::ModelFile file, std::string name,
            const ConvertOptions& options)
      : bytes_(bytes), file_(std::move(file)), name_(std::move(name)), options_(options) {}

  Result<ConvertedModel> run() {
    settings_.weigh_costs = false;
    settings_.io_constants = false;  // of a delegate's payload nobody asks
    DTR_ASSIGN(settings_.target, resolve_target(options_.target));
    if (!has_npu(*settings_.target))
      return fail(DiagnosticId::kOptionNeedsNpu,
                  fmt::format("{} has no NPU to convert for", settings_.target->name),
                  "choose another --target", {.file = name_});
    settings_.backend.constants =
        options_.fetch_constants_to_sram ? ConstantMemory::kFlash : ConstantMemory::kSram;
    DTR_TRY(check_order());
    choose_candidates();
    place();
    ConvertedModel made{.operators = file_.operators.size()};
    made.converted = static_cast<size_t>(std::ranges::count(converts_, true));
    for (size_t i = 0; i < converts_.size(); ++i)
      if (!converts_[i])
        made.kept.push_back({.name = name_of(file_.operators[i]),
                             .op = std::string(file_.operators[i].name),
                             .reason = why_not_[i]});
    if (made.converted == 0) {
      made.tflite.assign(bytes_.begin(), bytes_.end());
      made.log = conversion_log(file_, {}, settings_.target->name);
      made.kernel_selection = kernel_selection({});
      return made;
    }
    if (const std::optional<std::vector<size_t>> inputs = neutral_inputs(file_)) {
      made.tflite = write_identity(file_, *inputs);
      made.log = conversion_log(file_, {}, settings_.target->name);
      made.kernel_selection = kernel_selection({});
      return made;
    }
    const GraphPlan plan = plan_graphs(file_, converts_);
    std::map<size_t, std::vector<size_t>> by_level;
    for (size_t i = 0; i < converts_.size(); ++i)
      if (converts_[i]) by_level[plan.level[i]].push_back(i);
    std::vector<NeutronGraph> graphs;
    for (const auto& [level, operators] : by_level) DTR_TRY(compile(operators, graphs));
    made.graphs = graphs.size();
    DTR_ASSIGN(made.tflite, write_model(bytes_, file_, plan, graphs, name_));
    made.log = conversion_log(file_, graphs, settings_.target->name);
    made.kernel_selection = kernel_selection(graphs);
    return made;
  }

 private:
  const tflite::TensorInfo& tensor(int32_t index) const {
    return file_.tensors[static_cast<size_t>(index)];
  }

  // Operators read constants, variables, inputs of the model, and results of operators before them.
  Result<void> check_order() const {
    std::vector<bool> made(file_.tensors.size());
    for (const int32_t input : file_.inputs) made[static_cast<size_t>(input)] = true;
    for (const tflite::OperatorInfo& op : file_.operators) {
      for (const int32_t index : op.inputs)
        if (index >= 0 && !made[static_cast<size_t>(index)] && !tensor(index).constant() &&
            !tensor(index).is_variable)
          return fail(DiagnosticId::kTfliteInvalid,
                      fmt::format("{} reads `{}` before any operator makes it (a cycle, or out of "
                                  "order)",
                                  op.name, tensor(index).name),
                      "convert or download the model again", {.file = name_, .node = name_of(op)});
      for (const int32_t output : op.outputs)
        if (output >= 0) made[static_cast<size_t>(output)] = true;
    }
    return {};
  }

  std::string name_of(const tflite::OperatorInfo& op) const {
    return op.outputs.empty() ? std::string() : std::string(tensor(op.outputs.front()).name);
  }

  // The reason that an operator gives itself, before it is placed; empty: it is a candidate, one
  // that the importer reads and that computes on codes of int8 or on integers.
  std::string own_reason(const tflite::OperatorInfo& op) const {
    if (tflite::find_operator(op) == nullptr) return "Deuteron does not read this operator";
    if (op.outputs.empty()) return "it has no result";
    for (const auto* list : {&op.inputs, &op.outputs})
      for (const int32_t index : *list) {
        if (index < 0) continue;
        const tflite::TensorInfo& of = tensor(index);
        if (of.is_variable) return fmt::format("`{}` is a variable", of.name);
        if (of.constant() && list == &op.inputs) continue;
        if (of.type != TensorType::INT8 && of.type != TensorType::INT32 &&
            of.type != TensorType::INT64 && of.type != TensorType::BOOL)
          return fmt::format("`{}` is {}: an operator must compute on int8, or on integers",
                             of.name, tflite::fb::EnumNameTensorType(of.type));
      }
    return {};
  }
  void choose_candidates() {
    for (const tflite::OperatorInfo& op : file_.operators) {
      why_not_.push_back(own_reason(op));
      converts_.push_back(why_not_.back().empty());
    }
  }
  void keep_out(size_t index, const std::string& reason) {
    if (!converts_[index]) return;
    converts_[index] = false;
    why_not_[index] = reason;
  }

  tflite::OperatorSubset subset_of(const std::vector<size_t>& operators) const {
    tflite::OperatorSubset subset{.operators = operators};
    std::set<int32_t> made, listed;
    const std::set<size_t> inside(operators.begin(), operators.end());
    for (const size_t i : operators)
      made.insert(file_.operators[i].outputs.begin(), file_.operators[i].outputs.end());
    // The model's own inputs and outputs keep their order.
    std::set<int32_t> read;
    for (const size_t i : operators)
      for (const int32_t index : file_.operators[i].inputs)
        if (index >= 0 && !made.contains(index) && !tensor(index).constant()) read.insert(index);
    std::set<int32_t> needed(file_.outputs.begin(), file_.outputs.end());
    for (size_t i = 0; i < file_.operators.size(); ++i)
      if (!inside.contains(i))
        needed.insert(file_.operators[i].inputs.begin(), file_.operators[i].inputs.end());
    const auto add = [&](std::vector<int32_t>& list, int32_t index) {
      if (listed.insert(index).second) list.push_back(index);
    };
    for (const int32_t index : file_.inputs)
      if (read.contains(index)) add(subset.inputs, index);
    for (const int32_t index : read) add(subset.inputs, index);
    for (const int32_t index : file_.outputs)
      if (made.contains(index)) add(subset.outputs, index);
    for (const size_t i : operators)
      for (const int32_t index : file_.operators[i].outputs)
        if (needed.contains(index)) add(subset.outputs, index);
    return subset;
  }

  // The operator at whose result a diagnostic points.
  std::optional<size_t> operator_at(const Diagnostic& diagnostic) const {
    for (size_t i = 0; i < file_.operators.size(); ++i)
      if (converts_[i])
        for (const int32_t index : file_.operators[i].outputs)
          if (!diagnostic.place.node.empty() && tensor(index).name == diagnostic.place.node)
            return i;
    return std::nullopt;
  }

  // Clears the entries of operators that the NPU does not run.
  void place() {
    for (size_t refusals = 0;; ++refusals) {
      std::vector<size_t> operators;
      for (size_t i = 0; i < converts_.size(); ++i)
        if (converts_[i]) operators.push_back(i);
      if (operators.empty()) return;
      const tflite::OperatorSubset subset = subset_of(operators);
      Result<tflite::Import> import = tflite::parse_tflite(
          bytes_, name_, {.arithmetic = tflite::Arithmetic::kPytorch, .subset = &subset});
      std::vector<size_t> by_source;
      Result<Compilation> placed = tl::unexpected(Diagnostic{});
      if (import) {
        by_source = operators_of_sources(import->module, operators);
        placed = place_model(std::move(import->module), settings_);
      } else {
        placed = tl::unexpected(std::move(import).error());
      }
      if (placed) {
        keep_delegated(*placed, by_source);
        return;
      }
      const std::optional<size_t> culprit = operator_at(placed.error());
      if (!culprit || refusals == kMostRefusals) {
        for (const size_t i : operators) keep_out(i, placed.error().reason);
        return;
      }
      keep_out(*culprit, placed.error().reason);
    }
  }

  // The operator of each source of a module, in which operators that do nothing have none.
  std::vector<size_t> operators_of_sources(const Module& module,
                                           const std::vector<size_t>& operators) const {
    std::vector<size_t> found;
    size_t at = 0;
    for (const SourceOp& source : module.sources) {
      size_t next = at;
      while (next < operators.size() &&
             (file_.operators[operators[next]].name != source.target ||
              tensor(file_.operators[operators[next]].outputs.front()).name != source.name))
        ++next;
      if (next == operators.size()) {
        found.push_back(SIZE_MAX);
        continue;
      }
      found.push_back(operators[next]);
      at = next + 1;
    }
    return found;
  }

  void keep_delegated(const Compilation& placed, const std::vector<size_t>& by_source) {
    const Graph& graph = placed.module.forward();
    for (const OpId id : graph.ops()) {
      const uint8_t at = placed.placement.backend[id.index];
      if (at != Placement::kNowhere && placed.recipe[at]->as_delegate() != nullptr) continue;
      // Views alone are no call of the NPU, but a graph all the same: it has no commands.
      const auto& reasons = placed.placement.reasons;
      if (id.index < reasons.size() && reasons[id.index] &&
          reasons[id.index]->refusal.id == "only-views")
        continue;
      const std::string reason = id.index < reasons.size() && reasons[id.index]
                                     ? reasons[id.index]->refusal.reason
                                     : "the NPU does not run it";
      for (const uint32_t source : graph.op(id).origin.sources)
        if (source < by_source.size() && by_source[source] != SIZE_MAX)
          keep_out(by_source[source], reason);
    }
  }

  // Compiles a part to a program, and adds its graph.
  Result<void> compile(const std::vector<size_t>& operators, std::vector<NeutronGraph>& graphs) {
    NeutronGraph graph{.subset = subset_of(operators), .records_profile = options_.profile};
    DTR_ASSIGN(
        tflite::Import import,
        tflite::parse_tflite(
            bytes_, name_, {.arithmetic = tflite::Arithmetic::kPytorch, .subset = &graph.subset}));
    const std::vector<size_t> by_source = operators_of_sources(import.module, operators);
    DTR_ASSIGN(const Compilation compiled, compile_model(std::move(import.module), settings_));
    DTR_ASSIGN(const PteFile program, PteFile::borrow(compiled.pte(), name_, false));
    add_steps(program, by_source, graph);
    pack(compiled.pte(), scratch_of(program), graph);
    graphs.push_back(std::move(graph));
    return {};
  }

  static void add_steps(const PteFile& program, const std::vector<size_t>& by_source,
                        NeutronGraph& graph) {
    if (program.debug_map() == nullptr) return;
    const OperatorMap operators(*program.debug_map());
    for (const auto& [place, step] : operators.steps()) {
      if (place.second < 0 || step.kernel == "Copy") continue;  // a call, or a copy beside it
      std::vector<size_t> made;
      for (const uint32_t source : step.origin.sources)
        if (source < by_source.size() && by_source[source] != SIZE_MAX)
          made.push_back(by_source[source]);
      if (graph.steps.empty() || graph.steps.back().operators != made)
        graph.steps.push_back({.operators = std::move(made)});
      graph.steps.back().kernels.push_back(step.kernel);
    }
  }

  static uint32_t scratch_of(const PteFile& program) {
    const auto* sizes = program.plan().non_const_buffer_sizes();
    uint64_t sum = 0;
    for (uint32_t i = 0; sizes != nullptr && i < sizes->size(); ++i)
      sum += static_cast<uint64_t>(sizes->Get(i));
    return static_cast<uint32_t>(std::min<uint64_t>(sum, INT32_MAX));
  }

  // Header words: see device/executorch/neutron_payload.h and the reader of NXP's payloads.
  void pack(std::span<const std::byte> program, uint32_t scratch, NeutronGraph& graph) const {
    constexpr uint32_t kRecordBytes = 16;
    uint32_t words[executorch::kNeutronHeaderBytes / sizeof(uint32_t)] = {};
    size_t kernels = 1;  // one record for the dump itself
    for (const NeutronStep& step : graph.steps) kernels += step.kernels.size();
    graph.scratch_bytes = scratch;
    words[0] = executorch::kNeutronMagic;
    words[1] = executorch::kNeutronSignature;
    words[2] = static_cast<uint32_t>(program.size());
    words[6] = static_cast<uint32_t>(sizeof words + program.size());
    words[7] = kNeutronWeightBytes;
    words[9] = scratch;
    if (options_.profile) {
      graph.profile_bytes = static_cast<uint32_t>(kernels * kRecordBytes);
      graph.debug_bytes = kRecordBytes;
      words[10] = graph.profile_bytes;
      words[11] = graph.debug_bytes;
    }
    const size_t at = options_.profile ? 13 : 11;
    words[at] = static_cast<uint32_t>(graph.subset.inputs.size());
    words[at + 1] = static_cast<uint32_t>(graph.subset.outputs.size());
    graph.microcode.resize(sizeof words);
    std::memcpy(graph.microcode.data(), words, sizeof words);
    graph.microcode.insert(graph.microcode.end(), program.begin(), program.end());
  }

  std::span<const std::byte> bytes_;
  tflite::ModelFile file_;
  std::string name_;
  const ConvertOptions& options_;
  CompileSettings settings_;
  std::vector<bool> converts_;        // by operator
  std::vector<std::string> why_not_;  // by operator
};

}  // namespace

Result<ConvertedModel> convert_model(std::span<const std::byte> model, const std::string& name,
                                     const ConvertOptions& options) {
  if (kind_of(model) != FileKind::kTflite)
    return fail(DiagnosticId::kModelUnknown, "the file is not a .tflite model",
                "give the Neutron IR that ExecuTorch's NXP backend makes, or another .tflite",
                {.file = name});
  const AlignedBytes aligned(model);
  DTR_ASSIGN(tflite::ModelFile file, tflite::ModelFile::open(aligned.bytes(), name));
  return Converter(aligned.bytes(), std::move(file), name, options).run();
}

Result<ConvertedModel> convert_file(const std::string& input, const std::string& output,
                                    const std::string& kernel_selection,
                                    const ConvertOptions& options) {
  DTR_TRY(check_outputs({input}, {output, kernel_selection}));
  DTR_ASSIGN(const FileContents model, FileContents::read(input));
  std::vector<OutputFile> files;
  for (const std::string& path : {output, kernel_selection}) {
    if (path.empty()) continue;
    DTR_ASSIGN(OutputFile file, OutputFile::create(path));
    files.push_back(std::move(file));
  }
  DTR_ASSIGN(ConvertedModel made, convert_model(model.bytes(), input, options));
  DTR_TRY(files.front().write(made.tflite));
  if (!kernel_selection.empty())
    DTR_TRY(files.back().write(std::as_bytes(std::span(made.kernel_selection))));
  DTR_TRY(OutputFile::commit(files));
  return made;
}

}  // namespace dtr
