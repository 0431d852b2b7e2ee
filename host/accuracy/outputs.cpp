#include "host/accuracy/outputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/executors/onednn_executor.h"
#include "compiler/executors/stream.h"
#include "compiler/ir/npz.h"
#include "compiler/ir/quantized_values.h"
#include "compiler/ir/samples.h"
#include "compiler/ops/ops.h"
#include "compiler/pipeline/compile.h"
#include "compiler/pipeline/read_model.h"
#include "device/pte/program_generated.h"
#include "host/session/session.h"

namespace dtr {
namespace {

double integer_step(DType dtype) { return is_float(dtype) ? 0 : 1; }

// One sample an element of the first axis.
Output stored_output(const std::string& name, const Tensor& tensor, const OutputSource& source) {
  Output output{.name = name, .stored = true, .samples = {}};
  const Shape& shape = tensor.shape();
  const int64_t stored = shape.empty() ? 1 : shape[0];
  const int64_t count = source.samples == 0
                            ? stored
                            : std::min<int64_t>(stored, static_cast<int64_t>(source.samples));
  if (stored == 0)
    output.unusable =
        Diagnostic{.id = DiagnosticId::kDataEmpty,
                   .reason = fmt::format("the array has shape {}: no sample", to_string(shape)),
                   .fix = "store at least one sample",
                   .place = {.file = source.path, .node = name}};
  output.step = integer_step(tensor.dtype());
  const Shape one(shape.begin() + (shape.empty() ? 0 : 1), shape.end());
  const size_t bytes = static_cast<size_t>(element_count(one)) * byte_size(tensor.dtype());
  for (int64_t i = 0; i < count; ++i)
    output.samples.push_back(Tensor::copy_of(
        tensor.dtype(), one, tensor.bytes().subspan(static_cast<size_t>(i) * bytes, bytes)));
  return output;
}

std::vector<Output> results_in_memory(const OutputSource& source) {
  std::vector<Output> outputs;
  for (const NamedTensor& array : source.results)
    outputs.push_back(stored_output(array.name, array.tensor, source));
  return outputs;
}

Result<std::vector<Output>> stored_results(const OutputSource& source) {
  DTR_ASSIGN(const std::vector<ReadArray> arrays, read_each_array(source.path));
  std::vector<Output> outputs;
  for (const ReadArray& array : arrays) {
    if (array.tensor) {
      outputs.push_back(stored_output(array.name, *array.tensor, source));
      continue;
    }
    Output output{.name = array.name, .stored = true, .samples = {}};
    output.unusable = array.tensor.error();
    outputs.push_back(std::move(output));
  }
  return outputs;
}

Result<Samples> samples_of(const Graph& graph, const OutputSource& source) {
  return source.samples_to_run.empty() ? Samples::read(graph, source.data)
                                       : Samples::bind(graph, source.samples_to_run, source.data);
}

DimensionSizes sizes_of(const OutputSource& source) {
  return {.sampled = source.samples_to_run.empty()
                         ? Samples::shapes_of(source.data)
                         : Samples::shapes_of(source.samples_to_run, source.data)};
}

// Runs `run` on each sample; steps and types by output.
template <class Run>
Result<std::vector<Output>> run_samples(const Samples& samples, size_t limit,
                                        const std::vector<double>& steps,
                                        const std::vector<Type>& types, const Run& run) {
  const size_t count = limit == 0 ? samples.size() : std::min(limit, samples.size());
  std::vector<Output> outputs;
  for (size_t i = 0; i < count; ++i) {
    DTR_ASSIGN(std::vector<Tensor> results, run(samples.inputs(i)));
    outputs.resize(results.size());
    for (size_t k = 0; k < results.size(); ++k) outputs[k].samples.push_back(std::move(results[k]));
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    outputs[k].name = fmt::format("output_{}", k);
    outputs[k].step = integer_step(outputs[k].samples.front().dtype());
    if (outputs[k].step == 0 && k < steps.size()) outputs[k].step = steps[k];
    if (has_real_values(types[k])) outputs[k].codes = types[k].quantization;
  }
  return outputs;
}

// The scales with which a program dequantizes its outputs; 0 where it does something else.
std::vector<double> program_steps(const PteFile& pte_file) {
  const pte::ExecutionPlan& plan = pte_file.plan();
  std::vector<double> steps;
  for (const int32_t output : *plan.outputs()) {
    double step = 0;
    for (const pte::Chain* chain : *plan.chains())
      for (const pte::Instruction* instruction : *chain->instructions()) {
        const pte::KernelCall* call = instruction->instr_args_as_KernelCall();
        if (call == nullptr || call->args()->size() < 3 ||
            call->args()->Get(call->args()->size() - 1) != output)
          continue;
        const pte::Operator* kernel =
            plan.operators()->Get(static_cast<uint32_t>(call->op_index()));
        if (kernel->name()->string_view() != "quantized_decomposed::dequantize_per_tensor")
          continue;
        if (const pte::Double* scale =
                plan.values()->Get(static_cast<uint32_t>(call->args()->Get(1)))->val_as_Double())
          step = scale->double_val();
      }
    steps.push_back(step);
  }
  return steps;
}

std::vector<double> model_steps(const Graph& graph) {
  std::vector<double> steps;
  for (const ValueId output : std::span(graph.outputs()).first(graph.user_output_count())) {
    const OpId dequantize = graph.producer_if(output, ops::kDequantize);
    steps.push_back(dequantize.valid()
                        ? static_cast<double>(
                              graph.type(graph.op(dequantize).operands[0]).quantization->scale())
                        : 0);
  }
  return steps;
}

}  // namespace

Result<std::vector<Output>> read_outputs(const OutputSource& source) {
  if (!source.results.empty()) return results_in_memory(source);
  FileKind kind = kind_of(source.bytes);
  if (source.bytes.empty()) {
    DTR_ASSIGN(kind, file_kind(source.path));
  }
  if (kind == FileKind::kArrays) return stored_results(source);
  if (source.data.empty())
    return fail(DiagnosticId::kCompareNoData,
                "a program or a model computes its outputs, and there are no data to run it on",
                "give samples with --data DATA.npz", {.file = source.path});
  if (kind == FileKind::kProgram) {
    DTR_ASSIGN(const std::unique_ptr<Session> session,
               source.bytes.empty()
                   ? Session::open(source.path, source.tensor_files, source.method)
                   : Session::load(source.bytes, source.path, simulator::best_kernel_set(),
                                   source.tensors, source.method));
    DTR_ASSIGN(const Samples samples, samples_of(session->signature(), source));
    std::vector<Type> types;
    for (size_t k = 0; k < session->pte_file().plan().outputs()->size(); ++k)
      types.push_back(session->output_type(k));
    return run_samples(samples, source.samples, program_steps(session->pte_file()), types,
                       [&](const auto& inputs) { return session->run(inputs); });
  }
  const DimensionSizes sizes = sizes_of(source);
  DTR_ASSIGN(Module module, source.bytes.empty()
                                ? read_model(source.path, sizes)
                                : parse_model(source.bytes, kind, source.path, {}, sizes));
  DTR_ASSIGN(const Samples samples, samples_of(module.forward(), source));
  const auto run_model = [&](const Graph& graph, Executor& executor) {
    std::vector<Type> types;
    for (const ValueId output : graph.outputs()) types.push_back(graph.type(output));
    return run_samples(samples, source.samples, model_steps(graph), types,
                       [&](const auto& inputs) { return executor.run(inputs); });
  };
  if (is_quantized(module.forward())) {
    DTR_ASSIGN(const Compilation model, quantize_model(std::move(module), {}));
    DTR_ASSIGN(std::vector<Output> outputs,
               run_model(model.quantized,
                         *make_stream(model.module, model.quantized,
                                      make_reference_executor(model.module, model.quantized))));
    for (Output& output : outputs) output.integers = true;
    return outputs;
  }
  DTR_ASSIGN(const std::unique_ptr<Executor> executor,
             make_model_executor(module, module.forward()));
  return run_model(module.forward(), *executor);
}

}  // namespace dtr
