#include "compiler/quantizer/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "compiler/ir/rewriter.h"
#include "compiler/ops/ops.h"
#include "compiler/quantizer/loops.h"
#include "compiler/quantizer/zero_values.h"
#include "compiler/support/thread_pool.h"
#include "device/numerics/requantize.h"

namespace dtr {
namespace {

using Kind = QuantSpec::Kind;

// Half of int32 for the bias leaves the other half to the products.
constexpr double kMaxBias = 0x1p30;

Place place_of_value(const Module& module, const Graph& graph, ValueId value) {
  const OpId producer = graph.producer(value);
  return producer.valid() ? place_of(module, graph, producer)
                          : Place{.file = module.file, .node = graph.value(value).name};
}

tl::unexpected<Diagnostic> constant_not_finite(const Module& module, const Graph& graph,
                                               ValueId value, OpId user) {
  return fail(DiagnosticId::kWeightNotFinite,
              fmt::format("the constant `{}` holds NaN or infinity", graph.value(value).name),
              "check the checkpoint that the model was exported from",
              place_of(module, graph, user));
}

class Converter {
 public:
  Converter(Module& module, Graph& graph, const Annotation& annotation,
            const CalibrationResult& calibration)
      : module_(module),
        graph_(graph),
        rewriter_(graph),
        annotation_(annotation),
        calibration_(calibration) {}

  Result<ConversionReport> run(unsigned threads) {
    DTR_ASSIGN(quantizations_,
               group_quantizations(module_, graph_, annotation_, calibration_, threads));
    note_empty();
    report_.float_graph = graph_;
    report_.selected = annotation_.selected;
    report_patterns();
    std::vector<OpId> order;
    for (const OpId op : graph_.ops()) order.push_back(op);
    fit_all(order, threads);
    for (const OpId op : order) {
      if (annotation_.ops[op.index]) {
        DTR_TRY(quantize_op(op, *annotation_.ops[op.index]));
        ++report_.quantized_ops;
      } else {
        DTR_TRY(keep_float(op));
      }
    }
    DTR_TRY(dequantize_outputs());
    return std::move(report_);
  }

 private:
  void report_patterns() {
    for (const OpId op : graph_.ops())
      report_.patterns.push_back({.place = place_of(module_, graph_, op),
                                  .op = std::string(graph_.op(op).def->name),
                                  .verdicts = annotation_.verdicts[op.index]});
    for (const QuantizationConflict& conflict : annotation_.conflicts)
      report_.conflicts.push_back({.value = graph_.value(conflict.value).name,
                                   .reader = place_of(module_, graph_, conflict.reader),
                                   .op = std::string(graph_.op(conflict.reader).def->name),
                                   .shared = conflict.shared});
  }

  // The first of the values of one quantization that no sample brings to anything but zero: any
  // scale fits, and real data may not fit it. Invalid: there is none.
  ValueId empty_value(const QuantizationGroup& group) const {
    if (group.spec.kind == Kind::kFixed) return {};
    ValueId first;
    for (const ValueId id : group.observed) {
      if (graph_.is_constant(id)) return {};
      const Range range = calibration_.values.at(graph_.value(id).name).range();
      if (range.min != 0 || range.max != 0) return {};
      if (!first.valid()) first = id;
    }
    // A mask that holds nothing but what it excludes with.
    const OpId fill = graph_.producer_if(first, ops::kMaskedFill);
    const bool excludes = fill.valid() && graph_.op(fill).attributes.get<double>("value") == 0;
    return excludes ? ValueId{} : first;
  }

  // One note for all of a kind: a model that was not trained may have a hundred of them. What is
  // zero for any input has every range that it needs.
  void note_empty() {
    const std::vector<bool> always = zero_values(module_, graph_);
    std::vector<ValueId> empty, zero;
    for (const QuantizationGroup& group : annotation_.groups) {
      const ValueId value = empty_value(group);
      if (!value.valid()) continue;
      const bool all =
          std::ranges::all_of(group.observed, [&](ValueId id) -> bool { return always[id.index]; });
      (all ? zero : empty).push_back(value);
    }
    if (!zero.empty())
      report_.notes.push_back({.id = DiagnosticId::kCalibrationEmpty,
                               .reason = fmt::format("{} zero for every input", subject_of(zero)),
                               .fix = "leave out of the model what is computed of zeros alone",
                               .place = place_of_value(module_, graph_, zero.front()),
                               .severity = Severity::kNote});
    if (empty.empty()) return;
    const bool one = empty.size() == 1;
    report_.notes.push_back(
        {.id = DiagnosticId::kCalibrationEmpty,
         .reason = fmt::format("{} zero in every calibration sample; nothing is known of {}",
                               subject_of(empty), one ? "its range" : "their ranges"),
         .fix = one ? "give samples that reach it, or check the operators before it"
                    : "give samples that reach them, or check the operators before them",
         .place = place_of_value(module_, graph_, empty.front()),
         .severity = Severity::kWarning});
  }

  // "`a` is", "`a`, `b`, `c` and 2 more values are".
  std::string subject_of(const std::vector<ValueId>& values) const {
    constexpr size_t kMostNames = 3;
    const size_t shown = values.size() <= kMostNames + 1 ? values.size() : kMostNames;
    std::vector<std::string> names;
    for (size_t i = 0; i < shown; ++i)
      names.push_back(fmt::format("`{}`", graph_.value(values[i]).name));
    if (values.size() > shown)
      names.push_back(fmt::format("{} more values", values.size() - shown));
    const bool one = names.size() == 1;
    const std::string last = names.back();
    names.pop_back();
    return fmt::format("{}{}{} {}", fmt::join(names, ", "), one ? "" : " and ", last,
                       one ? "is" : "are");
  }

  Result<void> quantize_op(OpId op, const AnnotatedOp& annotated) {
    const std::vector<QuantSpec>& specs = annotated.specs.operands;
    const std::vector<ValueId> float_operands = graph_.op(op).operands;
    for (uint32_t i = 0; i < specs.size(); ++i) {
      const ValueId operand = graph_.op(op).operands[i];
      if (!operand.valid() || specs[i].kind == Kind::kNone || specs[i].kind == Kind::kBias)
        continue;
      if (is_weight(operand, specs[i])) {
        DTR_TRY(quantize_weight(op, i));
      } else {
        DTR_TRY(quantize_activation(op, i, annotated.operand_groups[i]));
      }
    }
    for (uint32_t i = 0; i < specs.size(); ++i)
      if (graph_.op(op).operands[i].valid() && specs[i].kind == Kind::kBias)
        quantize_bias(op, i, float_operands);
    for (const ValueId result : graph_.op(op).results)
      if (const int group = annotation_.group_of_value[result.index]; group != Annotation::kNoGroup)
        rewriter_.set_element_type(result, DType::kInt8, quantization(group));
    return {};
  }

  Result<void> quantize_activation(OpId op, uint32_t index, int group) {
    const ValueId value = graph_.op(op).operands[index];
    const Quantization& wanted = quantization(group);
    if (graph_.is_constant(value)) {
      const std::span<const float> floats =
          module_.constants.values<float>(graph_.value(value).constant);
      if (!finite_range(floats).finite) return not_finite(value, op);
      replace_constant(op, index, DType::kInt8, quantize_all(floats, wanted), wanted);
      return {};
    }
    const Type& type = graph_.type(value);
    if (type.quantized() && *type.quantization == wanted) return {};
    ValueId& converted = converted_[{value, group}];
    if (!converted.valid()) {
      const OpDef& def = type.quantized() ? ops::kRequantize : ops::kQuantize;
      DTR_ASSIGN(converted, rewriter_.insert_value(op, {.def = &def,
                                                        .operands = {value},
                                                        .origin = graph_.op(op).origin,
                                                        .name = graph_.value(value).name + "_q",
                                                        .quantization = wanted}));
    }
    rewriter_.set_operand(op, index, converted);
    return {};
  }

  bool is_weight(ValueId operand, const QuantSpec& spec) const {
    return spec.kind == Kind::kPerChannel ||
           (graph_.is_constant(operand) && spec.kind == Kind::kSymmetric);
  }

  // Finds the quantizations of weights, which depend on nothing else, before the graph changes.
  void fit_all(const std::vector<OpId>& order, unsigned threads) {
    std::vector<std::pair<OpId, uint32_t>> weights;
    for (const OpId op : order) {
      if (!annotation_.ops[op.index]) continue;
      const std::vector<QuantSpec>& specs = annotation_.ops[op.index]->specs.operands;
      for (uint32_t i = 0; i < specs.size(); ++i) {
        const ValueId operand = graph_.op(op).operands[i];
        if (operand.valid() && is_weight(operand, specs[i])) weights.emplace_back(op, i);
      }
    }
    std::vector<std::optional<Quantization>> found(weights.size());
    parallel_for(weights.size(), threads, [&](size_t i) {
      const auto [op, index] = weights[i];
      const QuantSpec& spec = annotation_.ops[op.index]->specs.operands[index];
      const ValueId value = graph_.op(op).operands[index];
      const Shape& shape = graph_.type(value).shape;
      const std::span<const float> floats =
          module_.constants.values<float>(graph_.value(value).constant);
      if (!finite_range(floats).finite) return;
      found[i] =
          weight_quantization(floats, shape, spec.kind == Kind::kPerChannel ? spec.axis : -1);
      fit_weights(floats, shape, *found[i]);
    });
    for (size_t i = 0; i < weights.size(); ++i) fitted_.emplace(weights[i], std::move(found[i]));
  }

  Result<void> quantize_weight(OpId op, uint32_t index) {
    const ValueId value = graph_.op(op).operands[index];
    const Type type = graph_.type(value);
    const std::span<const float> floats =
        module_.constants.values<float>(graph_.value(value).constant);
    std::optional<Quantization>& fitted = fitted_.at({op, index});
    if (!fitted) return not_finite(value, op);
    Quantization q = std::move(*fitted);
    DTR_TRY(widen_for_bias(op, floats, q));
    replace_constant(op, index, DType::kInt8, quantize_all(floats, q, type.shape), q);
    return {};
  }

  // Makes the weight scale of each channel large enough for its bias (operand 2; operand 0 is
  // quantized already). Where the products cannot move the channel by a code of a result that has
  // codes for the bias, as in channels that training left without weights, nothing is lost.
  Result<void> widen_for_bias(OpId op, std::span<const float> floats, Quantization& weight) {
    constexpr double kUnseen = 1.0 / 512;  // half a code of a range that ends at the bias
    const std::vector<ValueId>& operands = graph_.op(op).operands;
    const std::vector<QuantSpec>& specs = annotation_.ops[op.index]->specs.operands;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].kind != Kind::kBias || !operands[i].valid()) continue;
      const std::span<const float> bias =
          module_.constants.values<float>(graph_.value(operands[i]).constant);
      if (!finite_range(bias).finite) return not_finite(operands[i], op);
      const auto input_scale = static_cast<double>(graph_.type(operands[0]).quantization->scale());
      std::vector<double> sums;  // computed where a channel is widened
      size_t widened = 0;
      for (size_t c = 0; c < bias.size(); ++c) {
        float& scale =
            weight.scales[c %
                          weight.scales.size()];  // a transposed convolution's groups share scales
        const double least = std::abs(static_cast<double>(bias[c])) / (kMaxBias * input_scale);
        if (static_cast<double>(scale) >= least) continue;
        if (sums.empty())
          sums =
              magnitudes(floats, graph_.type(operands[1]).shape, weight.axis, weight.scales.size());
        scale = std::nextafter(static_cast<float>(least), std::numeric_limits<float>::infinity());
        const double reach = sums[c % sums.size()] * 255 * input_scale;
        if (reach >= kUnseen * std::abs(static_cast<double>(bias[c]))) ++widened;
      }
      if (widened > 0)
        report_.notes.push_back(
            {.id = DiagnosticId::kQuantizationBiasWidened,
             .reason =
                 fmt::format("the bias of {} of {} channels is too large for its weights' scale",
                             widened, bias.size()),
             .fix = "scale the layer's weights and bias alike, or accept coarser weights",
             .place = place_of(module_, graph_, op),
             .severity = Severity::kWarning});
    }
    return {};
  }

  // The sum of the magnitudes of each of `count` slices along `axis`; of all values, if it is 1.
  static std::vector<double> magnitudes(std::span<const float> floats, const Shape& shape, int axis,
                                        size_t count) {
    std::vector<double> sums(count);
    size_t inner = 1;
    if (axis >= 0)
      for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i)
        inner *= static_cast<size_t>(shape[i]);
    for (size_t i = 0; i < floats.size(); ++i)
      sums[i / inner % count] += std::abs(static_cast<double>(floats[i]));
    return sums;
  }

  void quantize_bias(OpId op, uint32_t index, const std::vector<ValueId>& float_operands) {
    const std::vector<ValueId>& operands = graph_.op(op).operands;
    const std::span<const float> given =
        module_.constants.values<float>(graph_.value(operands[index]).constant);
    std::vector<double> real(given.begin(), given.end());
    correct_bias(op, float_operands, real);
    const float input_scale = graph_.type(operands[0]).quantization->scale();
    const Quantization& weight = *graph_.type(operands[1]).quantization;
    Quantization q{.axis = weight.per_channel() ? 0 : -1, .qmin = INT32_MIN, .qmax = INT32_MAX};
    const size_t entries = weight.per_channel() ? real.size() : 1;
    for (size_t c = 0; c < entries; ++c)
      q.scales.push_back(input_scale * weight.scales[c % weight.scales.size()]);
    q.zero_points.assign(entries, 0);
    std::vector<int32_t> integers;
    for (size_t c = 0; c < real.size(); ++c)
      integers.push_back(
          numerics::nearest_code(real[c], static_cast<double>(q.scales[q.per_channel() ? c : 0]), 0,
                                 {INT32_MIN, INT32_MAX}));
    replace_constant(op, index, DType::kInt32, std::as_bytes(std::span(integers)), q);
  }

  // Rounded weights shift the mean of each output channel by Σ (w_q − w)·E[x]; the bias takes that
  // back. Source: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias
  // Correction, 2019.
  void correct_bias(OpId op, const std::vector<ValueId>& float_operands,
                    std::vector<double>& bias) const {
    const auto at = calibration_.channels.find(graph_.value(float_operands[0]).name);
    const std::optional<int> axis = channel_axis(graph_, op);
    if (at == calibration_.channels.end() || axis != at->second.axis) return;
    const std::vector<double>& mean = at->second.mean;
    const Type& type = graph_.type(graph_.op(op).operands[1]);
    const std::span<const float> real =
        module_.constants.values<float>(graph_.value(float_operands[1]).constant);
    const std::span<const int8_t> rounded =
        module_.constants.values<int8_t>(graph_.value(graph_.op(op).operands[1]).constant);
    const std::vector<float>& scales = type.quantization->scales;
    const auto inputs =
        static_cast<size_t>(type.shape[1]);  // channels that one output channel reads
    const size_t taps = real.size() / (bias.size() * inputs);
    const size_t outputs_per_group = bias.size() * inputs / mean.size();
    if (outputs_per_group == 0) return;
    for (size_t c = 0; c < bias.size(); ++c) {
      const auto scale = static_cast<double>(scales[scales.size() == 1 ? 0 : c]);
      for (size_t k = 0; k < inputs; ++k) {
        double lost = 0;
        for (size_t i = (c * inputs + k) * taps; i < (c * inputs + k + 1) * taps; ++i)
          lost += static_cast<double>(real[i]) - scale * rounded[i];
        bias[c] += lost * mean[c / outputs_per_group * inputs + k];
      }
    }
  }

  static std::vector<int8_t> quantize_all(std::span<const float> floats, const Quantization& q,
                                          const Shape& shape = {}) {
    size_t channels = 1, inner = floats.size();
    if (q.per_channel()) {
      const auto axis = static_cast<size_t>(q.axis);
      channels = static_cast<size_t>(shape[axis]);
      inner = 1;
      for (size_t i = axis + 1; i < shape.size(); ++i) inner *= static_cast<size_t>(shape[i]);
    }
    std::vector<int8_t> integers(floats.size());
    for (size_t at = 0, c = 0; at < floats.size(); at += inner, c = (c + 1) % channels)
      loops::nearest_codes(floats.subspan(at, inner), static_cast<double>(q.scales[c]),
                           q.zero_points[c], {q.qmin, q.qmax}, integers.data() + at);
    return integers;
  }

  void replace_constant(OpId op, uint32_t index, DType dtype, const std::vector<int8_t>& values,
                        const Quantization& q) {
    replace_constant(op, index, dtype, std::as_bytes(std::span(values)), q);
  }
  void replace_constant(OpId op, uint32_t index, DType dtype, std::span<const std::byte> bytes,
                        const Quantization& q) {
    const Value& old = graph_.value(graph_.op(op).operands[index]);
    const ConstantId id = module_.constants.add(dtype, bytes);
    const ValueId value = rewriter_.add_constant(
        {.dtype = dtype, .shape = old.type.shape, .quantization = q}, id, old.name + "_q");
    rewriter_.set_operand(op, index, value);
  }

  // An op that stays float reads dequantized values; a dequantize of the model, of an input that is
  // int8, reads codes.
  Result<void> keep_float(OpId op) {
    if (graph_.op(op).def == &ops::kDequantize) return {};
    for (size_t i = 0; i < graph_.op(op).operands.size(); ++i) {
      const ValueId operand = graph_.op(op).operands[i];
      if (!operand.valid() || graph_.is_constant(operand) || !graph_.type(operand).quantized())
        continue;
      DTR_ASSIGN(const ValueId real, dequantized(operand, op, graph_.op(op).origin));
      rewriter_.set_operand(op, i, real);
    }
    report_.float_ops.push_back({.id = op,
                                 .place = place_of(module_, graph_, op),
                                 .op = std::string(graph_.op(op).def->name),
                                 .why = annotation_.reasons[op.index]});
    return {};
  }

  Result<void> dequantize_outputs() {
    std::vector<ValueId> outputs = graph_.outputs();
    for (ValueId& output : outputs) {
      if (graph_.is_constant(output) || !graph_.type(output).quantized()) continue;
      DTR_ASSIGN(output, dequantized(output, OpId{}, graph_.op(graph_.producer(output)).origin));
    }
    rewriter_.set_outputs(std::move(outputs));
    return {};
  }

  Result<ValueId> dequantized(ValueId value, OpId before, const Origin& origin) {
    ValueId& real = dequantized_[value];
    if (!real.valid()) {
      DTR_ASSIGN(real, rewriter_.insert_value(before, {.def = &ops::kDequantize,
                                                       .operands = {value},
                                                       .origin = origin,
                                                       .name = graph_.value(value).name + "_dq"}));
    }
    return real;
  }

  tl::unexpected<Diagnostic> not_finite(ValueId value, OpId user) const {
    return constant_not_finite(module_, graph_, value, user);
  }

  const Quantization& quantization(int group) const {
    return quantizations_.at(static_cast<size_t>(group));
  }

  Module& module_;
  Graph& graph_;
  Rewriter rewriter_;
  const Annotation& annotation_;
  const CalibrationResult& calibration_;
  std::vector<Quantization> quantizations_;  // by group
  std::map<std::pair<ValueId, int>, ValueId>
      converted_;  // value and group → quantize or requantize of it
  std::map<ValueId, ValueId> dequantized_;
  std::map<std::pair<OpId, uint32_t>, std::optional<Quantization>>
      fitted_;  // of the weights that ops have as operands; nullopt: not all are finite
  ConversionReport report_;
};

// Whether a group that may do without has statistics: a file of an earlier version has none.
bool is_known(const Graph& graph, const QuantizationGroup& group,
              const CalibrationResult& calibration) {
  return group.spec.kind != Kind::kFixed || has_statistics(graph, group, calibration);
}

}  // namespace

Result<Quantization> group_quantization(const Module& module, const Graph& graph,
                                        const QuantizationGroup& group,
                                        const CalibrationResult& calibration) {
  const Quantization fixed = Quantization::per_tensor(group.spec.scale, group.spec.zero_point);
  if (group.spec.is_given() || !is_known(graph, group, calibration)) return fixed;
  // A constant is known exactly; what was observed may have been smaller than it will be.
  const bool constant =
      std::ranges::all_of(group.observed, [&](ValueId id) { return graph.is_constant(id); });
  ValueStatistics merged(group.spec.observer != QuantSpec::Observer::kMinMax);
  for (const ValueId id : group.observed) {
    const Value& value = graph.value(id);
    if (graph.is_constant(id)) {
      ValueStatistics own(merged.with_histogram());
      if (!own.observe(module.constants.values<float>(value.constant)))
        return constant_not_finite(module, graph, id, value.uses.front().op);
      merged.merge(own);
      continue;
    }
    const auto at = calibration.values.find(value.name);
    if (at == calibration.values.end() || at->second.empty() ||
        at->second.with_histogram() != merged.with_histogram())
      return fail(DiagnosticId::kCalibrationMismatch,
                  fmt::format("the calibration result has no statistics for `{}`", value.name),
                  "calibrate this model again", place_of_value(module, graph, id));
    merged.merge(at->second);
  }
  const bool silent = merged.range() == Range{};
  const float least = constant ? std::numeric_limits<float>::min()
                      : silent ? std::max(kActivationEps, group.spec.least_scale)
                               : group.spec.least_scale;
  const Expected expected = group.spec.observer == QuantSpec::Observer::kTail && !constant
                                ? Expected::kTail
                                : Expected::kObserved;
  Quantization found = group.spec.kind == Kind::kSymmetric
                           ? symmetric_quantization(best_range(merged, expected), least)
                           : best_quantization(merged, least, expected);
  if (group.spec.kind == Kind::kFixed && (silent || found.scale() * 2 >= group.spec.scale))
    return fixed;
  return found;
}

Result<std::vector<Quantization>> group_quantizations(const Module& module, const Graph& graph,
                                                      const Annotation& annotation,
                                                      const CalibrationResult& calibration,
                                                      unsigned threads) {
  std::vector<Result<Quantization>> found(annotation.groups.size());
  parallel_for(found.size(), threads, [&](size_t i) {
    found[i] = group_quantization(module, graph, annotation.groups[i], calibration);
  });
  std::vector<Quantization> quantizations;
  for (Result<Quantization>& one : found) {
    DTR_ASSIGN(Quantization quantization, std::move(one));
    quantizations.push_back(std::move(quantization));
  }
  return quantizations;
}

Result<ConversionReport> convert(Module& module, Graph& graph, const Annotation& annotation,
                                 const CalibrationResult& calibration, unsigned threads) {
  return Converter(module, graph, annotation, calibration).run(threads);
}

}  // namespace dtr
