#include "compiler/quantizer/round_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "compiler/executors/executor.h"
#include "compiler/executors/stream.h"
#include "compiler/ir/rewriter.h"
#include "compiler/ops/convolution.h"
#include "compiler/ops/ops.h"
#include "compiler/support/thread_pool.h"
#include "device/numerics/requantize.h"

namespace dtr {
namespace {

constexpr double kDamping = 0.01;

// Rows of a layer's operand as its weights see it, of one group: code less zero point, 0 in the
// padding. Row k has `positions` elements, a column of the product.
struct Columns {
  size_t rows = 0, positions = 0;
  std::vector<int16_t> codes;
  std::span<const int16_t> row(size_t k) const {
    return std::span(codes).subspan(k * positions, positions);
  }
};

// Exact for up to 2^15 positions: codes are less than 2^8 in magnitude.
int32_t dot(std::span<const int16_t> a, std::span<const int16_t> b) {
  int32_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += int32_t{a[i]} * b[i];
  return sum;
}

int64_t total(std::span<const int16_t> a) {
  return std::accumulate(a.begin(), a.end(), int64_t{0});
}

// What the rows of a group share: their moments, and the order in which weights are rounded.
struct Moments {
  size_t size = 0;
  std::vector<double> mean;    // of the columns
  std::vector<double> matrix;  // H, or the covariance
  std::vector<size_t> order;   // by descending diagonal
  std::vector<double> factor;  // upper Cholesky factor of the damped inverse, in that order
  double h(size_t i, size_t j) const { return matrix[i * size + j]; }
};

// Replaces a symmetric positive definite matrix by its lower Cholesky factor; the upper triangle is
// not used. False if it is not positive definite.
bool cholesky(std::vector<double>& a, size_t n) {
  for (size_t j = 0; j < n; ++j) {
    double* const row = &a[j * n];
    for (size_t k = 0; k < j; ++k) {
      const double* const other = &a[k * n];
      double sum = row[k];
      for (size_t i = 0; i < k; ++i) sum -= row[i] * other[i];
      row[k] = sum / other[k];
    }
    double diagonal = row[j];
    for (size_t i = 0; i < j; ++i) diagonal -= row[i] * row[i];
    if (!(diagonal > 0)) return false;
    row[j] = std::sqrt(diagonal);
  }
  return true;
}

// The upper factor U of A⁻¹ = UᵀU from A. With P the reversal of rows, PAP = LLᵀ gives
// U = P L⁻¹ P, which is upper triangular.
std::optional<std::vector<double>> inverse_factor(const std::vector<double>& a, size_t n) {
  std::vector<double> lower(n * n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j <= i; ++j) lower[i * n + j] = a[(n - 1 - i) * n + (n - 1 - j)];
  if (!cholesky(lower, n)) return std::nullopt;
  // Rows of L⁻¹: X[i] = (e_i − Σ_{k<i} L[i][k] · X[k]) / L[i][i].
  std::vector<double> inverse(n * n);
  for (size_t i = 0; i < n; ++i) {
    double* const row = &inverse[i * n];
    row[i] = 1;
    for (size_t k = 0; k < i; ++k) {
      const double value = lower[i * n + k];
      if (value == 0) continue;
      const double* const other = &inverse[k * n];
      for (size_t j = 0; j <= k; ++j) row[j] -= value * other[j];
    }
    for (size_t j = 0; j <= i; ++j) row[j] /= lower[i * n + i];
  }
  std::vector<double> upper(n * n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i; j < n; ++j) upper[i * n + j] = inverse[(n - 1 - i) * n + (n - 1 - j)];
  return upper;
}

// Only the mean, if the operand is the same on all samples.
Moments moments_of(const Columns& columns, bool centered, unsigned threads) {
  Moments moments{.size = columns.rows};
  const size_t n = columns.rows;
  const auto count = static_cast<double>(std::max<size_t>(1, columns.positions));
  moments.mean.resize(n);
  moments.matrix.resize(n * n);
  for (size_t i = 0; i < n; ++i)
    moments.mean[i] = static_cast<double>(total(columns.row(i))) / count;
  parallel_for(n, n < 64 ? 1 : threads, [&](size_t i) {
    for (size_t j = 0; j <= i; ++j) {
      const double sum = dot(columns.row(i), columns.row(j));
      moments.matrix[i * n + j] =
          sum / count - (centered ? moments.mean[i] * moments.mean[j] : 0.0);
    }
  });
  double trace = 0;
  for (size_t i = 0; i < n; ++i) {
    trace += moments.h(i, i);
    for (size_t j = 0; j < i; ++j) moments.matrix[j * n + i] = moments.h(i, j);
  }
  if (!(trace > 0)) return moments;
  moments.order.resize(n);
  std::iota(moments.order.begin(), moments.order.end(), size_t{0});
  std::ranges::stable_sort(moments.order,
                           [&](size_t a, size_t b) { return moments.h(a, a) > moments.h(b, b); });
  std::vector<double> damped(n * n);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j)
      damped[i * n + j] = moments.h(moments.order[i], moments.order[j]);
  for (size_t i = 0; i < n; ++i) damped[i * n + i] += kDamping * trace / static_cast<double>(n);
  if (auto factor = inverse_factor(damped, n)) moments.factor = std::move(*factor);
  return moments;
}

// eᵀ H e of the error of a row's codes. H is symmetric: rows of it are added for several sums at
// once, each in the order of its elements.
double row_error(const Moments& moments, std::span<const float> weights,
                 std::span<const int8_t> codes, double scale) {
  const size_t n = moments.size;
  std::vector<double> error(n);
  for (size_t i = 0; i < n; ++i) error[i] = static_cast<double>(weights[i]) - scale * codes[i];
  constexpr size_t kSums = 16;
  double sum = 0;
  for (size_t first = 0; first < n; first += kSums) {
    double inner[kSums] = {};
    const size_t count = std::min(kSums, n - first);
    for (size_t j = 0; j < n; ++j) {
      const double* const row = &moments.matrix[j * n + first];
      if (count == kSums) {
        for (size_t k = 0; k < kSums; ++k) inner[k] += row[k] * error[j];
      } else {
        for (size_t k = 0; k < count; ++k) inner[k] += row[k] * error[j];
      }
    }
    for (size_t k = 0; k < count; ++k) sum += error[first + k] * inner[k];
  }
  return sum;
}

void round_row(const Moments& moments, std::span<const float> weights, double scale,
               const Quantization& q, std::span<int8_t> codes) {
  const size_t n = moments.size;
  std::vector<double> rest(n);
  for (size_t i = 0; i < n; ++i) rest[i] = static_cast<double>(weights[moments.order[i]]);
  std::vector<int8_t> found(n);
  for (size_t i = 0; i < n; ++i) {
    const double* const row = &moments.factor[i * n];
    const int32_t code = numerics::nearest_code(rest[i], scale, 0, {q.qmin, q.qmax});
    found[moments.order[i]] = static_cast<int8_t>(code);
    const double error = (rest[i] - scale * code) / row[i];
    for (size_t j = i + 1; j < n; ++j) rest[j] -= error * row[j];
  }
  if (row_error(moments, weights, found, scale) < row_error(moments, weights, codes, scale))
    std::ranges::copy(found, codes.begin());
}

// A layer whose weights are codes, as a convolution; a linear layer is one of 1 × 1 over as many
// positions as it has rows.
struct Layer {
  ops::ConvolutionShape shape;
  ValueId input, weight, bias;  // bias: may be invalid
  ValueId float_weight, float_bias;
  size_t row_length() const { return static_cast<size_t>(shape.in * shape.taps()); }
  size_t positions() const { return static_cast<size_t>(shape.batch * shape.y_plane()); }
};

class Rounder {
 public:
  Rounder(Module& module, Graph& graph, const Graph& original, const Samples& samples,
          const RoundingOptions& options)
      : module_(module),
        graph_(graph),
        rewriter_(graph),
        original_(original),
        samples_(samples),
        options_(options),
        last_use_(graph.value_slots()) {
    for (const OpId id : graph.ops())
      for (const ValueId operand : graph.op(id).operands)
        if (operand.valid()) last_use_[operand.index] = id;
  }

  Result<RoundingReport> run() {
    const size_t count = choose_samples();
    std::vector<size_t> chosen;
    for (size_t i = 0; i < count; ++i) chosen.push_back(i * samples_.size() / count);
    report_.samples = count;
    runs_.resize(count);
    const std::vector<Tensor> states = initial_states(module_, graph_);
    has_states_ = !states.empty();
    for (size_t i = 0; i < count; ++i) {
      std::vector<TensorView> inputs = samples_.inputs(chosen[i]);
      for (const Tensor& state : states) inputs.push_back(state.view());
      runs_[i].resize(graph_.value_slots());
      for (size_t k = 0; k < inputs.size(); ++k)
        runs_[i][graph_.inputs()[k].index] =
            Tensor::copy_of(inputs[k].dtype, inputs[k].shape, {inputs[k].data, inputs[k].bytes()});
    }
    std::vector<OpId> order;
    for (const OpId id : graph_.ops()) order.push_back(id);
    OpId last;
    for (const OpId id : order)
      if (is_layer(graph_.op(id))) last = id;
    if (!last.valid()) return std::move(report_);
    for (const OpId id : order) {
      check_cancelled();
      if (is_layer(graph_.op(id))) round_layer(id);
      if (id == last) break;
      DTR_TRY(evaluate(id));
    }
    return std::move(report_);
  }

 private:
  static bool is_layer(const Op& op) {
    return op.def == &ops::kConvolution || op.def == &ops::kLinear;
  }

  // As many as keep the values that are alive together within the bytes.
  size_t choose_samples() const {
    size_t alive = 0, most = 1;
    for (const ValueId input : graph_.inputs()) alive += bytes_of(input);
    for (const OpId id : graph_.ops()) {
      const Op& op = graph_.op(id);
      for (const ValueId result : op.results) alive += bytes_of(result);
      most = std::max(most, alive);
      for (const ValueId operand : distinct(op.operands))
        if (dies(operand, id)) alive -= bytes_of(operand);
    }
    return std::clamp<size_t>(options_.bytes / most, 1,
                              std::min(options_.samples, samples_.size()));
  }
  size_t bytes_of(ValueId value) const {
    return static_cast<size_t>(std::max<int64_t>(0, graph_.type(value).bytes()));
  }
  bool dies(ValueId value, OpId at) const {
    return !graph_.is_constant(value) && last_use_[value.index] == at;
  }
  static std::vector<ValueId> distinct(std::vector<ValueId> values) {
    std::erase_if(values, [](ValueId value) { return !value.valid(); });
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }

  Result<void> evaluate(OpId id) {
    const Op& op = graph_.op(id);
    const Evaluation evaluation = reference_evaluation(graph_, id);
    const BoundOpView view(graph_, id);
    if (evaluation == nullptr)
      return fail(DiagnosticId::kIrInvalid,
                  fmt::format("{} cannot be evaluated on operands of these types", op.def->name),
                  "", place_of(module_, graph_, id));
    parallel_for(runs_.size(), options_.threads, [&](size_t run) {
      std::vector<Tensor>& values = runs_[run];
      std::vector<TensorView> operands, results;
      for (const ValueId operand : op.operands) {
        if (!operand.valid()) {
          operands.emplace_back();
        } else if (graph_.is_constant(operand)) {
          const Value& value = graph_.value(operand);  // read only
          operands.push_back(
              {value.type.dtype, value.type.shape,
               const_cast<std::byte*>(module_.constants.bytes(value.constant).data())});
        } else {
          operands.push_back(values[operand.index].view());
        }
      }
      for (const ValueId result : op.results) {
        values[result.index] = Tensor(graph_.type(result).dtype, graph_.type(result).shape);
        results.push_back(values[result.index].view());
      }
      evaluation(view, operands, results);
      for (const ValueId operand : distinct(op.operands))
        if (dies(operand, id)) values[operand.index] = Tensor();
      for (const ValueId result : op.results)
        if (graph_.value(result).uses.empty()) values[result.index] = Tensor();
    });
    return {};
  }

  // The layer, if its weights are codes around zero with a scale for each output channel, or for
  // all.
  std::optional<Layer> layer_of(OpId id) const {
    const Op& op = graph_.op(id);
    const Type& x = graph_.type(op.operands[0]);
    const Type& weight = graph_.type(op.operands[1]);
    if (!graph_.is_constant(op.operands[1]) || weight.dtype != DType::kInt8 ||
        !weight.quantized() || x.dtype != DType::kInt8 || !x.quantized())
      return std::nullopt;
    Layer layer{
        .input = op.operands[0], .weight = op.operands[1], .bias = operand_or_absent(op, 2)};
    const Op& from = original_.op(id);
    layer.float_weight = from.operands[1];
    layer.float_bias = operand_or_absent(from, 2);
    if (op.def == &ops::kConvolution) {
      layer.shape = ops::convolution_shape(BoundOpView(graph_, id));
    } else {
      layer.shape.in = weight.shape[1];
      layer.shape.out = weight.shape[0];
      layer.shape.batch = x.elements() / std::max<int64_t>(1, weight.shape[1]);
    }
    const bool by_rows = !weight.quantization->per_channel() || weight.quantization->axis == 0;
    if (layer.shape.transposed || !by_rows || layer.row_length() == 0) return std::nullopt;
    return layer;
  }

  // Every n-th position of all runs, so that no more than the options' are taken.
  Columns gather(const Layer& layer, int64_t group) const {
    const size_t per_run = layer.positions();
    const size_t all = per_run * runs_.size();
    const size_t step = std::max<size_t>(1, (all + options_.positions - 1) / options_.positions);
    Columns columns{.rows = layer.row_length(), .positions = (all + step - 1) / step};
    columns.codes.resize(columns.rows * columns.positions);
    const Type& type = graph_.type(layer.input);
    const bool channels_last =
        graph_.op(graph_.value(layer.weight).uses.front().op).def == &ops::kLinear;
    const auto zero = static_cast<int16_t>(type.quantization->zero_point());
    const auto& [h, w] = layer.shape.window;
    const int64_t plane = layer.shape.x_plane();
    for (size_t to = 0, at = 0; at < all; at += step, ++to) {
      const auto codes = runs_[at / per_run][layer.input.index].values<int8_t>();
      const auto position = static_cast<int64_t>(at % per_run);
      if (channels_last) {
        for (size_t k = 0; k < columns.rows; ++k)
          columns.codes[k * columns.positions + to] =
              static_cast<int16_t>(codes[static_cast<size_t>(position) * columns.rows + k] - zero);
        continue;
      }
      const int64_t y_plane = layer.shape.y_plane();
      const int64_t batch = position / y_plane, pixel = position % y_plane;
      const int64_t oh = pixel / w.out, ow = pixel % w.out;
      size_t k = 0;
      for (int64_t c = 0; c < layer.shape.in; ++c) {
        const int64_t channel = (batch * layer.shape.groups + group) * layer.shape.in + c;
        for (int64_t kh = 0; kh < h.kernel; ++kh)
          for (int64_t kw = 0; kw < w.kernel; ++kw, ++k) {
            const int64_t ih = h.first(oh) + kh * h.dilation;
            const int64_t iw = w.first(ow) + kw * w.dilation;
            if (ih < 0 || ih >= h.in || iw < 0 || iw >= w.in) continue;
            columns.codes[k * columns.positions + to] = static_cast<int16_t>(
                codes[static_cast<size_t>(channel * plane + ih * w.in + iw)] - zero);
          }
      }
    }
    return columns;
  }

  void skip(OpId id, const std::string& why) {
    report_.skipped.push_back(fmt::format("{}: {}", place_of(module_, graph_, id).node, why));
  }

  void round_layer(OpId id) {
    const std::optional<Layer> found = layer_of(id);
    if (!found) {
      if (graph_.type(graph_.op(id).results[0]).quantized()) skip(id, "a form without rows");
      return;
    }
    const Layer& layer = *found;
    const size_t n = layer.row_length();
    if (n > options_.most_columns)
      return skip(id, fmt::format("rows of {} weights, at most {} are", n, options_.most_columns));
    const std::span<const float> weights = floats(layer.float_weight);
    const std::span<const int8_t> nearest =
        module_.constants.values<int8_t>(graph_.value(layer.weight).constant);
    const Quantization& q = *graph_.type(layer.weight).quantization;
    std::vector<int8_t> codes(nearest.begin(), nearest.end());
    const size_t rows = codes.size() / n;
    const size_t rows_of_group = rows / static_cast<size_t>(layer.shape.groups);
    std::vector<double> shifts(rows);  // mean error of each row's sums, in steps of the input
    const auto group_count = static_cast<size_t>(layer.shape.groups);
    const bool many_groups = group_count > 1;
    parallel_for(group_count, many_groups ? options_.threads : 1, [&](size_t group) {
      const Columns columns = gather(layer, static_cast<int64_t>(group));
      const Moments moments =
          moments_of(columns, layer.bias.valid(), many_groups ? 1 : options_.threads);
      parallel_for(rows_of_group, many_groups ? 1 : options_.threads, [&](size_t i) {
        const size_t row = group * rows_of_group + i;
        const auto scale = static_cast<double>(q.scales[q.per_channel() ? row : 0]);
        const auto own = weights.subspan(row * n, n);
        if (!moments.factor.empty())
          round_row(moments, own, scale, q, std::span(codes).subspan(row * n, n));
        for (size_t k = 0; k < n; ++k)
          shifts[row] +=
              (static_cast<double>(own[k]) - scale * codes[row * n + k]) * moments.mean[k];
      });
    });
    replace(id, 1, DType::kInt8, std::as_bytes(std::span(codes)));
    if (layer.bias.valid() && layer.float_bias.valid()) {
      add_drift(id, layer, weights, shifts);
      correct_bias(id, layer, shifts);
    }
    ++report_.layers;
  }

  // What the operators before shifted the mean of each channel of the operand by, as tables do that
  // round many elements to few codes: the float model's mean, less that of the codes. None, if the
  // float model was not observed on the same samples, or with other states.
  std::vector<double> drift(OpId id, const Layer& layer) const {
    if (options_.calibration == nullptr || runs_.size() != samples_.size() || has_states_)
      return {};
    const auto at =
        options_.calibration->channels.find(original_.value(original_.op(id).operands[0]).name);
    const std::optional<int> axis = channel_axis(original_, id);
    if (at == options_.calibration->channels.end() || axis != at->second.axis) return {};
    const Type& type = graph_.type(layer.input);
    const std::vector<double>& wanted = at->second.mean;
    const auto channels = static_cast<size_t>(type.shape[static_cast<size_t>(*axis)]);
    if (wanted.size() != channels) return {};
    size_t inner = 1;
    for (size_t i = static_cast<size_t>(*axis) + 1; i < type.shape.size(); ++i)
      inner *= static_cast<size_t>(type.shape[i]);
    std::vector<int64_t> sums(channels);
    size_t count = 0;
    for (const std::vector<Tensor>& run : runs_) {
      const auto codes = run[layer.input.index].values<int8_t>();
      for (size_t i = 0; i < codes.size(); ++i) sums[i / inner % channels] += codes[i];
      count += codes.size() / channels;
    }
    std::vector<double> found(channels);
    const auto scale = static_cast<double>(type.quantization->scale());
    for (size_t c = 0; c < channels; ++c)
      found[c] = wanted[c] / scale - (static_cast<double>(sums[c]) / static_cast<double>(count) -
                                      type.quantization->zero_point());
    return found;
  }

  // In steps of the input, as `shifts`.
  void add_drift(OpId id, const Layer& layer, std::span<const float> weights,
                 std::vector<double>& shifts) const {
    const std::vector<double> means = drift(id, layer);
    const size_t n = layer.row_length();
    const auto taps = static_cast<size_t>(layer.shape.taps());
    const auto in = static_cast<size_t>(layer.shape.in);
    const size_t rows_of_group = shifts.size() / static_cast<size_t>(layer.shape.groups);
    if (means.size() != in * static_cast<size_t>(layer.shape.groups)) return;
    for (size_t row = 0; row < shifts.size(); ++row)
      for (size_t k = 0; k < n; ++k)
        shifts[row] +=
            static_cast<double>(weights[row * n + k]) * means[row / rows_of_group * in + k / taps];
  }

  // The mean of the sums stays that of the float weights.
  void correct_bias(OpId id, const Layer& layer, const std::vector<double>& shifts) {
    const std::span<const float> real = floats(layer.float_bias);
    const Quantization& q = *graph_.type(layer.bias).quantization;
    const auto input = static_cast<double>(graph_.type(layer.input).quantization->scale());
    std::vector<int32_t> integers;
    for (size_t c = 0; c < real.size(); ++c)
      integers.push_back(numerics::nearest_code(
          static_cast<double>(real[c]) + shifts[c] * input,
          static_cast<double>(q.scales[q.per_channel() ? c : 0]), 0, {INT32_MIN, INT32_MAX}));
    replace(id, 2, DType::kInt32, std::as_bytes(std::span(integers)));
  }

  void replace(OpId id, size_t operand, DType dtype, std::span<const std::byte> bytes) {
    const ValueId old = graph_.op(id).operands[operand];
    const ConstantId constant = module_.constants.add(dtype, bytes);
    const ValueId made = rewriter_.add_constant(graph_.type(old), constant, graph_.value(old).name);
    rewriter_.set_operand(id, operand, made);
    last_use_.resize(graph_.value_slots());
  }

  std::span<const float> floats(ValueId constant) const {
    return module_.constants.values<float>(original_.value(constant).constant);
  }

  Module& module_;
  Graph& graph_;
  Rewriter rewriter_;
  const Graph& original_;
  const Samples& samples_;
  const RoundingOptions& options_;
  std::vector<OpId> last_use_;             // by value
  std::vector<std::vector<Tensor>> runs_;  // by sample and value: those that are alive
  bool has_states_ = false;
  RoundingReport report_;
};

}  // namespace

Result<RoundingReport> round_weights(Module& module, Graph& quantized, const Graph& original,
                                     const Samples& samples, const RoundingOptions& options) {
  return Rounder(module, quantized, original, samples, options).run();
}

}  // namespace dtr
