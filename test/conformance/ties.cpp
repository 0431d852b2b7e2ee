#include "test/conformance/ties.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "compiler/executors/executor.h"
#include "compiler/ir/rewriter.h"
#include "compiler/ops/ops.h"

namespace dtr::conformance {
namespace {

// Steps within which float32 does not tell a tie from its neighbours: PyTorch's rounding of a few
// operations on up to 2^8 of them.
constexpr double kTie = 0x1p-14;
// A weight is rounded to 1/1024.
constexpr double kHalfWeight = 0x1p-11;

// What a quantization reads and rounds to.
struct Rounding {
  ValueId real;
  Quantization quantization;
};

// The last one before a value, if it has one scale.
std::optional<Rounding> rounding_of(const Graph& graph, ValueId value) {
  if (const OpId op = graph.producer_if(value, ops::kDequantize); op.valid())
    value = graph.op(op).operands[0];
  const OpId op = graph.producer_if(value, ops::kQuantize);
  if (!op.valid() || graph.type(value).quantization->per_channel()) return std::nullopt;
  return Rounding{graph.op(op).operands[0], *graph.type(value).quantization};
}

// Operators that pick elements: rounding in front of them is rounding behind them.
bool picks(const Op& op) {
  return op.def->has_trait(kMovesData) || op.def == &ops::kMaxPool2d || op.def == &ops::kRelu;
}

// Takes away equal roundings in front of the last one; what it then reads.
ValueId without_equal_roundings(Graph& graph, const Rounding& last) {
  Rewriter rewriter(graph);
  ValueId real = last.real;
  for (ValueId value = real; graph.producer(value).valid();) {
    const Op& op = graph.op(graph.producer(value));
    if (picks(op)) {
      value = op.operands[0];
      continue;
    }
    const std::optional<Rounding> before =
        op.def == &ops::kDequantize ? rounding_of(graph, value) : std::nullopt;
    if (!before || before->quantization != last.quantization) break;
    if (value == real) {
      real = before->real;
    } else {
      rewriter.replace_uses(value, before->real);
    }
    value = before->real;
  }
  return real;
}

// Rows or columns of the input on both sides of an output's, as PyTorch places them.
std::array<int64_t, 2> neighbours(int64_t at, int64_t in, int64_t out, double factor,
                                  bool corners) {
  const double step =
      corners      ? (out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0)
      : factor > 0 ? 1 / factor
                   : static_cast<double>(in) / static_cast<double>(out);
  const double position = corners ? static_cast<double>(at) * step
                                  : std::max((static_cast<double>(at) + 0.5) * step - 0.5, 0.0);
  const auto lower = std::min(static_cast<int64_t>(position), in - 1);
  return {lower, std::min(lower + 1, in - 1)};
}

// Two weights, of a row and of a column, weigh differences of four neighbours.
std::vector<double> error_of_weights(const Op& op, const TensorView& input, const Shape& shape,
                                     double scale) {
  const Floats factors = op.attributes.get_or("scales", Floats{0, 0});
  const bool corners = op.attributes.get_or("align_corners", false);
  const int64_t in_height = input.shape[2], in_width = input.shape[3];
  const int64_t out_height = shape[2], out_width = shape[3];
  const auto values = input.values<double>();
  std::vector<double> error;
  for (int64_t plane = 0; plane < shape[0] * shape[1]; ++plane)
    for (int64_t y = 0; y < out_height; ++y)
      for (int64_t x = 0; x < out_width; ++x) {
        double low = INFINITY, high = -INFINITY;
        for (const int64_t row : neighbours(y, in_height, out_height, factors[0], corners))
          for (const int64_t column : neighbours(x, in_width, out_width, factors[1], corners)) {
            const double value =
                values[static_cast<size_t>((plane * in_height + row) * in_width + column)];
            low = std::min(low, value);
            high = std::max(high, value);
          }
        error.push_back(2 * kHalfWeight * (high - low) / scale);
      }
  return error;
}

}  // namespace

Result<std::vector<RealSteps>> real_steps(const Module& module, Graph graph, size_t output,
                                          const Samples& samples) {
  std::vector<RealSteps> found;
  const std::optional<Rounding> last = rounding_of(graph, graph.outputs()[output]);
  if (!last) return found;
  const ValueId real = without_equal_roundings(graph, *last);
  const auto scale = static_cast<double>(last->quantization.scale());
  const OpId resize = graph.producer_if(real, ops::kUpsampleBilinear2d);
  const auto executor = make_reference_executor(module, graph, Precision::kDouble);
  for (size_t i = 0; i < samples.size(); ++i) {
    RealSteps& sample = found.emplace_back();
    DTR_TRY(executor->run(samples.inputs(i), [&](ValueId id, const TensorView& seen) {
      if (resize.valid() && id == graph.op(resize).operands[0])
        sample.error = error_of_weights(graph.op(resize), seen, graph.type(real).shape, scale);
      if (id != real) return;
      for (const double each : seen.values<double>()) sample.steps.push_back(each / scale);
    }));
  }
  return found;
}

Tensor without_ties(const TensorView& expected, const TensorView& actual, const RealSteps& real,
                    double step, uint64_t& ties) {
  Tensor result = Tensor::copy_of(actual.dtype, actual.shape, {actual.data, actual.bytes()});
  if (expected.dtype != DType::kFloat32 || expected.shape != actual.shape) return result;
  const auto wanted = expected.values<float>();
  const auto own = result.values<float>();
  for (size_t i = 0; i < own.size() && i < real.steps.size(); ++i) {
    const double error = kTie + (i < real.error.size() ? real.error[i] : 0);
    const auto is_nearest = [&](float value, double beyond) {
      return std::abs(static_cast<double>(value) / step - real.steps[i]) < 0.5 + beyond;
    };
    if (own[i] == wanted[i] || !is_nearest(own[i], error) || !is_nearest(wanted[i], kTie)) continue;
    own[i] = wanted[i];
    ++ties;
  }
  return result;
}

}  // namespace dtr::conformance
