#include "compiler/quantizer/steep_functions.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "compiler/ops/ops.h"
#include "compiler/quantizer/convert.h"

namespace dtr {
namespace {

constexpr double kBad = 20;         // dB, as the check of `compile` warns
constexpr double kCarried = 30;     // dB: a value's own codes are not what costs
constexpr double kUseless = 10;     // dB: what is computed from the function is mostly error
constexpr double kLeastGain = 6;    // dB
constexpr int64_t kPartOfMacs = 8;  // of the graph's multiplications
// Samples, as many as give so many results of the functions.
constexpr size_t kFewSamples = 4, kMostSamples = 32;
constexpr int64_t kElements = 1 << 16;
constexpr size_t kMostReaders = 32;  // light ops behind a function
constexpr size_t kMostFloats = 256;  // float ops in front of it that are no products

using Values = std::map<ValueId, Tensor>;
using Ops = std::set<OpId>;

// The operand that the function is steep in; invalid: it is no steep function.
ValueId steep_operand(const Op& op) {
  constexpr const OpDef* kSteep[] = {&ops::kCos,        &ops::kLog,   &ops::kPowTensorTensor,
                                     &ops::kReciprocal, &ops::kRsqrt, &ops::kSin,
                                     &ops::kSqrt,       &ops::kTan};
  if (std::ranges::find(kSteep, op.def) != std::end(kSteep)) return op.operands[0];
  if (op.def == &ops::kDivTensor) return op.operands[1];
  if (op.def == &ops::kPowTensorScalar && op.attributes.get<double>("exponent") < 1)
    return op.operands[0];
  return {};
}

bool is_light(const Op& op) {
  return op.results.size() == 1 &&
         (op.def->has_trait(kElementwise) || op.def->has_trait(kMovesData) ||
          op.def == &ops::kSumDim || op.def == &ops::kMeanDim || op.def == &ops::kAmax ||
          op.def == &ops::kAmin);
}

// In place of each element the one that its code stands for.
Tensor rounded(const Tensor& tensor, const Quantization& codes) {
  Tensor result = Tensor::copy_of(tensor.dtype(), tensor.shape(), tensor.bytes());
  const auto scale = static_cast<double>(codes.scale());
  const double low = codes.qmin - codes.zero_point(), high = codes.qmax - codes.zero_point();
  for (float& element : result.values<float>()) {
    const double code = std::nearbyint(static_cast<double>(element) / scale);
    element = static_cast<float>((code >= low ? std::min(code, high) : low) * scale);
  }
  return result;
}

// The samples in even distances, or of a model with states the first ones.
Samples choose_samples(const Graph& graph, const Samples& samples,
                       const std::vector<OpId>& functions) {
  int64_t elements = 1;
  for (const OpId id : functions)
    elements = std::max(elements, graph.type(graph.op(id).results[0]).elements());
  const size_t count =
      std::min(std::clamp(static_cast<size_t>(kElements / elements), kFewSamples, kMostSamples),
               samples.size());
  std::vector<size_t> indices;
  for (size_t i = 0; i < count; ++i)
    indices.push_back(graph.state_count() > 0 ? i : i * samples.size() / count);
  return samples.choose(std::move(indices));
}

// A graph's values on some samples in float, those that were asked for.
class FloatValues {
 public:
  FloatValues(const Module& module, const Graph& graph, const MakeLogicalExecutor& make_executor,
              const Samples& samples, const std::vector<OpId>& functions)
      : module_(module),
        graph_(graph),
        make_executor_(make_executor),
        samples_(choose_samples(graph, samples, functions)),
        values_(samples_.size()) {}

  size_t size() const { return values_.size(); }
  const Tensor& at(size_t sample, ValueId value) const { return values_[sample].at(value); }

  Result<void> need(const std::set<ValueId>& wanted) {
    std::set<ValueId> missing;
    for (const ValueId value : wanted)
      if (value.valid() && !values_.front().contains(value)) missing.insert(value);
    if (missing.empty()) return {};
    look_ahead(missing);
    DTR_ASSIGN(const std::unique_ptr<Executor> executor, make_executor_());
    for (size_t sample = 0; sample < samples_.size(); ++sample) {
      for (const ValueId value : missing)
        if (graph_.is_constant(value)) {
          const Type& type = graph_.type(value);
          values_[sample].emplace(
              value, Tensor::copy_of(type.dtype, type.shape,
                                     module_.constants.bytes(graph_.value(value).constant)));
        }
      DTR_TRY(executor->run(samples_.inputs(sample), [&](ValueId value, const TensorView& tensor) {
        if (missing.contains(value))
          values_[sample].emplace(
              value, Tensor::copy_of(tensor.dtype, tensor.shape, {tensor.data, tensor.bytes()}));
      }));
    }
    return {};
  }

 private:
  // Adds what is computed in front of the values: the next ones to be asked for. A recurrence of
  // hundreds of steps would run the model as often.
  void look_ahead(std::set<ValueId>& missing) const {
    constexpr size_t kMostAhead = 1024;
    constexpr int64_t kMostBytes = int64_t{1} << 25;
    std::vector<ValueId> open(missing.begin(), missing.end());
    int64_t bytes = 0;
    for (size_t i = 0; i < open.size() && i < kMostAhead; ++i) {
      const OpId producer = graph_.producer(open[i]);
      if (!producer.valid()) continue;
      for (const ValueId operand : graph_.op(producer).operands) {
        if (!operand.valid() || values_.front().contains(operand)) continue;
        bytes += graph_.type(operand).bytes() * static_cast<int64_t>(samples_.size());
        if (bytes > kMostBytes) return;
        if (missing.insert(operand).second) open.push_back(operand);
      }
    }
  }

  const Module& module_;
  const Graph& graph_;
  const MakeLogicalExecutor& make_executor_;
  Samples samples_;
  std::vector<Values> values_;  // by sample
};

// The codes of groups of values, found when they are asked for.
class Codes {
 public:
  Codes(const Module& module, const Graph& graph, const Annotation& annotation,
        const CalibrationResult& calibration)
      : module_(module),
        graph_(graph),
        annotation_(annotation),
        calibration_(calibration),
        found_(annotation.groups.size()) {}

  // Null: the value has none, or the conversion will report an error.
  const Quantization* of(ValueId value) {
    if (!value.valid() || graph_.is_constant(value) ||
        graph_.type(value).dtype != DType::kFloat32 ||
        annotation_.group_of_value[value.index] == Annotation::kNoGroup)
      return nullptr;
    const auto group = static_cast<size_t>(annotation_.group_of_value[value.index]);
    std::optional<Result<Quantization>>& codes = found_[group];
    if (!codes)
      codes = group_quantization(module_, graph_, annotation_.groups[group], calibration_);
    return codes->has_value() ? &**codes : nullptr;
  }

 private:
  const Module& module_;
  const Graph& graph_;
  const Annotation& annotation_;
  const CalibrationResult& calibration_;
  std::vector<std::optional<Result<Quantization>>> found_;  // by group
};

// The error of one value against the float model.
class Error {
 public:
  void add(std::span<const float> exact, std::span<const float> computed) {
    for (size_t i = 0; i < exact.size(); ++i) {
      const auto x = static_cast<double>(exact[i]);
      if (!std::isfinite(x)) continue;
      count_ += 1;
      sum_ += x;
      squares_ += x * x;
      low_ = std::min(low_, x);
      high_ = std::max(high_, x);
      if (computed.empty()) continue;
      // Where a code is zero, the function may have no finite value; the program's saturates.
      const auto y = static_cast<double>(computed[i]);
      const double error = std::isfinite(y) ? y - x : high_ - low_;
      error_ += error * error;
    }
  }
  double decibels() const {
    if (count_ == 0 || error_ == 0) return std::numeric_limits<double>::infinity();
    const double variance = squares_ - sum_ * sum_ / count_;
    return 10 * std::log10(std::max(variance / error_, kNothing));
  }

 private:
  static constexpr double kNothing = 1e-30;
  double count_ = 0, sum_ = 0, squares_ = 0, error_ = 0;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -low_;
};

// What is round one steep function.
class Surroundings {
 public:
  Surroundings(const Graph& graph, const Annotation& annotation, Codes& codes, const Ops& floats,
               FloatValues& values, OpId function)
      : graph_(graph),
        annotation_(annotation),
        codes_(codes),
        floats_(floats),
        values_(values),
        function_(function) {
    for (const OpId id : graph.ops()) all_macs_ += macs(id);
  }

  // The ops that stay float with the function; none: int8 is good enough, or float no better.
  Result<Ops> find() {
    find_readers();
    DTR_ASSIGN(const double in_int8, decibels(ends()));
    keep(function_);
    DTR_ASSIGN(const double in_float, decibels(ends()));
    initial_ = std::min(in_int8, in_float);
    if (initial_ >= kBad) return Ops{};
    DTR_TRY(grow());
    DTR_ASSIGN(const double finally, decibels(ends()));
    return finally < initial_ + kLeastGain ? Ops{} : kept_;
  }
  double initial_decibels() const { return initial_; }

 private:
  int64_t macs(OpId id) const {
    const BoundOpView view(graph_, id);
    return view->def->macs == nullptr ? 0 : view->def->macs(*view);
  }

  bool is_float_op(OpId id) const {
    return !annotation_.ops[id.index] || floats_.contains(id) || kept_.contains(id);
  }
  bool is_made_in_int8(ValueId value) const {
    const OpId producer = graph_.producer(value);
    return producer.valid() && !is_float_op(producer);
  }
  bool has_reader_in_int8(ValueId value) const {
    return std::ranges::any_of(graph_.value(value).uses,
                               [&](const Use& use) { return !is_float_op(use.op); });
  }

  // The op is float from here on, and with it what is float already in front of it.
  void keep(OpId id) {
    std::vector<OpId> open{id};
    while (!open.empty()) {
      const OpId next = open.back();
      open.pop_back();
      if (!kept_.insert(next).second) continue;
      for (const ValueId operand : graph_.op(next).operands) {
        const OpId producer = graph_.producer(operand);
        if (!producer.valid() || !is_float_op(producer) || kept_.size() >= kMostFloats) continue;
        if (floats_.contains(producer) || is_light(graph_.op(producer))) open.push_back(producer);
      }
    }
  }

  // Light ops that compute from the function's result, and the values where they end.
  void find_readers() {
    readers_ = {function_};
    std::vector<OpId> open{function_};
    while (!open.empty()) {
      const ValueId result = graph_.op(open.back()).results[0];
      open.pop_back();
      const Value& value = graph_.value(result);
      bool ends = value.output_uses > 0 || value.uses.empty();
      for (const Use& use : value.uses) {
        const bool follows = is_light(graph_.op(use.op)) && readers_.size() < kMostReaders &&
                             graph_.type(graph_.op(use.op).results[0]).dtype == DType::kFloat32;
        ends = ends || (!follows && !readers_.contains(use.op));
        if (follows && readers_.insert(use.op).second) open.push_back(use.op);
      }
      if (ends) judged_.insert(result);
    }
  }

  // Values with codes beside the ops that stay float, and what is computed with their results.
  std::set<ValueId> ends() const {
    std::set<ValueId> found;
    const auto add = [&](ValueId value, bool is_read_in_int8) {
      if (value.valid() && (is_read_in_int8 || is_made_in_int8(value)) &&
          codes_.of(value) != nullptr)
        found.insert(value);
    };
    const auto add_result = [&](OpId id) {
      const ValueId result = graph_.op(id).results[0];
      add(result, has_reader_in_int8(result));
    };
    add_result(function_);
    for (const OpId id : kept_) {
      for (const ValueId operand : graph_.op(id).operands) add(operand, false);
      add_result(id);
    }
    for (const OpId id : readers_)
      for (const ValueId operand : graph_.op(id).operands) {
        const OpId producer = graph_.producer(operand);
        if (!producer.valid() || !readers_.contains(producer)) add(operand, !is_float_op(id));
      }
    return found;
  }

  Result<void> grow() {
    std::set<ValueId> kept_int8;
    for (bool changed = true; changed;) {
      changed = false;
      for (const ValueId value : ends()) {
        if (kept_int8.contains(value) || !ends().contains(value)) continue;
        DTR_ASSIGN(const double alone, decibels({value}));
        if (alone < kCarried && make_float(value)) {
          changed = true;
        } else {
          kept_int8.insert(value);
        }
      }
    }
    return {};
  }

  // Whether another op stays float, so that the value has no codes.
  bool make_float(ValueId value) {
    if (is_made_in_int8(value)) {
      const OpId producer = graph_.producer(value);
      if (!may_be_float(producer)) return false;
      keep(producer);
      return true;
    }
    bool any = false;
    for (const Use& use : graph_.value(value).uses)
      if (!is_float_op(use.op) && readers_.contains(use.op)) {
        keep(use.op);
        any = true;
      }
    return any;
  }

  bool may_be_float(OpId id) const {
    const Op& op = graph_.op(id);
    if (op.results.size() != 1 || reference_evaluation(graph_, id) == nullptr) return false;
    if (op.def->macs == nullptr || macs(id) <= all_macs_ / kPartOfMacs) return true;
    const Value& value = graph_.value(op.results[0]);
    return initial_ < kUseless && value.output_uses == 0 &&
           std::ranges::all_of(value.uses, [&](const Use& use) { return kept_.contains(use.op); });
  }

  // Of the judged values, the worst, where each of `with_codes` is what its codes stand for.
  Result<double> decibels(const std::set<ValueId>& with_codes) {
    std::vector<OpId> order;
    std::set<ValueId> wanted = judged_;
    for (const OpId id : graph_.ops()) {
      if (!kept_.contains(id) && !readers_.contains(id)) continue;
      order.push_back(id);
      const Op& op = graph_.op(id);
      wanted.insert(op.operands.begin(), op.operands.end());
      wanted.insert(op.results.begin(), op.results.end());
    }
    DTR_TRY(values_.need(wanted));
    std::map<ValueId, Error> errors;
    for (size_t sample = 0; sample < values_.size(); ++sample) {
      const Computed computed = evaluate(sample, order, with_codes);
      for (const ValueId value : judged_) {
        const Tensor* found = computed.read(value, true);
        errors[value].add(values_.at(sample, value).values<float>(),
                          found == nullptr ? std::span<const float>() : found->values<float>());
      }
    }
    double worst = std::numeric_limits<double>::infinity();
    for (const auto& [value, error] : errors) worst = std::min(worst, error.decibels());
    return worst;
  }

  // Values that differ from the float model's.
  struct Computed {
    Values made;   // as the op in front makes it
    Values codes;  // as its codes stand for it
    // As an op reads it that reads codes, or the float value; null: it does not differ.
    const Tensor* read(ValueId value, bool in_codes) const {
      if (const auto at = codes.find(value); in_codes && at != codes.end()) return &at->second;
      const auto at = made.find(value);
      return at == made.end() ? nullptr : &at->second;
    }
  };

  Computed evaluate(size_t sample, const std::vector<OpId>& order,
                    const std::set<ValueId>& with_codes) const {
    Computed computed;
    for (const ValueId value : with_codes)
      computed.codes.emplace(value, rounded(values_.at(sample, value), *codes_.of(value)));
    for (const OpId id : order) {
      const Op& op = graph_.op(id);
      bool differs = false;
      std::vector<TensorView> operands;
      for (const ValueId operand : op.operands) {
        if (!operand.valid()) {
          operands.emplace_back();
          continue;
        }
        const Tensor* read = computed.read(operand, !is_float_op(id) || is_made_in_int8(operand));
        differs = differs || read != nullptr;
        operands.push_back((read != nullptr ? *read : values_.at(sample, operand)).view());
      }
      if (!differs) continue;
      const ValueId result = op.results[0];
      Tensor made(graph_.type(result).dtype, graph_.type(result).shape);
      const TensorView view = made.view();
      reference_evaluation(graph_, id)(BoundOpView(graph_, id), operands, {&view, 1});
      if (with_codes.contains(result))
        computed.codes.insert_or_assign(result, rounded(made, *codes_.of(result)));
      computed.made.emplace(result, std::move(made));
    }
    return computed;
  }

  const Graph& graph_;
  const Annotation& annotation_;
  Codes& codes_;
  const Ops& floats_;  // that stay float for other functions
  FloatValues& values_;
  OpId function_;
  Ops kept_;     // that are float round the function
  Ops readers_;  // of its result, light ones, with itself
  std::set<ValueId> judged_;
  int64_t all_macs_ = 0;
  double initial_ = 0;
};

bool is_steep(const Graph& graph, OpId id) {
  const ValueId operand = steep_operand(graph.op(id));
  return operand.valid() && !graph.is_constant(operand) && graph.type(operand).elements() > 0 &&
         graph.type(graph.op(id).results[0]).dtype == DType::kFloat32;
}

}  // namespace

Result<void> find_steep_functions(const Module& module, const Graph& graph,
                                  const Annotation& annotation,
                                  const MakeLogicalExecutor& make_executor, const Samples& samples,
                                  CalibrationResult& calibration) {
  std::vector<OpId> functions;
  for (const OpId id : graph.ops())
    if (is_steep(graph, id)) functions.push_back(id);
  if (functions.empty() || samples.size() == 0 || !is_complete(graph, annotation, calibration))
    return {};
  Codes codes(module, graph, annotation, calibration);
  FloatValues values(module, graph, make_executor, samples, functions);
  Ops floats;
  for (const OpId id : functions) {
    Surroundings surroundings(graph, annotation, codes, floats, values, id);
    DTR_ASSIGN(const Ops found, surroundings.find());
    for (const OpId each : found)
      if (annotation.ops[each.index])
        calibration.steep.try_emplace(graph.value(graph.op(each).results[0]).name,
                                      surroundings.initial_decibels());
    floats.insert(found.begin(), found.end());
  }
  return {};
}

std::vector<OpId> steep_functions_of(const Graph& graph, const Annotation& annotation,
                                     const CalibrationResult& calibration) {
  std::vector<OpId> found;
  if (calibration.steep.empty()) return found;
  for (const OpId id : graph.ops())
    if (annotation.ops[id.index] && !graph.op(id).results.empty() &&
        calibration.steep.contains(graph.value(graph.op(id).results[0]).name))
      found.push_back(id);
  return found;
}

}  // namespace dtr
