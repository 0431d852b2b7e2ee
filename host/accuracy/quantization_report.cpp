#include "host/accuracy/quantization_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "compiler/executors/executor.h"
#include "compiler/executors/stream.h"
#include "compiler/ir/rewriter.h"
#include "compiler/ops/ops.h"
#include "compiler/support/encode.h"
#include "compiler/support/text.h"
#include "host/accuracy/compare.h"

namespace dtr {
namespace {

bool changes_quantization(const OpDef* def) {
  return def == &ops::kQuantize || def == &ops::kDequantize || def == &ops::kRequantize;
}

bool is_int8_tensor(const Graph& graph, ValueId value) {
  const Type& type = graph.type(value);
  return type.quantized() && type.dtype == DType::kInt8 && !type.quantization->per_channel() &&
         !graph.is_constant(value);
}

// What is known of one value after all samples.
struct Sums {
  Sqnr total, added;
  Range range{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  uint64_t elements = 0, saturated = 0;
  double share() const {
    return elements == 0 ? 0 : static_cast<double>(saturated) / static_cast<double>(elements);
  }
};

class Reporter {
 public:
  Reporter(const Module& module, const Graph& ideal, const Graph& quantized,
           std::span<const ValueId> selected)
      : module_(module),
        ideal_(ideal),
        quantized_(quantized),
        sums_(quantized.value_slots()),
        selected_(ideal.value_slots()) {
    for (const ValueId value : selected) selected_[value.index] = true;
  }

  Result<QuantizationReport> run(const Samples& samples, const QuantizationReportOptions& options) {
    QuantizationReport report{.samples = std::min(samples.size(), options.samples),
                              .bad_db = options.bad_db};
    const std::unique_ptr<Executor> real =
        make_stream(module_, ideal_, make_reference_executor(module_, ideal_));
    const std::unique_ptr<Executor> integer =
        make_stream(module_, quantized_, make_reference_executor(module_, quantized_));
    for (size_t sample = 0; sample < report.samples; ++sample) {
      const std::vector<TensorView> inputs = samples.inputs(sample);
      std::vector<Tensor> own;
      std::vector<TensorView> real_inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {  // of a model that takes int8
        const Type& type = quantized_.type(quantized_.inputs()[i]);
        own.push_back(type.quantized() ? real_values(inputs[i], type) : Tensor());
        real_inputs.push_back(type.quantized() ? own.back().view() : inputs[i]);
      }
      DTR_ASSIGN(expected_, values_of(*real, ideal_, real_inputs));
      DTR_ASSIGN(actual_, values_of(*integer, quantized_, inputs));
      for (const ValueId input : quantized_.inputs()) add_tensor(input);
      for (const OpId op : quantized_.ops())
        for (const ValueId result : quantized_.op(op).results) add_result(op, result);
    }
    write(report);
    return report;
  }

 private:
  using Tensors = std::map<ValueId, Tensor>;

  // Real values of all values that an execution makes.
  static Result<Tensors> values_of(Executor& executor, const Graph& graph,
                                   std::span<const TensorView> inputs) {
    Tensors tensors;
    const auto outputs = executor.run(inputs, [&](ValueId value, const TensorView& view) {
      const Type& type = graph.type(value);
      if (type.quantized() && type.quantization->per_channel()) return;
      const bool plain = !type.quantized() && type.dtype != DType::kFloat32;  // indices
      tensors[value] = plain ? Tensor::copy_of(view.dtype, view.shape, {view.data, view.bytes()})
                             : real_values(view, type);
    });
    if (!outputs) return tl::unexpected(outputs.error());
    return tensors;
  }

  // The value of the float model that corresponds to a value of the quantized graph; invalid if
  // there is none.
  ValueId counterpart(ValueId value) const {
    for (;;) {
      if (value.index < ideal_.value_slots() && !ideal_.value(value).erased) return value;
      const OpId producer = quantized_.producer(value);
      if (!producer.valid() || !changes_quantization(quantized_.op(producer).def)) return {};
      value = quantized_.op(producer).operands[0];
    }
  }

  // `real` clamped to the representable range; used where saturation cannot change a result
  // (selected operands).
  Tensor within_codes(const Tensor& real, ValueId value) const {
    Tensor limited = Tensor::copy_of(real.dtype(), real.shape(), real.bytes());
    const auto [low, high] = limits(value, 0);
    for (float& x : limited.values<float>()) x = std::clamp(x, low, high);
    return limited;
  }

  // The real values that the codes reach, and `beyond` steps more.
  Range limits(ValueId value, float beyond) const {
    const Quantization& q = *quantized_.type(value).quantization;
    return {(static_cast<float>(q.qmin - q.zero_point()) - beyond) * q.scale(),
            (static_cast<float>(q.qmax - q.zero_point()) + beyond) * q.scale()};
  }

  bool counts(ValueId value, ValueId of) const {
    return of.valid() && is_int8_tensor(quantized_, value) && expected_.contains(of) &&
           actual_.contains(value) && expected_.at(of).elements() == actual_.at(value).elements();
  }

  void add_tensor(ValueId value) {
    const ValueId of = counterpart(value);
    if (!counts(value, of)) return;
    const Tensor& real = expected_.at(of);
    Sums& sums = sums_[value.index];
    const auto [low, high] = limits(value, 0.5F);
    for (const float x : real.values<float>()) {
      sums.range = {std::min(sums.range.min, x), std::max(sums.range.max, x)};
      if (x < low || x > high) ++sums.saturated;
    }
    sums.elements += static_cast<uint64_t>(real.elements());
    sums.total.add(selected_[of.index] ? within_codes(real, value).view() : real.view(),
                   actual_.at(value).view());
  }

  void add_result(OpId id, ValueId result) {
    add_tensor(result);
    const ValueId of = counterpart(result);
    if (!counts(result, of)) return;
    const std::optional<Tensor> alone = in_float(id, result);
    if (!alone) return;
    sums_[result.index].added.add(
        selected_[of.index] ? within_codes(*alone, result).view() : alone->view(),
        actual_.at(result).view());
  }

  // The result of the float model's op on the operands that the quantized one had.
  std::optional<Tensor> in_float(OpId id, ValueId result) const {
    const Op& op = quantized_.op(id);
    if (changes_quantization(op.def)) {
      const auto operand = actual_.find(op.operands[0]);
      if (operand == actual_.end()) return std::nullopt;
      return Tensor::copy_of(operand->second.dtype(), operand->second.shape(),
                             operand->second.bytes());
    }
    if (op.results.size() != 1 || op.def->evaluate_float == nullptr) return std::nullopt;
    const Op& real = ideal_.op(id);
    std::vector<TensorView> operands;
    for (size_t i = 0; i < real.operands.size(); ++i) {
      if (!real.operands[i].valid()) {
        operands.emplace_back();
      } else if (real.operands[i].index >= quantized_.value_slots()) {
        operands.push_back(
            expected_.at(real.operands[i]).view());  // a constant of float_counterpart
      } else if (ideal_.is_constant(real.operands[i])) {
        const Value& value = ideal_.value(real.operands[i]);  // read only
        operands.push_back(
            {value.type.dtype, value.type.shape,
             const_cast<std::byte*>(module_.constants.bytes(value.constant).data())});
      } else if (const auto at = actual_.find(op.operands[i]); at != actual_.end()) {
        operands.push_back(at->second.view());
      } else {
        return std::nullopt;
      }
    }
    Tensor made(DType::kFloat32, quantized_.type(result).shape);
    op.def->evaluate_float(BoundOpView(ideal_, id), operands, {&made.view(), 1});
    return made;
  }

  void write(QuantizationReport& report) const {
    const auto row = [&](ValueId value, OpId op) {
      const Sums& sums = sums_[value.index];
      if (sums.elements == 0) return;
      const Quantization& q = *quantized_.type(value).quantization;
      report.tensors.push_back({.name = quantized_.value(value).name,
                                .range = sums.range,
                                .scale = q.scale(),
                                .zero_point = q.zero_point(),
                                .saturated = sums.share(),
                                .sqnr_db = sums.total.decibels(),
                                .selected = selected_[counterpart(value).index]});
      if (report.first_bad.empty() && sums.total.decibels() < report.bad_db)
        report.first_bad = quantized_.value(value).name;
      if (!op.valid()) return;
      const Place place = place_of(module_, quantized_, op);
      report.operators.push_back({.name = place.node,
                                  .op = std::string(quantized_.op(op).def->name),
                                  .module_path = place.module_path,
                                  .source_line = place.source_line,
                                  .tensor = quantized_.value(value).name,
                                  .adds_db = sums.added.decibels(),
                                  .sqnr_db = sums.total.decibels(),
                                  .saturated = sums.share()});
    };
    for (const ValueId input : quantized_.inputs()) row(input, {});
    for (const OpId op : quantized_.ops()) {
      for (const ValueId result : quantized_.op(op).results) row(result, op);
      const ValueId first = quantized_.op(op).results.front();
      if (!changes_quantization(quantized_.op(op).def) &&
          quantized_.type(first).dtype == DType::kFloat32)
        report.float_ops.push_back(place_of(module_, quantized_, op).node);
    }
    std::ranges::stable_sort(report.operators, {}, &ErrorRow::adds_db);
  }

  const Module& module_;
  const Graph& ideal_;
  const Graph& quantized_;
  std::vector<Sums> sums_;      // by value of the quantized graph
  std::vector<bool> selected_;  // by value of the ideal one
  Tensors expected_, actual_;   // of the current sample
};

}  // namespace

Graph float_counterpart(const Graph& quantized) {
  Graph graph = quantized;
  Rewriter rewriter(graph);
  const auto slots = static_cast<uint32_t>(graph.value_slots());
  const auto is_quantized = [&](ValueId id) {
    return !graph.value(id).erased && graph.type(id).quantized();
  };
  for (uint32_t i = 0; i < slots; ++i)
    if (is_quantized({i}) && !graph.is_constant({i}))
      rewriter.set_element_type({i}, DType::kFloat32, std::nullopt);
  for (OpId op = graph.first_op(), next; op.valid(); op = next) {
    next = graph.op(op).next;
    if (changes_quantization(graph.op(op).def) && !graph.is_constant(graph.op(op).operands[0]))
      rewriter.replace(op, graph.op(op).operands[0]);
  }
  for (uint32_t i = 0; i < slots; ++i) {
    if (!is_quantized({i})) continue;
    std::vector<Use> uses = graph.value({i}).uses;
    std::erase_if(uses, [&](const Use& use) { return graph.op(use.op).def == &ops::kDequantize; });
    if (uses.empty()) continue;
    const Result<ValueId> real =
        rewriter.insert_value(graph.first_op(), {.def = &ops::kDequantize, .operands = {{i}}});
    DTR_CHECK(real);
    for (const Use& use : uses) rewriter.set_operand(use.op, use.operand, *real);
  }
  return graph;
}

Result<QuantizationReport> report_quantization(const Module& module, const Graph& ideal,
                                               const Graph& quantized, const Samples& samples,
                                               std::span<const ValueId> selected,
                                               const QuantizationReportOptions& options) {
  return Reporter(module, ideal, quantized, selected).run(samples, options);
}

Result<QuantizationReport> report_quantization(const Compilation& compilation) {
  const Samples* samples = compilation.samples();
  if (samples == nullptr)
    return fail(DiagnosticId::kCalibrationMissing,
                "the report on quantization runs the model on samples and there are none",
                "give samples of real inputs with --calibrate DATA.npz",
                {.file = compilation.module.file});
  const Graph& quantized = compilation.quantized;
  if (!compilation.conversion)
    return report_quantization(compilation.module, float_counterpart(quantized), quantized,
                               *samples);
  const ConversionReport& conversion = *compilation.conversion;
  return report_quantization(compilation.module, conversion.float_graph, quantized, *samples,
                             conversion.selected);
}

std::string to_text(const QuantizationReport& report) {
  const auto percent = [](double share) {
    return share == 0 ? std::string("-") : terminal_format("{:.3f} %", share * 100);
  };
  std::string text =
      terminal_format("quantization, {} sample{}\n{:<28} {:>12} {:>12} {:>12} {:>5} {:>10} {:>8}\n",
                      report.samples, report.samples == 1 ? "" : "s", "tensor", "least", "greatest",
                      "scale", "zero", "saturated", "SQNR dB");
  for (const TensorRow& row : report.tensors)
    text += terminal_format("{:<28} {:>12.5g} {:>12.5g} {:>12.5g} {:>5} {:>10} {:>8.1f}{}\n",
                            clipped(row.name, 28), row.range.min, row.range.max, row.scale,
                            row.zero_point, percent(row.saturated), row.sqnr_db,
                            row.selected ? "  selected" : "");
  text += terminal_format("\n{:<28} {:<28} {:>8} {:>8} {:>10}\n", "operator, worst first", "",
                          "adds dB", "SQNR dB", "saturated");
  for (const ErrorRow& row : report.operators)
    text += terminal_format("{:<28} {:<28} {:>8.1f} {:>8.1f} {:>10}\n", clipped(row.tensor, 28),
                            clipped(row.op, 28), row.adds_db, row.sqnr_db, percent(row.saturated));
  if (!report.float_ops.empty())
    text += terminal_format("not quantized: {}\n", fmt::join(report.float_ops, ", "));
  const auto bad = std::ranges::find(report.operators, report.first_bad, &ErrorRow::tensor);
  if (report.first_bad.empty()) {
    text += terminal_format("every tensor has {} dB or more\n", report.bad_db);
  } else if (bad == report.operators.end()) {
    text += terminal_format("first bad tensor: the input {}\n", report.first_bad);
  } else {
    text += terminal_format(
        "first bad operator: {} ({}){}{}{}{}: {:.1f} dB, of which it adds {:.1f} dB\n", bad->name,
        bad->op, bad->module_path.empty() ? "" : " in ", bad->module_path,
        bad->source_line.empty() ? "" : ", ", bad->source_line, bad->sqnr_db, bad->adds_db);
  }
  return text;
}

namespace {

// JSON has no infinity and no NaN: an infinite element of a result makes its range and its error
// infinite.
std::string json_number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "null";
}
std::string json_decibels(double value) {
  return std::isfinite(value) ? fmt::format("{:.3f}", value) : "null";
}

}  // namespace

std::string to_json(const QuantizationReport& report) {
  std::string text =
      fmt::format("{{\"samples\": {}, \"bad_db\": {}, \"first_bad\": {}, \"tensors\": [",
                  report.samples, report.bad_db, json_quote(report.first_bad));
  for (const TensorRow& row : report.tensors)
    text += fmt::format(
        "{}\n  {{\"name\": {}, \"min\": {}, \"max\": {}, \"scale\": {}, \"zero_point\": {}, "
        "\"saturated\": {:.6g}, \"sqnr_db\": {}, "
        "\"selected\": {}}}",
        &row == report.tensors.data() ? "" : ",", json_quote(row.name),
        json_number(row.range.min, 9), json_number(row.range.max, 9), json_number(row.scale, 9),
        row.zero_point, row.saturated, json_decibels(row.sqnr_db), row.selected);
  text += "],\n \"operators\": [";
  for (const ErrorRow& row : report.operators)
    text += fmt::format(
        "{}\n  {{\"name\": {}, \"op\": {}, \"module_path\": {}, \"source_line\": {}, \"tensor\": "
        "{}, \"adds_db\": {}, "
        "\"sqnr_db\": {}, \"saturated\": {:.6g}}}",
        &row == report.operators.data() ? "" : ",", json_quote(row.name), json_quote(row.op),
        json_quote(row.module_path), json_quote(row.source_line), json_quote(row.tensor),
        json_decibels(row.adds_db), json_decibels(row.sqnr_db), row.saturated);
  text += "],\n \"float_operators\": [";
  for (const std::string& name : report.float_ops)
    text += (&name == report.float_ops.data() ? "" : ", ") + json_quote(name);
  return text + "]}\n";
}

}  // namespace dtr
