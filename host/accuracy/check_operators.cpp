#include "host/accuracy/check_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compiler/executors/executor.h"
#include "compiler/executors/stream.h"
#include "compiler/ir/reorder.h"
#include "compiler/ops/ops.h"
#include "compiler/support/cancellation.h"
#include "host/accuracy/compare.h"

namespace dtr {
namespace {

constexpr double kRounding = 0x1p-24;    // of one operation of float32
constexpr double kTolerance = 0x1p-20;   // of a result
constexpr double kPerturbed = 0x1p-22;   // of an operand
constexpr double kUnderflow = 0x1p-126;  // below it float32 loses digits, or all of them

Tensor to_double(const TensorView& from) {
  Tensor to(DType::kFloat64, from.shape);
  std::ranges::copy(from.values<float>(), to.values<double>().begin());
  return to;
}

Tensor copy(const TensorView& view) {
  return Tensor::copy_of(view.dtype, view.shape, {view.data, view.bytes()});
}

// A sign for element `i`, of some pattern of signs: all alike, alternating, and two without order.
double sign_of(size_t i, size_t pattern) {
  if (pattern == 0) return 1;
  if (pattern == 1) return i % 2 == 0 ? 1 : -1;
  const uint64_t mixed = (i + 1) * (pattern == 2 ? 0x9e3779b97f4a7c15 : 0xd1342543de82ef95);
  return (mixed >> 61 & 1) == 0 ? 1 : -1;
}

bool adds_products(const OpDef* def) {
  const std::array sums{&ops::kConvolution,
                        &ops::kLinear,
                        &ops::kMatmul,
                        &ops::kMeanDim,
                        &ops::kSumDim,
                        &ops::kAvgPool2d,
                        &ops::kAdaptiveAvgPool2d,
                        &ops::kUpsampleBilinear2d};
  return std::ranges::find(sums, def) != sums.end();
}

// One float operator on the operands of a run: what float32 may do to its result.
class FloatOp {
 public:
  FloatOp(const OpView& view, std::vector<TensorView> operands)
      : view_(view), operands_(std::move(operands)) {
    for (const TensorView& operand : operands_) {
      owned_.push_back(operand.data != nullptr && operand.dtype == DType::kFloat32
                           ? to_double(operand)
                           : Tensor());
      doubles_.push_back(owned_.back().view().data != nullptr ? owned_.back().view() : operand);
    }
  }

  // Result 0 in double, or of its own type if that is no float.
  Tensor exact() const { return evaluated(doubles_); }

  // Result 0 in float32 arithmetic.
  Tensor in_float() const {
    Tensor result(view_.result().dtype, view_.result().shape);
    view_.def->evaluate_float(view_, operands_, {&result.view(), 1});
    return result;
  }

  // What each element may be off.
  std::vector<double> bounds(const Tensor& exact) const {
    return adds_products(view_.def) && view_.attributes->find("activation") == nullptr
               ? bounds_of_sum()
               : bounds_by_condition(exact);
  }

 private:
  Tensor evaluated(std::span<const TensorView> operands) const {
    const Type& type = view_.result();
    Tensor result(type.dtype == DType::kFloat32 ? DType::kFloat64 : type.dtype, type.shape);
    view_.def->evaluate_double(view_, operands, {&result.view(), 1});
    return result;
  }

  std::vector<double> bounds_of_sum() const {
    std::vector<Tensor> magnitudes;
    std::vector<TensorView> views = doubles_;
    for (size_t k = 0; k < doubles_.size(); ++k) {
      if (owned_[k].view().data == nullptr) continue;
      magnitudes.push_back(copy(doubles_[k]));
      for (double& x : magnitudes.back().values<double>()) x = std::abs(x);
      views[k] = magnitudes.back().view();
    }
    const Tensor sums = evaluated(views);
    const auto results = static_cast<double>(std::max<int64_t>(sums.elements(), 1));
    const double products =
        view_.def->macs == nullptr ? 0 : static_cast<double>(view_.def->macs(view_)) / results;
    const double terms =
        std::max(products, static_cast<double>(view_.operand(0).elements()) / results);
    std::vector<double> bounds;
    for (const double sum : sums.values<double>())
      bounds.push_back((16 + std::sqrt(terms)) * kRounding * sum + terms * kUnderflow);
    if (view_.def == &ops::kUpsampleBilinear2d) add_rounded_places(bounds);
    return bounds;
  }

  // The place that a bilinear element reads is rounded too, by up to the image's extent: towards a
  // neighbour that may be far larger than the element.
  void add_rounded_places(std::vector<double>& bounds) const {
    const Shape& shape = view_.operand(0).shape;
    const int64_t height = shape[2], width = shape[3];
    Tensor around = copy(doubles_[0]);  // the greatest magnitude of each pixel and those next to it
    const double* x = doubles_[0].values<double>().data();
    for (double& greatest : around.values<double>()) {
      const int64_t at = &greatest - around.values<double>().data();
      const int64_t row = at / width % height, column = at % width,
                    plane = at - row * width - column;
      greatest = 0;
      for (int64_t i = std::max<int64_t>(row - 1, 0); i <= std::min(row + 1, height - 1); ++i)
        for (int64_t j = std::max<int64_t>(column - 1, 0); j <= std::min(column + 1, width - 1);
             ++j)
          greatest = std::max(greatest, std::abs(x[plane + i * width + j]));
    }
    std::vector<TensorView> views = doubles_;
    views[0] = around.view();
    const Tensor greatest = evaluated(views);
    const auto values = greatest.values<double>();
    for (size_t i = 0; i < bounds.size(); ++i)
      bounds[i] += 2 * kRounding * static_cast<double>(height + width) * values[i];
  }

  std::vector<double> bounds_by_condition(const Tensor& exact) const {
    const auto y = exact.values<double>();
    const bool elementwise = view_.def->has_trait(kElementwise);
    double largest = 0;
    for (const double value : y)
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    std::vector<double> bounds(y.size(), kTolerance * largest + kUnderflow);
    if (elementwise)
      for (size_t i = 0; i < y.size(); ++i)
        if (std::isfinite(y[i]))
          bounds[i] = kTolerance * std::max(std::abs(y[i]), std::min(largest, 1.0)) + kUnderflow;
    for (size_t k = 0; k < doubles_.size(); ++k) {
      if (owned_[k].view().data == nullptr) continue;
      const std::vector<double> changes = changes_by(k, y, elementwise);
      const double most = changes.empty() ? 0 : std::ranges::max(changes);
      for (size_t i = 0; i < y.size(); ++i) bounds[i] += elementwise ? 2 * changes[i] : 4 * most;
    }
    return bounds;
  }

  // How far each result moves, at most, when operand `k` is off by kPerturbed.
  std::vector<double> changes_by(size_t k, std::span<const double> y, bool elementwise) const {
    std::vector<double> changes(y.size(), 0.0);
    for (size_t pattern = 0; pattern < (elementwise ? 1U : 4U); ++pattern)
      for (const double direction : {1.0, -1.0}) {
        Tensor moved = copy(doubles_[k]);
        const auto x = moved.values<double>();
        for (size_t i = 0; i < x.size(); ++i)
          x[i] *= 1 + direction * kPerturbed * sign_of(i, pattern);
        std::vector<TensorView> views = doubles_;
        views[k] = moved.view();
        const Tensor result = evaluated(views);
        const auto z = result.values<double>();
        for (size_t i = 0; i < y.size(); ++i)
          if (const double change = std::abs(z[i] - y[i]); std::isfinite(change))
            changes[i] = std::max(changes[i], change);
      }
    return changes;
  }

  const OpView& view_;
  std::vector<TensorView> operands_;
  std::vector<Tensor> owned_;  // of float operands, in double
  std::vector<TensorView> doubles_;
};

// Whether float32 may have made `actual` of what is `exact`, off by up to `bound`.
bool may_be(double exact, float actual, double bound) {
  const auto wide = static_cast<double>(actual);
  if (static_cast<float>(exact) == actual || (std::isnan(exact) && std::isnan(actual))) return true;
  if (std::isinf(actual))
    return std::signbit(exact) == std::signbit(wide) &&
           std::abs(exact) + bound >= std::numeric_limits<float>::max();
  return std::abs(wide - exact) <= bound;
}

class OperatorCheck {
 public:
  OperatorCheck(const Module& module, const Graph& graph)
      : module_(module), graph_(graph), values_(graph.value_slots()) {}

  // What the program has of the graph's values, taken as soon as they are there.
  Result<std::vector<Tensor>> run(Session& session, std::span<const TensorView> inputs,
                                  std::span<const ProgramValue> places) {
    RunHooks hooks;
    hooks.after_instruction = [&](uint32_t instruction, const runtime::Method& method) {
      auto place = std::ranges::lower_bound(places, instruction, {}, &ProgramValue::instruction);
      for (; place != places.end() && place->instruction == instruction; ++place)
        take(*place, method);
    };
    for (size_t i = 0; i < inputs.size(); ++i) values_[graph_.inputs()[i].index] = copy(inputs[i]);
    const std::vector<Tensor> states = initial_states(module_, graph_);
    for (size_t i = 0; i < states.size(); ++i)
      values_[graph_.state(i).index] = copy(states[i].view());
    session.reset();
    return session.run(inputs, nullptr, hooks);
  }

  std::optional<std::string> judge(std::span<const Tensor> outputs) {
    for (const OpId id : graph_.ops()) {
      check_cancelled();
      if (std::optional<std::string> difference = judge(id)) return difference;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId output = graph_.outputs()[i];
      const TensorView view = value(output);
      if (view.data == nullptr || view.dtype != outputs[i].dtype() ||
          view.bytes() != outputs[i].bytes().size())
        continue;
      if (!std::ranges::equal(std::span<const std::byte>(view.data, view.bytes()),
                              outputs[i].bytes()))
        return fmt::format("output {}, `{}`, was changed after it was computed", i,
                           graph_.value(output).name);
    }
    return std::nullopt;
  }

 private:
  void take(const ProgramValue& place, const runtime::Method& method) {
    if (place.value.index >= graph_.value_slots() || place.index < 0) return;
    const Value& value = graph_.value(place.value);
    const runtime::Value* stored = method.value(static_cast<size_t>(place.index));
    if (value.kind != ValueKind::kResult || stored == nullptr ||
        stored->kind != runtime::ValueKind::kTensor)
      return;
    if (stored->tensor.data == nullptr ||
        stored->tensor.bytes() != static_cast<size_t>(value.type.bytes()))
      return;
    Tensor tensor(value.type.dtype, value.type.shape);
    to_logical(value.type, stored->tensor.data, tensor.view().data);
    values_[place.value.index] = std::move(tensor);
  }

  TensorView value(ValueId id) const {
    if (!id.valid()) return {};
    const Value& value = graph_.value(id);
    if (value.kind != ValueKind::kConstant) return values_[id.index].view();
    // Evaluation reads operands only, so that the pool's memory may be viewed as a tensor.
    return {value.type.dtype, value.type.shape,
            const_cast<std::byte*>(module_.constants.bytes(value.constant).data())};
  }

  std::optional<std::string> judge(OpId id) {
    const Op& op = graph_.op(id);
    const BoundOpView view(graph_, id);
    std::vector<TensorView> operands;
    for (const ValueId operand : op.operands) {
      operands.push_back(value(operand));
      if (operand.valid() && operands.back().data == nullptr && graph_.type(operand).bytes() > 0)
        return {};
    }
    const auto integer = [&](ValueId operand) {
      return operand.valid() && graph_.type(operand).quantized() &&
             !is_float(graph_.type(operand).dtype);
    };
    const bool in_integers =
        (!op.operands.empty() && integer(op.operands[0])) || integer(op.results[0]);
    // What has several results, or no evaluation, is judged by the operators behind it.
    if (op.results.size() != 1 ||
        (in_integers ? op.def->evaluate_integer == nullptr : op.def->evaluate_double == nullptr))
      return {};
    if (in_integers) return judge_integer(id, *view, operands);
    return judge_float(id, FloatOp(*view, std::move(operands)));
  }

  std::optional<std::string> judge_integer(OpId id, const OpView& view,
                                           std::span<const TensorView> operands) {
    Tensor expected(view.result().dtype, view.result().shape);
    view.def->evaluate_integer(view, operands, {&expected.view(), 1});
    Tensor& actual = values_[graph_.op(id).results[0].index];
    if (actual.view().data == nullptr) {
      actual = std::move(expected);
      return std::nullopt;
    }
    if (expected.dtype() != DType::kFloat32) return unequal(id, expected, actual);
    const auto e = std::as_const(expected).values<float>();
    const auto a = std::as_const(actual).values<float>();
    for (size_t i = 0; i < e.size(); ++i)  // dequantized: one rounding
      if (const auto exact = static_cast<double>(e[i]);
          !may_be(exact, a[i], 4 * kRounding * std::abs(exact) + kUnderflow))
        return described(id, i, exact, static_cast<double>(a[i]), 4 * kRounding * std::abs(exact));
    return std::nullopt;
  }

  std::optional<std::string> judge_float(OpId id, const FloatOp& op) {
    Tensor exact = op.exact();
    Tensor& actual = values_[graph_.op(id).results[0].index];
    if (actual.view().data == nullptr) {
      actual = exact.dtype() == DType::kFloat64
                   ? real_values(exact.view(), graph_.type(graph_.op(id).results[0]))
                   : std::move(exact);
      return std::nullopt;
    }
    if (exact.dtype() != DType::kFloat64) return unequal(id, exact, actual);
    const auto e = std::as_const(exact).values<double>();
    const auto a = std::as_const(actual).values<float>();
    const auto good = [&](size_t i, double bound) { return may_be(e[i], a[i], bound); };
    size_t first = 0;
    while (first < e.size() && good(first, 0)) ++first;
    if (first == e.size()) return std::nullopt;
    if (graph_.op(id).def->has_trait(kMovesData))
      return described(id, first, e[first], static_cast<double>(a[first]), 0);
    const std::vector<double> bounds = op.bounds(exact);
    std::optional<Tensor> in_float;
    for (size_t i = first; i < e.size(); ++i) {
      if (good(i, bounds[i])) continue;
      // What overflows on the way to a finite result does so in any float32.
      if (!in_float) in_float = op.in_float();
      const float again = std::as_const(*in_float).values<float>()[i];
      const bool same = again == a[i] || (std::isnan(again) && std::isnan(a[i]));
      if (same && !(std::isfinite(again) && std::isfinite(e[i]) &&
                    std::abs(e[i]) <= std::numeric_limits<float>::max()))
        continue;
      return described(id, i, e[i], static_cast<double>(a[i]), bounds[i]);
    }
    return std::nullopt;
  }

  std::optional<std::string> unequal(OpId id, const Tensor& expected, const Tensor& actual) const {
    Comparison comparison(1);
    comparison.add(expected.view(), actual.view());
    if (comparison.different() == 0) return std::nullopt;
    return described(id, static_cast<size_t>(comparison.index()), comparison.expected(),
                     comparison.actual(), 0);
  }

  std::string described(OpId id, size_t index, double expected, double actual, double bound) const {
    const Op& op = graph_.op(id);
    return fmt::format("`{}`, {}: element {} is {}, its operands give {}{}",
                       graph_.value(op.results[0]).name, op.def->name, index, actual, expected,
                       bound == 0 ? "" : fmt::format(" and float32 leaves up to {:.3g}", bound));
  }

  const Module& module_;
  const Graph& graph_;
  std::vector<Tensor> values_;  // by value slot; as the program has them, or as the reference
                                // computes them from those
};

// A number in [-1, 1] that looks random.
double noise(uint64_t seed, uint64_t i) {
  uint64_t x = (seed << 32 ^ i) * 0x9e3779b97f4a7c15;
  x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9;
  return static_cast<double>((x ^ x >> 32) >> 11) * 0x1p-52 - 1;
}

// Real values of the outputs, in double arithmetic; with a seed, every float that an operator
// computes is off by up to kPerturbed.
Result<std::vector<Tensor>> outputs_in_double(const Module& module, const Graph& graph,
                                              std::span<const TensorView> inputs, uint64_t seed) {
  const std::unique_ptr<Executor> executor =
      make_stream(module, graph, make_reference_executor(module, graph, Precision::kDouble));
  uint64_t count = 0;
  const ValueObserver perturb = [&](ValueId id, const TensorView& tensor) {
    if (seed == 0 || tensor.dtype != DType::kFloat64 || graph.value(id).kind != ValueKind::kResult)
      return;
    for (double& x : tensor.values<double>()) x *= 1 + kPerturbed * noise(seed, ++count);
  };
  DTR_ASSIGN(std::vector<Tensor> outputs, executor->run(inputs, perturb));
  for (size_t i = 0; i < outputs.size(); ++i)
    outputs[i] = real_values(outputs[i].view(), graph.type(graph.outputs()[i]));
  return outputs;
}

}  // namespace

Result<std::optional<std::string>> check_operators(const Module& module, const Graph& graph,
                                                   Session& session,
                                                   std::span<const TensorView> inputs,
                                                   std::span<const ProgramValue> values) {
  OperatorCheck check(module, graph);
  DTR_ASSIGN(const std::vector<Tensor> outputs, check.run(session, inputs, values));
  return check.judge(outputs);
}

Result<bool> agree_in_double(const Module& module, const Graph& a,
                             std::span<const TensorView> inputs_of_a, const Graph& b,
                             std::span<const TensorView> inputs_of_b) {
  constexpr double kFactor = 64;
  constexpr uint64_t kRuns = 4;  // that none of them moves an output by 1/64 of what it usually
                                 // does has a chance of 1 to 10^7
  DTR_ASSIGN(const std::vector<Tensor> expected, outputs_in_double(module, a, inputs_of_a, 0));
  DTR_ASSIGN(const std::vector<Tensor> actual, outputs_in_double(module, b, inputs_of_b, 0));
  std::vector<std::vector<Tensor>> moved;
  for (uint64_t seed = 1; seed <= kRuns; ++seed) {
    DTR_ASSIGN(std::vector<Tensor> outputs, outputs_in_double(module, a, inputs_of_a, seed));
    moved.push_back(std::move(outputs));
  }
  for (size_t output = 0; output < expected.size(); ++output) {
    const auto e = expected[output].values<float>();
    const auto x = actual[output].values<float>();
    const double floor = compare(expected[output].view(), actual[output].view()).rounding_bound;
    for (size_t i = 0; i < e.size(); ++i) {
      double most = 0;
      for (const std::vector<Tensor>& outputs : moved) {
        const double change = std::abs(static_cast<double>(outputs[output].values<float>()[i]) -
                                       static_cast<double>(e[i]));
        if (std::isfinite(change)) most = std::max(most, change);
      }
      if (!may_be(static_cast<double>(e[i]), x[i], floor + kFactor * most)) return false;
    }
  }
  return true;
}

}  // namespace dtr
