#include "host/accuracy/quantization_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "compiler/executors/executor.h"
#include "compiler/executors/stream.h"
#include "compiler/ir/rewriter.h"
#include "compiler/ops/ops.h"
#include "compiler/support/encode.h"
#include "compiler/support/text.h"
#include "host/accuracy/compare.h"
#include "host/accuracy/error_shares.h"
#include "host/accuracy/quantization_advice.h"

namespace dtr {
namespace {

constexpr Range kNothing{std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity()};
constexpr float kFewCodes = 16;

// Widens the range of each channel along an axis.
void add_channels(std::vector<Range>& ranges, const TensorView& tensor, size_t axis) {
  const auto channels = static_cast<size_t>(tensor.shape[axis]);
  size_t inner = 1;
  for (size_t d = axis + 1; d < tensor.shape.size(); ++d)
    inner *= static_cast<size_t>(tensor.shape[d]);
  ranges.resize(channels, kNothing);
  const std::span<const float> values = tensor.values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    Range& range = ranges[i / inner % channels];
    range = {std::min(range.min, values[i]), std::max(range.max, values[i])};
  }
}

// The narrowest of the channels that have few codes, and how many do; without channels of zeros.
std::pair<std::optional<NarrowChannel>, size_t> narrowest(const std::vector<Range>& channels,
                                                          float scale) {
  std::optional<NarrowChannel> found;
  size_t few = 0;
  float least = kFewCodes * scale;
  for (size_t c = 0; c < channels.size(); ++c) {
    const float width = std::max(channels[c].max, 0.0F) - std::min(channels[c].min, 0.0F);
    if (!(width > 0) || width >= kFewCodes * scale) continue;
    ++few;
    if (width < least) {
      least = width;
      found = {static_cast<int64_t>(c), channels[c]};
    }
  }
  return {found, few};
}

bool is_int8_tensor(const Graph& graph, ValueId value) {
  const Type& type = graph.type(value);
  return type.quantized() && type.dtype == DType::kInt8 && !type.quantization->per_channel() &&
         !graph.is_constant(value);
}

// What is known of one value after all samples.
struct Sums {
  Sqnr total, added;
  double added_noise = 0, rounding_noise = 0, saturation_noise = 0;
  Range range{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
  uint64_t elements = 0, saturated = 0;
  std::vector<Range> second, last;  // of the channels along the second and the last axis
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
      add_outputs();
    }
    report.has_float_outputs = std::ranges::any_of(
        ideal_.outputs(), [&](ValueId id) { return is_float(ideal_.type(id).dtype); });
    for (const Sqnr& output : outputs_)
      report.outputs_db = std::min(report.outputs_db, output.decibels());
    if (options.shares) {
      DTR_ASSIGN(const ErrorShares shares,
                 share_errors(module_, ideal_, quantized_, samples, report.samples));
      shares_ = &shares;
      report.share_samples = shares.samples;
      write(report);
      shares_ = nullptr;
    } else {
      write(report);
    }
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
    const size_t rank = real.shape().size();
    if (rank >= 2) add_channels(sums.second, real.view(), 1);
    if (rank >= 3) add_channels(sums.last, real.view(), rank - 1);
    sums.elements += static_cast<uint64_t>(real.elements());
    sums.total.add(selected_[of.index] ? within_codes(real, value).view() : real.view(),
                   actual_.at(value).view());
  }

  void add_outputs() {
    outputs_.resize(ideal_.user_output_count());
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const auto wanted = expected_.find(ideal_.outputs()[k]);
      const auto given = actual_.find(quantized_.outputs()[k]);
      if (wanted == expected_.end() || given == actual_.end()) continue;
      if (wanted->second.dtype() == DType::kFloat32 && given->second.dtype() == DType::kFloat32)
        outputs_[k].add(wanted->second.view(), given->second.view());
    }
  }

  void add_result(OpId id, ValueId result) {
    add_tensor(result);
    const ValueId of = counterpart(result);
    if (!counts(result, of)) return;
    const std::optional<Tensor> alone = in_float(id, result);
    if (!alone) return;
    const Tensor limited = selected_[of.index] ? within_codes(*alone, result) : Tensor();
    const TensorView& right = selected_[of.index] ? limited.view() : alone->view();
    Sums& sums = sums_[result.index];
    sums.added.add(right, actual_.at(result).view());
    add_causes(sums, right.values<float>(), actual_.at(result).values<float>(), result);
  }

  // What of the added error is the rounding and the saturation of the float result alone.
  void add_causes(Sums& sums, std::span<const float> right, std::span<const float> actual,
                  ValueId result) const {
    const Quantization& q = *quantized_.type(result).quantization;
    const auto [low, high] = limits(result, 0);
    for (size_t i = 0; i < right.size(); ++i) {
      if (!std::isfinite(right[i])) continue;
      const double added = static_cast<double>(actual[i]) - right[i];
      sums.added_noise += added * added;
      const float inside = std::clamp(right[i], low, high);
      const double beyond = static_cast<double>(right[i]) - inside;
      sums.saturation_noise += beyond * beyond;
      const double steps = static_cast<double>(inside) / q.scale();
      const double rounding = (steps - std::nearbyint(steps)) * q.scale();
      sums.rounding_noise += rounding * rounding;
    }
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

  static double part(double noise, const Sums& sums) {
    return sums.added_noise > 0 ? std::min(1.0, noise / sums.added_noise) : 0;
  }
  static double by_weights(const Sums& sums) {
    return sums.added_noise > 0
               ? std::max(0.0, 1 - part(sums.rounding_noise + sums.saturation_noise, sums))
               : 0;
  }

  static std::optional<NarrowChannel> narrow_channel(const Sums& sums, float scale) {
    const auto second = narrowest(sums.second, scale);
    const auto last = narrowest(sums.last, scale);
    const bool of_last = last.second * sums.second.size() > second.second * sums.last.size();
    const auto& [channel, few] = of_last ? last : second;
    const size_t channels = of_last ? sums.last.size() : sums.second.size();
    return channels > 1 && 4 * few >= channels ? channel : std::nullopt;
  }

  // Weights [outputs, inputs, …] with a scale an output: the largest of each input channel against
  // the largest of its row.
  std::optional<int64_t> narrow_weights(OpId id) const {
    if (id.index >= ideal_.op_slots() || quantized_.op(id).operands.size() < 2) return {};
    if (changes_quantization(quantized_.op(id).def)) return {};
    const ValueId weights = ideal_.op(id).operands[1];
    if (!ideal_.is_constant(weights) || ideal_.type(weights).dtype != DType::kFloat32) return {};
    const Shape& shape = ideal_.type(weights).shape;
    if (shape.size() < 2 || shape[1] < 2 || shape[0] == 0) return {};
    const auto bytes = module_.constants.bytes(ideal_.value(weights).constant);
    const std::span<const float> w(reinterpret_cast<const float*>(bytes.data()),
                                   bytes.size() / sizeof(float));
    const auto inputs = static_cast<size_t>(shape[1]);
    const size_t row = w.size() / static_cast<size_t>(shape[0]);
    const size_t inner = row / inputs;
    std::vector<float> codes(inputs);  // that the largest weight of the channel has
    for (size_t start = 0; start < w.size(); start += row) {
      std::vector<float> largest(inputs);
      for (size_t i = 0; i < row; ++i)
        largest[i / inner] = std::max(largest[i / inner], std::abs(w[start + i]));
      const float most = *std::ranges::max_element(largest);
      for (size_t i = 0; i < inputs && most > 0; ++i)
        codes[i] = std::max(codes[i], 127 * largest[i] / most);
    }
    const auto few =
        std::ranges::count_if(codes, [](float each) { return each > 0 && each < kFewCodes; });
    if (4 * few < static_cast<int64_t>(inputs)) return {};
    for (float& each : codes)
      if (each == 0) each = kFewCodes;
    return std::ranges::min_element(codes) - codes.begin();
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
                                .selected = selected_[counterpart(value).index],
                                .narrow = narrow_channel(sums, q.scale())});
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
                                  .saturated = sums.share(),
                                  .by_weights = by_weights(sums),
                                  .by_saturation = part(sums.saturation_noise, sums)});
      report.operators.back().narrow_weights = narrow_weights(op);
      if (shares_ != nullptr && value == quantized_.op(op).results.front())
        if (const auto share = shares_->share.find(op); share != shares_->share.end())
          report.operators.back().share = share->second;
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
    if (shares_ != nullptr && shares_->samples > 0)
      std::ranges::stable_sort(report.operators, std::greater<>(),
                               [](const ErrorRow& each) { return each.share.value_or(0); });
  }

  const Module& module_;
  const Graph& ideal_;
  const Graph& quantized_;
  std::vector<Sums> sums_;      // by value of the quantized graph
  std::vector<bool> selected_;  // by value of the ideal one
  Tensors expected_, actual_;   // of the current sample
  std::vector<Sqnr> outputs_;
  const ErrorShares* shares_ = nullptr;  // while the report is written
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

Result<QuantizationReport> report_quantization(const Compilation& compilation,
                                               const QuantizationReportOptions& options) {
  const Samples* samples = compilation.samples();
  if (samples == nullptr)
    return fail(DiagnosticId::kCalibrationMissing,
                "the report on quantization runs the model on samples and there are none",
                "give samples of real inputs with --calibrate DATA.npz",
                {.file = compilation.module.file});
  const Graph& quantized = compilation.quantized;
  if (!compilation.conversion)
    return report_quantization(compilation.module, float_counterpart(quantized), quantized,
                               *samples, {}, options);
  const ConversionReport& conversion = *compilation.conversion;
  DTR_ASSIGN(QuantizationReport report,
             report_quantization(compilation.module, conversion.float_graph, quantized, *samples,
                                 conversion.selected, options));
  report.advice = advice_of(report, compilation.module, conversion.float_graph);
  return report;
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
  text += terminal_format("\n{:<28} {:<28} {:>8} {:>8} {:>10}{}\n", "operator, worst first", "",
                          "adds dB", "SQNR dB", "saturated",
                          report.share_samples > 0 ? "     share" : "");
  for (const ErrorRow& row : report.operators)
    text += terminal_format("{:<28} {:<28} {:>8.1f} {:>8.1f} {:>10}{}\n", clipped(row.tensor, 28),
                            clipped(row.op, 28), row.adds_db, row.sqnr_db, percent(row.saturated),
                            row.share ? terminal_format(" {:>7.1f} %", 100 * *row.share) : "");
  if (report.share_samples > 0)
    text += terminal_format("share: of the outputs' error, on {} sample{}; {}\n",
                            report.share_samples, report.share_samples == 1 ? "" : "s",
                            report.has_float_outputs
                                ? fmt::format("the worst output has {:.1f} dB", report.outputs_db)
                                : "no output is a float");
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
  if (!report.advice.empty()) text += terminal_format("advice: {}\n", report.advice);
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
  std::string text = fmt::format(
      "{{\"samples\": {}, \"bad_db\": {}, \"first_bad\": {}, \"outputs_db\": {}, "
      "\"share_samples\": {}, \"advice\": {}, \"tensors\": [",
      report.samples, report.bad_db, json_quote(report.first_bad), json_decibels(report.outputs_db),
      report.share_samples, report.advice.empty() ? "null" : json_quote(report.advice));
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
        "\"sqnr_db\": {}, \"saturated\": {:.6g}, \"share\": {}, \"by_weights\": {:.4f}, "
        "\"by_saturation\": {:.4f}}}",
        &row == report.operators.data() ? "" : ",", json_quote(row.name), json_quote(row.op),
        json_quote(row.module_path), json_quote(row.source_line), json_quote(row.tensor),
        json_decibels(row.adds_db), json_decibels(row.sqnr_db), row.saturated,
        row.share ? json_number(*row.share, 6) : "null", row.by_weights, row.by_saturation);
  text += "],\n \"float_operators\": [";
  for (const std::string& name : report.float_ops)
    text += (&name == report.float_ops.data() ? "" : ", ") + json_quote(name);
  return text + "]}\n";
}

}  // namespace dtr
