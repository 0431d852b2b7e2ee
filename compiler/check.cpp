#include "compiler/check.h"

#include <fmt/format.h>

#include <algorithm>

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

// Of the quantize ops of values that are computed in float: near a tie, the kernel's float32 may choose the other neighbour.
double largest_step_from_float(const Graph& graph) {
  double step = 0;
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    if (op.def != &ops::kQuantize || !graph.producer(op.operands[0]).valid()) continue;
    for (const float scale : graph.type(op.results[0]).quantization->scales) step = std::max(step, static_cast<double>(scale));
  }
  return step;
}

struct OutputDifference {
  size_t output;
  Difference difference;
};

// The outputs that differ from the evaluation of `graph` by more than rounding and `step`.
Result<std::vector<OutputDifference>> differences(const Program& program, const Graph& graph, std::span<const TensorView> sample,
                                                  const Graph& as_compiled, const std::vector<Tensor>& outputs, double step) {
  const std::unique_ptr<Executor> reference = make_reference_executor(program, graph);
  DTR_ASSIGN(const std::vector<Tensor> expected, reference->run(sample));
  std::vector<OutputDifference> found;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor real = real_values(outputs[i].view(), as_compiled.type(as_compiled.outputs()[i]));
    const Tensor wanted = real_values(expected[i].view(), graph.type(graph.outputs()[i]));
    const Difference difference = compare(wanted.view(), real.view());
    if (difference.max_absolute > difference.rounding_bound + step) found.push_back({i, difference});
  }
  return found;
}

tl::unexpected<Diagnostic> refused(const Program& program, const OutputDifference& found) {
  const auto& [output, difference] = found;
  return fail(DiagnosticId::kCheckFailed,
              fmt::format("output {} differs from the quantized graph at element {}: {} instead of {}", output, difference.index,
                          difference.actual, difference.expected),
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

  DTR_ASSIGN(const std::vector<OutputDifference> exact, differences(program, quantized_graph, sample, as_compiled, outputs, 0));
  if (!exact.empty()) {
    // Ops that run in float are judged by the graph that says so, which computes in double.
    const double step = largest_step_from_float(as_compiled);
    if (step > 0) {
      DTR_ASSIGN(const std::vector<OutputDifference> as_float, differences(program, as_compiled, sample, as_compiled, outputs, step));
      if (!as_float.empty()) return refused(program, as_float.front());
    } else {
      return refused(program, exact.front());
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
