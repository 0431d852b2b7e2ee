#include "compiler/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compiler/check_operators.h"
#include "compiler/compare.h"
#include "compiler/onednn_executor.h"
#include "compiler/session.h"
#include "ops/executor.h"
#include "ops/ops.h"

namespace dtr {
namespace {

// Inputs of the program for a sample of the model: the same, or quantized where the program takes int8.
std::vector<Tensor> program_inputs(const Graph& signature, const Graph& compiled, std::span<const TensorView> sample) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < sample.size(); ++i) {
    const DType wanted = signature.type(signature.inputs()[i]).dtype;
    if (wanted == sample[i].dtype) {
      inputs.push_back(Tensor::copy_of(wanted, sample[i].shape, {sample[i].data, sample[i].bytes()}));
    } else {
      inputs.push_back(quantized(sample[i], compiled.type(compiled.inputs()[i])));
    }
  }
  return inputs;
}

// Whether values that are computed in float are quantized: near a tie, the kernel's float32 may choose the other neighbour.
bool quantizes_computed_floats(const Graph& graph) {
  for (const OpId id : graph.ops())
    if (const Op& op = graph.op(id); op.def == &ops::kQuantize && graph.producer(op.operands[0]).valid()) return true;
  return false;
}

struct OutputDifference {
  size_t output;
  Difference difference;
};

// The first output that differs from the evaluation of `graph` by more than rounding.
Result<std::optional<OutputDifference>> first_difference(const Program& program, const Graph& graph, std::span<const TensorView> sample,
                                                         const Graph& as_compiled, const std::vector<Tensor>& outputs) {
  const std::unique_ptr<Executor> reference = make_reference_executor(program, graph);
  DTR_ASSIGN(const std::vector<Tensor> expected, reference->run(sample));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor real = real_values(outputs[i].view(), as_compiled.type(as_compiled.outputs()[i]));
    const Tensor wanted = real_values(expected[i].view(), graph.type(graph.outputs()[i]));
    const Difference difference = compare(wanted.view(), real.view());
    if (difference.max_absolute > difference.rounding_bound) return OutputDifference{i, difference};
  }
  return std::nullopt;
}

tl::unexpected<Diagnostic> refused(const Program& program, const OutputDifference& found, const std::string& because) {
  const auto& [output, difference] = found;
  return fail(DiagnosticId::kCheckFailed,
              fmt::format("output {} differs from the quantized graph at element {}: {} instead of {}; {}", output, difference.index,
                          difference.actual, difference.expected, because),
              "please report this with the model", {.file = program.file});
}

}  // namespace

Status check_program(const Program& program, const Graph& original, const Graph& quantized_graph, const Samples* samples,
                     CompiledProgram& compiled) {
  std::optional<Samples> noise;
  if (samples == nullptr) noise = Samples::random(original, 1);
  const std::vector<TensorView> sample = (samples == nullptr ? *noise : *samples).inputs(0);

  DTR_ASSIGN(const std::unique_ptr<Session> session,
             Session::load(compiled.pte, program.file, simulator::best_kit(), compiled.tensor_file));
  const Graph& as_compiled = program.forward();
  const std::vector<Tensor> inputs = program_inputs(session->signature(), as_compiled, sample);
  std::vector<TensorView> views;
  for (const Tensor& input : inputs) views.push_back(input.view());
  RunStats stats;
  DTR_ASSIGN(const std::vector<Tensor> outputs, session->run(views, &stats));

  CompileReport& report = compiled.report;
  report.npu_busy_cycles = stats.busy_cycles;
  report.npu_host_cycles = stats.host_cycles;
  report.npu_stall_cycles = stats.stall_cycles;
  report.npu_total_cycles = stats.total_cycles;
  report.npu_calls = stats.npu_calls;

  DTR_ASSIGN(const std::optional<OutputDifference> difference, first_difference(program, quantized_graph, sample, as_compiled, outputs));
  if (difference) {
    // What float32 leaves of a badly conditioned function is no error of the program: each operator is judged by itself.
    DTR_ASSIGN(const std::optional<std::string> wrong, check_operators(program, as_compiled, *session, views, compiled.values));
    if (wrong) return refused(program, *difference, *wrong);
    if (!quantizes_computed_floats(as_compiled)) {
      DTR_ASSIGN(const bool same, agree_in_double(program, quantized_graph, sample, as_compiled, views));
      if (!same) return refused(program, *difference, "every operator is right, but the compiled graph is another function");
    }
  }
  const std::unique_ptr<Executor> float_model = make_reference_executor(program, original);
  DTR_ASSIGN(const std::vector<Tensor> ideal, float_model->run(sample));
  Sqnr sqnr;
  for (size_t i = 0; i < outputs.size(); ++i)
    sqnr.add(real_values(ideal[i].view(), original.type(original.outputs()[i])).view(),
             real_values(outputs[i].view(), as_compiled.type(as_compiled.outputs()[i])).view());
  report.check_sqnr_db = sqnr.decibels();
  report.checked = true;
  return {};
}

}  // namespace dtr
