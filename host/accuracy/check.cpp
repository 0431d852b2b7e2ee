#include "host/accuracy/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "compiler/executors/executor.h"
#include "compiler/executors/onednn_executor.h"
#include "compiler/executors/stream.h"
#include "compiler/ir/quantized_values.h"
#include "compiler/ops/ops.h"
#include "compiler/support/thread_pool.h"
#include "host/accuracy/check_operators.h"
#include "host/accuracy/compare.h"
#include "host/session/session.h"

namespace dtr {
namespace {

std::vector<TensorView> views_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorView> views;
  for (const Tensor& tensor : tensors) views.push_back(tensor.view());
  return views;
}

// Whether values that are computed in float are quantized: near a tie, the kernel's float32 may
// choose the other neighbour.
bool quantizes_computed_floats(const Graph& graph) {
  for (const OpId id : graph.ops())
    if (const Op& op = graph.op(id);
        op.def == &ops::kQuantize && graph.producer(op.operands[0]).valid())
      return true;
  return false;
}

struct OutputDifference {
  size_t output;
  Difference difference;
};

// The first output that differs from the evaluation of `graph` by more than rounding.
Result<std::optional<OutputDifference>> first_difference(const Module& module, const Graph& graph,
                                                         std::span<const TensorView> sample,
                                                         const Graph& as_compiled,
                                                         const std::vector<Tensor>& outputs) {
  const std::unique_ptr<Executor> reference =
      make_stream(module, graph, make_reference_executor(module, graph));
  DTR_ASSIGN(const std::vector<Tensor> expected, reference->run(sample));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor real = real_values(outputs[i].view(), as_compiled.type(as_compiled.outputs()[i]));
    const Tensor wanted = real_values(expected[i].view(), graph.type(graph.outputs()[i]));
    const Difference difference = compare(wanted.view(), real.view());
    if (difference.max_absolute > difference.rounding_bound) return OutputDifference{i, difference};
  }
  return std::nullopt;
}

tl::unexpected<Diagnostic> refused(const Module& module, const OutputDifference& found,
                                   const std::string& because) {
  const auto& [output, difference] = found;
  return fail(
      DiagnosticId::kCheckFailed,
      fmt::format("output {} differs from the quantized graph at element {}: {} instead of {}; {}",
                  output, difference.index, difference.actual, difference.expected, because),
      "please report this with the model", {.file = module.file});
}

// The outputs of a program against those of the float model.
struct Accuracy {
  const Module& module;
  const Graph& original;
  const Graph& as_compiled;
  std::span<const TensorView> sample;
  size_t index;       // of the sample
  bool lets_steps;    // noise stands in for samples, and nothing was asked for
  std::string where;  // "noise", "calibration sample 3"

  Result<void> check(const std::vector<Tensor>& ideal, const std::vector<Tensor>& outputs,
                     double least) const {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId output = original.outputs()[i];
      if (!is_float(original.type(output).dtype) && !original.type(output).quantized())
        continue;  // an index is right or wrong
      const Tensor expected = real_values(ideal[i].view(), original.type(output));
      const Tensor actual =
          real_values(outputs[i].view(), as_compiled.type(as_compiled.outputs()[i]));
      const double decibels = decibels_of(expected, actual);
      if (decibels >= least) continue;
      const double steps = lets_steps ? 2 : index > 0 || is_zero(expected) ? 1 : 0;
      if (compare(expected.view(), actual.view()).max_absolute <= steps * step_of(i)) continue;
      DTR_ASSIGN(const bool lost, lost_in_float(i, expected, least));
      if (lost) continue;
      const OpId producer = original.producer(output);
      return fail(
          DiagnosticId::kCheckInaccurate,
          fmt::format("output {}, `{}`: {:.1f} dB against the float model on {}, at least {:.1f} "
                      "dB asked for; a program that gives "
                      "nothing but zeros has 0 dB",
                      i, original.value(output).name, decibels, where, least),
          "see which operator loses it with --report-quantization, calibrate with real inputs, or "
          "accept it with --min-sqnr DB",
          producer.valid() ? place_of(module, original, producer) : Place{.file = module.file});
    }
    return {};
  }

 private:
  static double decibels_of(const Tensor& expected, const Tensor& actual) {
    Sqnr sqnr;
    sqnr.add(expected.view(), actual.view());
    return sqnr.decibels();
  }
  static bool is_zero(const Tensor& tensor) {
    return std::ranges::all_of(tensor.values<float>(), [](float value) { return value == 0; });
  }

  // Quantization step of an output; 0 if it has none.
  double step_of(size_t i) const {
    const ValueId output = as_compiled.outputs()[i];
    const OpId dequantize = as_compiled.producer_if(output, ops::kDequantize);
    const Type& type =
        as_compiled.type(dequantize.valid() ? as_compiled.op(dequantize).operands[0] : output);
    return type.quantized() ? static_cast<double>(type.quantization->scale()) : 0;
  }

  // Whether the model computes rounding errors: float32 has nothing of what double has.
  Result<bool> lost_in_float(size_t i, const Tensor& expected, double least) const {
    if (is_quantized(original) || (original.state_count() > 0 && index > 0)) return false;
    DTR_ASSIGN(
        const std::vector<Tensor> exact,
        make_stream(module, original, make_reference_executor(module, original, Precision::kDouble))
            ->run(sample));
    return decibels_of(real_values(exact[i].view(), original.type(original.outputs()[i])),
                       expected) < least;
  }
};

// What an input is quantized as; nullopt if it is not.
std::optional<Quantization> quantization_of_input(const Graph& graph, size_t index) {
  for (const Use& use : graph.value(graph.inputs()[index]).uses)
    if (const Op& op = graph.op(use.op); op.def == &ops::kQuantize)
      return graph.type(op.results[0]).quantization;
  return std::nullopt;
}

// A sample of noise by input of the model as it was read.
std::vector<NamedTensor> noise_in_ranges(const Compilation& compilation) {
  const Graph& original = compilation.as_read;
  const Samples plain = Samples::random(original, 1);
  const std::vector<TensorView> views = plain.inputs(0);
  std::vector<NamedTensor> arrays;
  for (size_t i = 0; i < views.size(); ++i) {
    Tensor tensor =
        Tensor::copy_of(views[i].dtype, views[i].shape, {views[i].data, views[i].bytes()});
    const auto quantization = quantization_of_input(compilation.quantized, i);
    if (quantization && tensor.dtype() == DType::kFloat32) {
      const float low = quantization->scale() *
                        static_cast<float>(quantization->qmin - quantization->zero_point()),
                  high = quantization->scale() *
                         static_cast<float>(quantization->qmax - quantization->zero_point());
      for (float& x : tensor.values<float>())
        x = std::clamp((low + high) / 2 + x * (high - low) / 6, low, high);
    }
    arrays.push_back(
        {.name = original.value(original.inputs()[i]).name, .tensor = std::move(tensor)});
  }
  return arrays;
}

// Whether two tensors are the same real values, element by element; NaN is NaN.
bool are_equal(const Tensor& expected, const Tensor& actual) {
  return compare(expected.view(), actual.view()).max_absolute == 0;
}

// Elements of an output of integers or booleans.
struct IntegerDifference {
  int64_t elements = 0, differing = 0;
  std::map<float, int64_t> expected = {};

  void add(std::span<const float> wanted, std::span<const float> given) {
    elements += static_cast<int64_t>(wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] != given[i]) ++differing;
      ++expected[wanted[i]];
    }
  }
  // OutputCheck::Integers::part.
  double part() const {
    if (differing == 0) return 0;
    int64_t most = 0;
    for (const auto& [value, count] : expected) most = std::max(most, count);
    return static_cast<double>(differing) /
           static_cast<double>(std::max(elements - most, differing));
  }
};

// The model as it was read. Float operators of a program are held against the reference, which
// rounds as its kernels do; the error of int8 is far above what the order of float sums changes.
Result<std::unique_ptr<Executor>> model_executor(const Compilation& compilation) {
  const Module& module = compilation.module;
  const Graph& model = compilation.as_read;
  // Packed, large weights would be the most memory of a compilation, for a few runs; for weights as
  // they are, oneDNN compiles a matrix product of its own, which takes longer than small ones do.
  constexpr size_t kMostPackedBytes = size_t{8} << 20;
  if (is_quantized(module.forward()))
    return make_model_executor(module, model, {.most_packed_bytes = kMostPackedBytes});
  return make_stream(module, model, make_reference_executor(module, model));
}

// Runs on samples, each held against the model as it was read.
class OutputChecker {
 public:
  OutputChecker(const Compilation& compilation, std::optional<double> least_decibels)
      : compilation_(compilation),
        least_decibels_(least_decibels),
        by_output_(compilation.as_read.outputs().size()),
        integers_(compilation.as_read.outputs().size()) {
    const Graph& original = compilation.as_read;
    const auto is_real = [&](ValueId output) {
      const Type& type = original.type(output);
      return is_float(type.dtype) || type.quantized();
    };
    check_ = {.sqnr_db = 99,
              .has_floats = std::ranges::any_of(original.outputs(), is_real),
              .equal = true,
              .is_int8 = is_quantized(compilation.module.forward()),
              .came_quantized = compilation.came_quantized,
              .on_noise = compilation.samples() == nullptr || compilation.samples_are_noise,
              .calibrated_on_noise = compilation.calibrated_on_noise()};
  }

  // `ideal`: the model's outputs for sample `index`; `outputs`: the program's.
  Result<void> add(size_t index, std::span<const TensorView> sample,
                   const std::vector<Tensor>& ideal, const std::vector<Tensor>& outputs) {
    const Graph& original = compilation_.as_read;
    const Graph& as_compiled = compilation_.module.forward();
    Sqnr sqnr;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor expected = real_values(ideal[i].view(), original.type(original.outputs()[i]));
      const Tensor actual =
          real_values(outputs[i].view(), as_compiled.type(as_compiled.outputs()[i]));
      const Type& type = original.type(original.outputs()[i]);
      if (is_float(type.dtype) || type.quantized()) {
        sqnr.add(expected.view(), actual.view());
        by_output_[i].add(expected.view(), actual.view());
      } else {  // an index is right or wrong, not near
        integers_[i].add(expected.values<float>(), actual.values<float>());
      }
      check_.equal = check_.equal && are_equal(expected, actual);
    }
    check_.sqnr_db = std::min(check_.sqnr_db, sqnr.decibels());
    ++check_.samples;
    const bool stands_in = compilation_.samples() == nullptr;
    if (stands_in && !compilation_.came_quantized && !least_decibels_) return {};
    const Accuracy accuracy{
        compilation_.module,
        original,
        as_compiled,
        sample,
        index,
        stands_in && !least_decibels_,
        check_.on_noise ? std::string("noise") : fmt::format("calibration sample {}", index)};
    return accuracy.check(ideal, outputs, least_decibels_.value_or(kLeastCheckDecibels));
  }

  OutputCheck result() const {
    OutputCheck check = check_;
    const Graph& original = compilation_.as_read;
    for (size_t i = 0; i < by_output_.size(); ++i) {
      const Value& output = original.value(original.outputs()[i]);
      if (is_float(output.type.dtype) && by_output_[i].decibels() < check.worst_output_db) {
        check.worst_output = output.name;
        check.worst_output_db = by_output_[i].decibels();
      }
      if (integers_[i].part() > check.worst_integers.part)
        check.worst_integers = {.output = output.name,
                                .elements = integers_[i].elements,
                                .differing = integers_[i].differing,
                                .part = integers_[i].part()};
    }
    return check;
  }

 private:
  const Compilation& compilation_;
  std::optional<double> least_decibels_;
  std::vector<Sqnr> by_output_;
  std::vector<IntegerDifference> integers_;  // by output
  OutputCheck check_;
};

}  // namespace

std::vector<Tensor> program_inputs(const Graph& signature, const Graph& compiled,
                                   std::span<const TensorView> sample) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < sample.size(); ++i) {
    const DType wanted = signature.type(signature.inputs()[i]).dtype;
    if (wanted == sample[i].dtype) {
      inputs.push_back(
          Tensor::copy_of(wanted, sample[i].shape, {sample[i].data, sample[i].bytes()}));
    } else {
      inputs.push_back(quantized(sample[i], compiled.type(compiled.inputs()[i])));
    }
  }
  return inputs;
}

Result<CheckFigures> check_program(const Compilation& compilation,
                                   std::optional<double> least_decibels, unsigned threads) {
  const Module& module = compilation.module;
  const Graph& original = compilation.as_read;
  const Samples* samples = compilation.samples();
  std::vector<NamedTensor> arrays;
  std::optional<Samples> noise;
  if (samples == nullptr) {
    arrays = noise_in_ranges(compilation);
    DTR_ASSIGN(noise, Samples::bind(original, arrays, "noise"));
  }
  const Samples& data = samples == nullptr ? *noise : *samples;
  const std::vector<TensorView> sample = data.inputs(0);

  DTR_ASSIGN(const std::unique_ptr<Session> session,
             Session::borrow(compilation.pte(), module.file, simulator::best_kernel_set(),
                             compilation.tensor_file()));
  const Graph& as_compiled = module.forward();
  const std::vector<Tensor> inputs = program_inputs(session->signature(), as_compiled, sample);
  const std::vector<TensorView> views = views_of(inputs);
  RunStats stats;
  DTR_ASSIGN(const std::vector<Tensor> outputs, session->run(views, &stats));

  std::vector<size_t> checked(std::min(data.size(), kMostCheckedSamples));
  for (size_t i = 0; i < checked.size(); ++i)
    checked[i] = session->has_states() ? i : i * data.size() / checked.size();
  // The judges and the program run beside each other; a model with states runs the samples in
  // order.
  DTR_ASSIGN(const std::unique_ptr<Executor> model, model_executor(compilation));
  const size_t streams = original.state_count() > 0 ? 1 : checked.size();
  Result<std::optional<OutputDifference>> judged;
  std::vector<Result<std::vector<Tensor>>> ideal(checked.size()), results(checked.size());
  parallel_for(2 + streams, threads, [&](size_t task) {
    if (task == 0)
      judged = first_difference(module, compilation.quantized, sample, as_compiled, outputs);
    else if (task <= streams)
      for (size_t i = task - 1; i < checked.size(); i += streams)
        ideal[i] = model->run(data.inputs(checked[i]));
    else
      for (size_t i = 1; i < checked.size(); ++i)
        results[i] = session->run(
            views_of(program_inputs(session->signature(), as_compiled, data.inputs(checked[i]))));
  });
  DTR_ASSIGN(const std::optional<OutputDifference> difference, std::move(judged));
  for (const Result<std::vector<Tensor>>& outputs_of_model : ideal) DTR_TRY(outputs_of_model);
  if (difference) {
    // What float32 leaves of a badly conditioned function is no error of the program: each operator
    // is judged by itself.
    DTR_ASSIGN(const std::optional<std::string> wrong,
               check_operators(module, as_compiled, *session, views, compilation.values));
    if (wrong) return refused(module, *difference, *wrong);
    if (!quantizes_computed_floats(as_compiled)) {
      DTR_ASSIGN(const bool same,
                 agree_in_double(module, compilation.quantized, sample, as_compiled, views));
      if (!same)
        return refused(module, *difference,
                       "every operator is right, but the compiled graph is another function");
    }
  }
  OutputChecker checker(compilation, least_decibels);
  DTR_TRY(checker.add(0, sample, *ideal[0], outputs));
  for (size_t i = 1; i < checked.size(); ++i) {
    DTR_TRY(results[i]);
    DTR_TRY(checker.add(checked[i], data.inputs(checked[i]), *ideal[i], *results[i]));
  }
  return CheckFigures{.npu_calls = static_cast<uint32_t>(stats.npu_calls),
                      .npu_busy_cycles = stats.busy_cycles,
                      .npu_host_cycles = stats.host_cycles,
                      .npu_stall_cycles = stats.stall_cycles,
                      .npu_total_cycles = stats.total_cycles,
                      .outputs = checker.result()};
}

}  // namespace dtr
