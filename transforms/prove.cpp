// The judge of passes: a graph before and after, evaluated in double on the same inputs.
#include <fmt/format.h>

#include <cmath>

#include "ir/parser.h"
#include "ops/executor.h"
#include "transforms/pass_manager.h"

namespace dtr {
namespace {

constexpr double kFloatTolerance = 0x1p-20;
constexpr double kMinQuantizedSqnr = 20;  // dB

// Pseudo-random inputs: floats in [−4, 4), so that bounded activations are met on both sides and inside.
std::vector<Tensor> make_inputs(const Graph& graph, uint64_t seed) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs()) {
    const Type& type = graph.type(id);
    const auto elements = static_cast<size_t>(type.elements());
    inputs.push_back(Tensor::copy_of(type.dtype, type.shape, seeded_values(type.dtype, elements, seed++)));
    if (type.dtype == DType::kFloat32)
      for (float& x : inputs.back().values<float>()) x *= 4;
    if (type.dtype == DType::kFloat64)
      for (double& x : inputs.back().values<double>()) x *= 4;
  }
  return inputs;
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

Status compare_values(const std::vector<double>& before, const std::vector<double>& after, double tolerance) {
  double greatest = 0;
  for (const double value : before)
    if (std::isfinite(value)) greatest = std::max(greatest, std::abs(value));
  for (size_t i = 0; i < before.size(); ++i) {
    const bool same = before[i] == after[i] || (std::isnan(before[i]) && std::isnan(after[i]));
    if (!same && !(std::abs(before[i] - after[i]) <= tolerance * greatest))
      return fail(DiagnosticId::kPassBrokeGraph, fmt::format("element {} was {} and is {}", i, before[i], after[i]));
  }
  return {};
}

Status compare_sqnr(const std::vector<double>& before, const std::vector<double>& after) {
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    signal += before[i] * before[i];
    noise += (before[i] - after[i]) * (before[i] - after[i]);
  }
  const double sqnr = 10 * std::log10(signal / noise);
  if (noise == 0 || sqnr >= kMinQuantizedSqnr) return {};
  return fail(DiagnosticId::kPassBrokeGraph, fmt::format("signal-to-noise ratio {:.1f} dB is below {} dB", sqnr, kMinQuantizedSqnr));
}

}  // namespace

Status prove(const Program& program, const Graph& before, const Graph& after, Exactness exactness, uint64_t seed) {
  if (before.inputs().size() != after.inputs().size() || before.outputs().size() != after.outputs().size())
    return fail(DiagnosticId::kPassBrokeGraph, "the number of inputs or outputs changed");
  const std::vector<Tensor> inputs = make_inputs(before, seed);
  std::vector<TensorView> views;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& type = after.type(after.inputs()[i]);
    if (type.dtype != inputs[i].dtype() || type.shape != inputs[i].shape())
      return fail(DiagnosticId::kPassBrokeGraph, fmt::format("dtype or shape of input {} changed", i));
    views.push_back(inputs[i].view());
  }
  DTR_ASSIGN(const std::vector<Tensor> was, make_reference_executor(program, before, Precision::kDouble)->run(views));
  DTR_ASSIGN(const std::vector<Tensor> is, make_reference_executor(program, after, Precision::kDouble)->run(views));
  for (size_t i = 0; i < was.size(); ++i) {
    const auto at_output = [&](std::string_view reason) {
      return fail(DiagnosticId::kPassBrokeGraph, fmt::format("output {} (`{}`): {}", i, before.value(before.outputs()[i]).name, reason));
    };
    if (was[i].dtype() != is[i].dtype() || was[i].shape() != is[i].shape()) return at_output("dtype or shape changed");
    const std::vector<double> a = to_doubles(was[i]);
    const std::vector<double> b = to_doubles(is[i]);
    const Status same = exactness == Exactness::kQuantization
                            ? compare_sqnr(a, b)
                            : compare_values(a, b, exactness == Exactness::kExact ? 0.0 : kFloatTolerance);
    if (!same) return at_output(same.error().reason);
  }
  return {};
}

}  // namespace dtr
