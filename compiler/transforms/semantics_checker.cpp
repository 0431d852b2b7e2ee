// Checks passes by evaluating graphs in double on the same inputs.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "compiler/executors/executor.h"
#include "compiler/ir/parser.h"
#include "compiler/ops/ops.h"
#include "compiler/transforms/semantics_checker.h"

namespace dtr {
namespace {

constexpr double kFloatTolerance = 0x1p-20;
constexpr double kMinQuantizedSqnr = 25;  // dB
constexpr int kQuantizedSteps = 1;

// Whether a float value became an int8 one: a program that takes and gives int8.
bool became_integer(const Type& before, const Type& after) {
  return is_float(before.dtype) && after.dtype == DType::kInt8 && after.quantized() &&
         !after.quantization->per_channel();
}

double real_value(const Quantization& quantization, double q) {
  return double{quantization.scale()} * (q - quantization.zero_point());
}

// Pseudo-random values: floats in [−4, 4), so that bounded activations are met on both sides and
// inside.
Tensor make_input(const Type& type, uint64_t seed) {
  Tensor input =
      Tensor::copy_of(type.dtype, type.shape,
                      seeded_values(type.dtype, static_cast<size_t>(type.elements()), seed));
  if (type.dtype == DType::kFloat32)
    for (float& x : input.values<float>()) x *= 4;
  if (type.dtype == DType::kFloat64)
    for (double& x : input.values<double>()) x *= 4;
  return input;
}

// The real values of integers, in the dtype that the input had.
Tensor dequantized(const Tensor& integers, const Type& type, DType dtype) {
  Tensor reals(dtype, type.shape);
  const auto q = integers.values<int8_t>();
  for (size_t i = 0; i < q.size(); ++i) {
    const double real = real_value(*type.quantization, q[i]);
    if (dtype == DType::kFloat64)
      reals.values<double>()[i] = real;
    else
      reals.values<float>()[i] = static_cast<float>(real);
  }
  return reals;
}

template <class T>
std::vector<double> to_doubles(const Tensor& tensor) {
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

std::vector<double> to_doubles(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kBool:
    case DType::kUint8:
      return to_doubles<uint8_t>(tensor);
    case DType::kInt8:
      return to_doubles<int8_t>(tensor);
    case DType::kInt16:
      return to_doubles<int16_t>(tensor);
    case DType::kInt32:
      return to_doubles<int32_t>(tensor);
    case DType::kInt64:
      return to_doubles<int64_t>(tensor);
    case DType::kFloat32:
      return to_doubles<float>(tensor);
    case DType::kFloat64:
      return to_doubles<double>(tensor);
  }
  return {};
}

Result<void> compare_values(const std::vector<double>& before, const std::vector<double>& after,
                            double tolerance) {
  double greatest = 0;
  for (const double value : before)
    if (std::isfinite(value)) greatest = std::max(greatest, std::abs(value));
  for (size_t i = 0; i < before.size(); ++i) {
    const bool same = before[i] == after[i] || (std::isnan(before[i]) && std::isnan(after[i]));
    if (!same && !(std::abs(before[i] - after[i]) <= tolerance * greatest))
      return fail(DiagnosticId::kPassBrokeGraph,
                  fmt::format("element {} was {} and is {}", i, before[i], after[i]));
  }
  return {};
}

// Real value of one step of an output that is quantized or dequantized last; 0 if there is none.
double step_of(const Graph& graph, ValueId output) {
  const OpId dequantize = graph.producer_if(output, ops::kDequantize);
  const Type& type = graph.type(dequantize.valid() ? graph.op(dequantize).operands[0] : output);
  if (!type.quantized() || type.quantization->per_channel()) return 0;
  return dequantize.valid() ? type.quantization->scale() : 1;  // as codes
}

// Holds every op that became quantized against its float form on the very same operands, element by
// element: what moves or selects elements gives equal codes, everything else at most one step
// beside the float result, rounded once.
class Conversions {
 public:
  Conversions(const Module& module, const Graph& before, const Graph& after)
      : module_(module), after_(after) {
    for (const OpId op : before.ops())
      for (const ValueId result : before.op(op).results)
        if (before.type(result).quantized()) known_.insert(before.value(result).name);
  }

  void observe(ValueId id, const TensorView& tensor) {
    const Type& type = after_.type(id);
    const OpId op = after_.producer(id);
    if (status_ && op.valid() && type.quantized() && !known_.contains(after_.value(id).name))
      status_ = check(after_.op(op), type, tensor);
    if (is_real(type)) reals_[id] = real_tensor(type, tensor);
  }
  const Result<void>& status() const { return status_; }

 private:
  static bool is_real(const Type& type) { return is_float(type.dtype) || type.quantized(); }

  static Tensor real_tensor(const Type& type, const TensorView& tensor) {
    const std::vector<double> codes =
        to_doubles(Tensor::copy_of(tensor.dtype, tensor.shape, {tensor.data, tensor.bytes()}));
    Tensor reals(DType::kFloat64, type.shape);
    const size_t run =
        type.quantized() && type.quantization->per_channel()
            ? static_cast<size_t>(strides(
                  type.shape, Layout::kContiguous)[static_cast<size_t>(type.quantization->axis)])
            : 1;
    for (size_t i = 0; i < codes.size(); ++i) {
      double& real = reals.values<double>()[i];
      real = codes[i];
      if (!type.quantized()) continue;
      const Quantization& q = *type.quantization;
      const size_t channel = q.per_channel() ? i / run % q.scales.size() : 0;
      real = static_cast<double>(q.scales[channel]) * (codes[i] - q.zero_points[channel]);
    }
    return reals;
  }

  // nullptr: neither observed nor constant, as a computed index.
  const Tensor* reals_of(ValueId id) {
    const Value& value = after_.value(id);
    if (value.kind == ValueKind::kConstant && is_real(value.type) && !reals_.contains(id)) {
      const Tensor stored = Tensor::copy_of(value.type.dtype, value.type.shape,
                                            module_.constants.bytes(value.constant));
      reals_[id] = real_tensor(value.type, stored.view());
    }
    const auto at = reals_.find(id);
    return at == reals_.end() ? nullptr : &at->second;
  }

  Result<void> check(const Op& op, const Type& type, const TensorView& tensor) {
    const auto evaluate = op.def->evaluate_double;
    const bool requantizes = op.def == &ops::kRequantize;
    if ((evaluate == nullptr && !requantizes) || op.def == &ops::kQuantize ||
        op.results.size() != 1)
      return {};
    std::vector<Type> types;
    std::vector<TensorView> operands;
    for (const ValueId operand : op.operands) {
      const Tensor* reals = operand.valid() ? reals_of(operand) : nullptr;
      if (operand.valid() && reals == nullptr) return {};
      types.push_back({.dtype = DType::kFloat64,
                       .shape = operand.valid() ? after_.type(operand).shape : Shape{}});
      operands.push_back(reals != nullptr ? reals->view() : TensorView{});
    }
    std::vector<const Type*> type_of;
    for (size_t i = 0; i < types.size(); ++i)
      type_of.push_back(op.operands[i].valid() ? &types[i] : nullptr);
    const Type result{.dtype = DType::kFloat64, .shape = type.shape};
    const Type* const results[] = {&result};
    Tensor wanted(DType::kFloat64, type.shape);
    if (requantizes) {
      wanted =
          Tensor::copy_of(DType::kFloat64, type.shape, {operands[0].data, operands[0].bytes()});
    } else {
      evaluate({op.def, type_of, &op.attributes, results}, operands, {&wanted.view(), 1});
    }
    const Quantization& q = *type.quantization;
    const bool interpolates = op.def == &ops::kUpsampleBilinear2d;
    const bool selects =
        op.def->has_trait(kMovesData) || (op.def->has_trait(kKeepsQuantization) && !interpolates);
    const int allowed = selects ? 0 : kQuantizedSteps;
    for (size_t i = 0; i < tensor.values<int8_t>().size(); ++i) {
      const double real = wanted.values<double>()[i];
      if (std::isnan(real))
        continue;  // where a function is not defined, a table has the value beside it
      const double code =
          std::clamp(std::nearbyint(real / static_cast<double>(q.scale())) + q.zero_point(),
                     static_cast<double>(q.qmin), static_cast<double>(q.qmax));
      if (std::abs(tensor.values<int8_t>()[i] - code) > allowed)
        return fail(
            DiagnosticId::kPassBrokeGraph,
            fmt::format("`{}`, {} of int8: element {} is code {}, the float operator gives {}",
                        after_.value(op.results[0]).name, op.def->name, i,
                        tensor.values<int8_t>()[i], code));
    }
    return {};
  }

  const Module& module_;
  const Graph& after_;
  std::set<std::string> known_;  // values that were quantized before
  std::map<ValueId, Tensor> reals_;
  Result<void> status_;
};

// Whether an output is the place of an extreme. Between two values that are a rounding apart either
// place is right, and places have no distance: where a conversion rounds the operand anew,
// `Conversions` holds that operand instead, on the operands of its own op.
bool is_place_of_extreme(const Graph& graph, ValueId output) {
  return graph.producer_if(output, ops::kArgmax).valid() ||
         graph.producer_if(output, ops::kArgmin).valid();
}

Result<void> compare_quantized(const std::vector<double>& before, const std::vector<double>& after,
                               double step) {
  const auto near = [&](double a, double b) { return std::abs(a - b) <= kQuantizedSteps * step; };
  if (std::equal(before.begin(), before.end(), after.begin(), near)) return {};
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    signal += before[i] * before[i];
    noise += (before[i] - after[i]) * (before[i] - after[i]);
  }
  const double sqnr = 10 * std::log10(signal / noise);
  if (noise == 0 || sqnr >= kMinQuantizedSqnr) return {};
  return fail(
      DiagnosticId::kPassBrokeGraph,
      fmt::format("signal-to-noise ratio {:.1f} dB is below {} dB", sqnr, kMinQuantizedSqnr));
}

}  // namespace

Result<SemanticsChecker> SemanticsChecker::start(const Module& module, const Graph& graph,
                                                 uint64_t seed) {
  SemanticsChecker checker;
  checker.graph_ = graph;
  for (const ValueId id : graph.inputs())
    checker.inputs_.push_back(make_input(graph.type(id), seed++));
  checker.seed_ = seed;
  checker.integers_.resize(checker.inputs_.size());
  DTR_ASSIGN(checker.outputs_, checker.evaluate(module, graph));
  return checker;
}

Result<std::vector<Tensor>> SemanticsChecker::evaluate(const Module& module, const Graph& graph,
                                                       const ValueObserver& observer) const {
  std::vector<TensorView> views;
  for (size_t i = 0; i < inputs_.size(); ++i)
    views.push_back(graph.type(graph.inputs()[i]).dtype == inputs_[i].dtype()
                        ? inputs_[i].view()
                        : integers_[i].view());
  return make_reference_executor(module, graph, Precision::kDouble)->run(views, observer);
}

Result<void> SemanticsChecker::adapt_inputs(const Module& module, const Graph& after) {
  bool changed = false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Type& type = after.type(after.inputs()[i]);
    const Type& was = graph_.type(graph_.inputs()[i]);
    if (type.shape != was.shape || (type.dtype != was.dtype && !became_integer(was, type)))
      return fail(DiagnosticId::kPassBrokeGraph,
                  fmt::format("dtype or shape of input {} changed", i));
    if (type.dtype == was.dtype || integers_[i].view().data != nullptr) continue;
    integers_[i] = make_input(type, seed_++);
    inputs_[i] = dequantized(integers_[i], type, was.dtype);
    changed = true;
  }
  if (changed) {
    DTR_ASSIGN(outputs_, evaluate(module, graph_));
  }
  return {};
}

Result<void> SemanticsChecker::compare(const Module& module, const Graph& after,
                                       Exactness exactness) {
  if (graph_.inputs().size() != after.inputs().size() ||
      graph_.outputs().size() != after.outputs().size())
    return fail(DiagnosticId::kPassBrokeGraph, "the number of inputs or outputs changed");
  DTR_TRY(adapt_inputs(module, after));
  Conversions conversions(module, graph_, after);
  const bool converts = exactness == Exactness::kQuantization;
  DTR_ASSIGN(latest_,
             evaluate(module, after,
                      converts ? [&](ValueId id,
                                     const TensorView& tensor) { conversions.observe(id, tensor); }
                               : ValueObserver{}));
  if (converts) DTR_TRY(conversions.status());
  for (size_t i = 0; i < latest_.size(); ++i) {
    const Type& was = graph_.type(graph_.outputs()[i]);
    const Type& is = after.type(after.outputs()[i]);
    const auto at_output = [&](std::string_view reason) {
      return fail(
          DiagnosticId::kPassBrokeGraph,
          fmt::format("output {} (`{}`): {}", i, graph_.value(graph_.outputs()[i]).name, reason));
    };
    const bool integer = became_integer(was, is);
    if ((was.dtype != is.dtype && !integer) || was.shape != is.shape)
      return at_output("dtype or shape changed");
    if (converts && is_place_of_extreme(after, after.outputs()[i])) continue;
    const std::vector<double> a = to_doubles(outputs_[i]);
    std::vector<double> b = to_doubles(latest_[i]);
    if (integer)
      for (double& q : b) q = real_value(*is.quantization, q);
    const Result<void> same =
        converts ? compare_quantized(a, b, step_of(after, after.outputs()[i]))
                 : compare_values(a, b, exactness == Exactness::kExact ? 0.0 : kFloatTolerance);
    if (!same) return at_output(same.error().reason);
  }
  return {};
}

Result<void> SemanticsChecker::step(const Module& module, const Graph& after, Exactness exactness) {
  DTR_TRY(compare(module, after, exactness));
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (after.type(after.inputs()[i]).dtype != inputs_[i].dtype())
      inputs_[i] = std::move(integers_[i]);
  graph_ = after;
  outputs_ = std::move(latest_);
  return {};
}

}  // namespace dtr
