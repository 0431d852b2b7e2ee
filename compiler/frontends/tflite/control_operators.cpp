// Operators that call other subgraphs of the file: IF, WHILE and STABLEHLO_COMPOSITE. The
// subgraph is built in place for each call. A condition that depends on no input of the model
// chooses its branch; else both branches are built, and one result of each pair is selected. Loops
// are unrolled, so that the number of their steps must not depend on an input.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/compositions/control.h"
#include "compiler/frontends/tflite/importer.h"
#include "compiler/frontends/tflite/stored_forms.h"
#include "compiler/ops/constant_folding.h"

namespace dtr::tflite {
namespace {

using fb::BuiltinOperator;
using fb::OptionsType;
using Values = std::vector<ValueId>;

// Operators that all calls together may make: a file of a few kilobytes can call itself in ever
// more ways.
constexpr size_t kMostCalledOperators = size_t{1} << 16;

// All operands from `first` on.
Result<Values> operands(Importer& importer, size_t first) {
  Values values;
  for (size_t i = first; i < importer.op().inputs.size(); ++i) {
    if (!importer.has(i)) return importer.unsupported(fmt::format("operand {} is absent", i));
    DTR_ASSIGN(values.emplace_back(), importer.value(i));
  }
  return values;
}

// Values as the outputs of the operator have them.
Result<Values> as_outputs(Importer& importer, Values values) {
  const size_t count = importer.op().outputs.size();
  if (values.size() != count)
    return importer.invalid(
        fmt::format("its subgraph makes {} tensors, the file says {}", values.size(), count));
  for (size_t i = 0; i < count; ++i) {
    DTR_ASSIGN(values[i], importer.as_output(values[i], i));
  }
  return values;
}

// Each pair in the same real numbers, or integers; the result is quantized by `as_output`.
Result<ValueId> select(Importer& importer, ValueId condition, ValueId taken, ValueId other) {
  if (taken == other) return taken;
  DTR_ASSIGN(taken, importer.dequantized(taken));
  DTR_ASSIGN(other, importer.dequantized(other));
  Importer::Builder builder(importer);
  return compositions::select_branch(builder, condition, taken, other);
}

Result<Values> branch(Importer& importer) {
  DTR_ASSIGN(const fb::IfOptions* options, importer.options<fb::IfOptions>(OptionsType::IfOptions));
  const int32_t then_index = options->then_subgraph_index();
  const int32_t else_index = options->else_subgraph_index();
  DTR_ASSIGN(const ValueId condition, importer.value(0));
  if (importer.type(condition).dtype != DType::kBool || importer.type(condition).elements() != 1)
    return importer.invalid("its condition is not one BOOL");
  DTR_ASSIGN(const Values of, operands(importer, 1));
  if (const auto holds = importer.known_bool(condition)) {
    DTR_ASSIGN(Values made, importer.run_subgraph(*holds ? then_index : else_index, of,
                                                  *holds ? "/then" : "/else"));
    return as_outputs(importer, std::move(made));
  }
  DTR_ASSIGN(const Values taken, importer.run_subgraph(then_index, of, "/then"));
  DTR_ASSIGN(const Values other, importer.run_subgraph(else_index, of, "/else"));
  if (taken.size() != other.size())
    return importer.invalid("its branches have different numbers of results");
  Values results;
  for (size_t i = 0; i < taken.size(); ++i) {
    DTR_ASSIGN(results.emplace_back(), select(importer, condition, taken[i], other[i]));
  }
  return as_outputs(importer, std::move(results));
}

Result<Values> loop(Importer& importer) {
  DTR_ASSIGN(const fb::WhileOptions* options,
             importer.options<fb::WhileOptions>(OptionsType::WhileOptions));
  const int32_t condition_index = options->cond_subgraph_index();
  const int32_t body_index = options->body_subgraph_index();
  DTR_ASSIGN(Values state, operands(importer, 0));
  for (int64_t step = 0;; ++step) {
    // A loop counter stays one number, not a chain of additions.
    for (ValueId& value : state) value = importer.folded(value);
    DTR_ASSIGN(const Values condition,
               importer.run_subgraph(condition_index, state, fmt::format("/condition/{}", step)));
    if (condition.size() != 1 || importer.type(condition[0]).dtype != DType::kBool ||
        importer.type(condition[0]).elements() != 1)
      return importer.invalid("its condition is not one BOOL");
    const auto goes_on = importer.known_bool(condition[0]);
    if (!goes_on)
      return importer.unsupported(
          "how often it repeats depends on an input of the model",
          "Let it run a fixed number of steps, or export one step, whose state is an input and an "
          "output, and repeat it in the application.");
    if (!*goes_on) break;
    if (step == compositions::kMostLoopSteps)
      return importer.unsupported(
          fmt::format("it takes more than {} steps", compositions::kMostLoopSteps),
          "Export one step, whose state is an input and an output, and repeat it in the "
          "application.");
    DTR_ASSIGN(Values next, importer.run_subgraph(body_index, state, fmt::format("/{}", step)));
    if (next.size() != state.size())
      return importer.invalid("its body takes and makes different numbers of tensors");
    state = std::move(next);
  }
  return as_outputs(importer, std::move(state));
}

// An operator of several, such as a normalization, with the subgraph that computes it.
Result<Values> composite(Importer& importer) {
  DTR_ASSIGN(
      const fb::StableHLOCompositeOptions* options,
      importer.options<fb::StableHLOCompositeOptions>(fb::Options2Type::StableHLOCompositeOptions));
  DTR_ASSIGN(const Values of, operands(importer, 0));
  const std::string name = options->name() == nullptr ? "composite" : options->name()->str();
  DTR_ASSIGN(Values made,
             importer.run_subgraph(options->decomposition_subgraph_index(), of, "/" + name));
  return as_outputs(importer, std::move(made));
}

constexpr OperatorDef kControlOperators[] = {
    {BuiltinOperator::IF, 1, kAnyNumber, nullptr, branch},
    {BuiltinOperator::STABLEHLO_COMPOSITE, 0, kAnyNumber, nullptr, composite},
    {BuiltinOperator::WHILE, 1, kAnyNumber, nullptr, loop},
};

}  // namespace

std::span<const OperatorDef> control_operators() { return kControlOperators; }

bool calls_subgraph(BuiltinOperator code) {
  return std::ranges::find(kControlOperators, code, &OperatorDef::code) !=
         std::end(kControlOperators);
}

Result<ModelFile> Importer::open_subgraph(int32_t index) const {
  if (index <= 0 || static_cast<size_t>(index) >= file_->subgraphs)
    return invalid(fmt::format("it calls subgraph {}, the file has {}", index, file_->subgraphs));
  return ModelFile::open(file_->bytes(), import_.module.file, static_cast<uint32_t>(index));
}

// The subgraph, opened on first use.
Result<Importer::Subgraph*> Importer::find_subgraph(int32_t index) {
  if (const auto found = subgraphs_.find(index); found != subgraphs_.end()) return &found->second;
  DTR_ASSIGN(ModelFile opened, open_subgraph(index));
  Subgraph& made = subgraphs_.emplace(index, Subgraph{.file = std::move(opened)}).first->second;
  ModelFile* const caller = std::exchange(file_, &made.file);
  DTR_TRY(check_operators());
  for (const TensorInfo& tensor : made.file.tensors)
    if (tensor.is_variable || tensor.type == fb::TensorType::RESOURCE)
      return unsupported(
          fmt::format("its subgraph {} reads or writes the variable `{}`", index, tensor.name));
  DTR_ASSIGN(const std::vector<Diagnostic> notes,
             convert_stored_forms(made.file, import_.module.file));
  import_.module.notes.insert(import_.module.notes.end(), notes.begin(), notes.end());
  file_ = caller;
  made.constants.resize(made.file.tensors.size());
  return &made;
}

Result<std::optional<fb::BuiltinOperator>> Importer::combination(int32_t index) {
  DTR_ASSIGN(const Subgraph* found, find_subgraph(index));
  const ModelFile& file = found->file;
  if (file.inputs.size() == 2 && file.outputs.size() == 1) {
    if (file.operators.empty() && file.outputs[0] == file.inputs[1]) return std::nullopt;
    if (file.operators.size() == 1 && file.operators[0].inputs == file.inputs &&
        file.operators[0].outputs == file.outputs)
      return file.operators[0].code;
  }
  return unsupported(
      fmt::format("its subgraph {} is more than one operator on both arguments", index),
      "Combine elements by their sum, product, minimum or maximum.");
}

// An operand has the shape of what is given, and weights that were dequantized for the caller are
// real numbers here too. Other types must agree.
Result<void> Importer::bind_operand(TensorInfo& tensor, ValueId operand) const {
  const Type& given = type(operand);
  if (given.rank() > kMaxRank) return invalid("an operand has too many dimensions");
  tensor.shape = file_shape(given.shape);
  if (!given.quantized() && given.dtype == DType::kFloat32 && !tensor.scales.empty()) {
    tensor.type = fb::TensorType::FLOAT32;
    tensor.scales.clear();
    tensor.zero_points.clear();
    tensor.was_uint8 = false;
  }
  const bool same_codes = given.quantized()
                              ? given.quantization->scales == tensor.scales &&
                                    given.quantization->zero_points == tensor.zero_points
                              : tensor.scales.empty();
  if (dtype_of(tensor.type) != given.dtype || !same_codes)
    return unsupported(
        fmt::format("`{}` of its subgraph has another type or scale than the "
                    "operand",
                    tensor.name));
  return {};
}

Result<Values> Importer::run_subgraph(int32_t index, const Values& operands,
                                      const std::string& suffix) {
  DTR_ASSIGN(Subgraph * called, find_subgraph(index));
  ModelFile& file = called->file;
  if (called->open) return invalid(fmt::format("its subgraph {} calls itself", index));
  if (operands.size() != file.inputs.size())
    return invalid(fmt::format("it gives {} operands, its subgraph {} takes {}", operands.size(),
                               index, file.inputs.size()));
  called_operators_ += file.operators.size() + 1;
  if (called_operators_ > kMostCalledOperators)
    return unsupported(fmt::format("its steps are more than {} operators", kMostCalledOperators),
                       "Export one step, whose state is an input and an output, and repeat it in "
                       "the application.");
  Values values = called->constants;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto at = static_cast<size_t>(file.inputs[i]);
    if (values[at].valid() || file.tensors[at].constant())
      return invalid("an input of its subgraph is an input twice, or constant");
    DTR_TRY(bind_operand(file.tensors[at], operands[i]));
    values[at] = operands[i];
  }
  // What is being built is the called subgraph, until it returns. An error ends the import.
  ModelFile* const caller = std::exchange(file_, &file);
  const OperatorInfo* const op = op_;
  const Origin origin = origin_;
  std::swap(import_.values, values);
  const std::string outer = suffix_;
  suffix_ += suffix;
  called->open = true;
  for (const OperatorInfo& each : file.operators) DTR_TRY(convert(each));
  Values results;
  for (const int32_t output : file.outputs) {
    const auto at = static_cast<size_t>(output);
    if (!import_.values[at].valid() && file.tensors[at].constant()) {
      DTR_ASSIGN(import_.values[at], constant_of(file.tensors[at]));
    }
    if (!import_.values[at].valid())
      return fail(DiagnosticId::kTfliteInvalid,
                  "it is an output of a subgraph, but no operator makes it", {},
                  place(file.tensors[at].name));
    results.push_back(import_.values[at]);
  }
  for (size_t i = 0; i < file.tensors.size(); ++i)
    if (file.tensors[i].constant()) called->constants[i] = import_.values[i];
  called->open = false;
  suffix_ = outer;
  std::swap(import_.values, values);
  file_ = caller;
  op_ = op;
  origin_ = origin;
  return results;
}

ValueId Importer::folded(ValueId value) {
  constexpr int64_t kMostElements = 4096;
  const Graph& graph = import_.module.forward();
  if (graph.is_constant(value) || graph.type(value).quantized() ||
      graph.type(value).elements() > kMostElements || !ops::is_static(graph, value) ||
      !is_small(value))
    return value;
  const std::vector<Tensor> made =
      ops::evaluate_on_constants(import_.module, graph, graph.producer(value));
  const Tensor& tensor = made.at(graph.value(value).result);
  return rewriter_.add_constant({.dtype = tensor.dtype(), .shape = tensor.shape()},
                                import_.module.constants.add(tensor.dtype(), tensor.bytes()),
                                graph.value(value).name);
}

std::optional<bool> Importer::known_bool(ValueId value) {
  const ValueId known = folded(value);
  const auto elements = Builder(*this).constant_elements(known);
  if (!elements || elements->empty()) return std::nullopt;
  return elements->front() != 0;
}

}  // namespace dtr::tflite
