#include "compiler/quantizer/rotate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "compiler/ir/rewriter.h"
#include "compiler/ops/define.h"
#include "compiler/ops/ops.h"

namespace dtr {
namespace {

constexpr int64_t kLeastChannels = 8;
constexpr int64_t kMostChannels = 4096;  // a matrix of 128 MB

// The factors that n is a product of, as many of 4 as there are, then primes.
std::vector<size_t> factors_of(size_t n) {
  std::vector<size_t> factors;
  const auto divide = [&](size_t by) {
    for (; n % by == 0; n /= by) factors.push_back(by);
  };
  divide(4);
  for (size_t by = 2; by * by <= n; ++by) divide(by);
  if (n > 1) factors.push_back(n);
  return factors;
}

// Q, row by row.
class Rotation {
 public:
  explicit Rotation(size_t n) : size(n), q_(n * n, 1) {
    const std::vector<size_t> factors = factors_of(n);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) {
        double& product = q_[i * n + j];
        size_t row = i, column = j;
        for (const size_t m : factors) {
          product *= 2.0 / static_cast<double>(m) - (row % m == column % m ? 1.0 : 0.0);
          row /= m;
          column /= m;
        }
      }
  }
  // Multiplies the rows of a matrix, whose `size` elements are `stride` apart, by Q.
  void apply(std::vector<double>& values, size_t first, size_t stride) const {
    std::vector<double> row(size);
    for (size_t i = 0; i < size; ++i) {
      const double x = values[first + i * stride];
      if (x == 0) continue;
      for (size_t j = 0; j < size; ++j) row[j] += x * q_[i * size + j];
    }
    for (size_t j = 0; j < size; ++j) values[first + j * stride] = row[j];
  }

  size_t size;

 private:
  std::vector<double> q_;
};

class Rotator {
 public:
  Rotator(Module& module, Graph& graph) : module_(module), graph_(graph), rewriter_(graph) {}

  RotationReport run() {
    std::vector<bool> done(graph_.value_slots());
    for (const OpId id : graph_.ops()) {
      const Op& op = graph_.op(id);
      if (!is_norm(op) || done[op.operands[0].index]) continue;
      const Type& type = graph_.type(op.operands[0]);
      stream_.clear();
      normed_.clear();
      work_.clear();
      channels_ = type.shape.back();
      const bool fits = channels_ >= kLeastChannels && channels_ <= kMostChannels;
      const bool follows = fits && reach(stream_, op.operands[0], type.rank() - 1) && follow();
      for (const auto& [value, axis] : stream_) done[value.index] = true;
      if (follows) apply();
    }
    return report_;
  }

 private:
  // Values and the axis of their channels.
  using Values = std::map<ValueId, size_t>;

  bool is_norm(const Op& op) const {
    if (op.def != &ops::kLayerNorm && op.def != &ops::kRmsNorm) return false;
    if (has_activation(op) || op.attributes.get<Ints>("normalized_shape").size() != 1) return false;
    for (size_t i = 1; i < op.operands.size(); ++i)
      if (op.operands[i].valid() && !is_float_constant(op.operands[i])) return false;
    return graph_.type(op.operands[0]).dtype == DType::kFloat32;
  }
  static bool has_activation(const Op& op) {
    return op.attributes.find(ops::kActivationAttribute) != nullptr;
  }
  bool is_float_constant(ValueId value) const {
    return graph_.is_constant(value) && graph_.type(value).dtype == DType::kFloat32;
  }
  bool is_number(ValueId value) const {
    return is_float_constant(value) && graph_.type(value).elements() == 1;
  }
  // The axis along which the results of a layer with constant weights have their channels.
  std::optional<size_t> layer_axis(const Op& op) const {
    const ValueId bias = operand_or_absent(op, 2);
    const bool is_layer = op.def == &ops::kLinear || op.def == &ops::kConvolution;
    if (!is_layer || !is_float_constant(op.operands[1]) ||
        (bias.valid() && !is_float_constant(bias)))
      return std::nullopt;
    const size_t rank = graph_.type(op.operands[0]).rank();
    if (op.def == &ops::kLinear) return rank - 1;
    if (rank < 3 || op.attributes.get<bool>("transposed") ||
        op.attributes.get<int64_t>("groups") != 1)
      return std::nullopt;
    return 1;
  }

  // ---- what belongs to a stream

  bool reach(Values& values, ValueId value, size_t axis) {
    const Type& type = graph_.type(value);
    if (axis >= type.rank() || type.shape[axis] != channels_) return false;
    const auto [at, added] = values.emplace(value, axis);
    if (added) work_.push_back({value, &values == &normed_});
    return at->second == axis;
  }

  bool follow() {
    while (!work_.empty()) {
      const auto [value, normed] = work_.back();
      work_.pop_back();
      Values& values = normed ? normed_ : stream_;
      const size_t axis = values.at(value);
      if (!normed && !follow_producer(value, axis)) return false;
      if (graph_.value(value).output_uses > 0) return false;
      if (graph_.is_constant(value)) continue;
      for (const Use& use : graph_.value(value).uses)
        if (!follow_reader(values, use, axis)) return false;
    }
    for (const auto& [value, axis] : stream_)
      if (normed_.contains(value)) return false;
    return true;
  }

  bool follow_producer(ValueId value, size_t axis) {
    if (graph_.is_constant(value)) return is_float_constant(value);
    const OpId id = graph_.producer(value);
    if (!id.valid()) return false;  // an input
    const Op& op = graph_.op(id);
    if (const auto own = layer_axis(op)) return *own == axis && !has_activation(op);
    return follow_op(stream_, id, axis);
  }

  bool follow_reader(Values& values, const Use& use, size_t axis) {
    const Op& op = graph_.op(use.op);
    const bool normed = &values == &normed_;
    if (!normed && is_norm(op) && use.operand == 0)
      return axis + 1 == graph_.type(op.operands[0]).rank() && reach(normed_, op.results[0], axis);
    if (const auto own = layer_axis(op)) {
      if (use.operand != 0 || *own != axis) return false;
      return !normed || takes_bias(op);
    }
    return op.results.size() == 1 && follow_op(values, use.op, axis_of_result(op, axis));
  }
  // What a normalization adds can become part of the layer's bias.
  bool takes_bias(const Op& op) const {
    if (op.def == &ops::kLinear) return true;
    const Ints& padding = op.attributes.get<Ints>("padding");
    return std::ranges::all_of(padding, [](int64_t pad) { return pad == 0; });
  }

  // The operands and the result of an op that commutes with Q are of the same set. `axis` is that
  // of its result.
  bool follow_op(Values& values, OpId id, std::optional<size_t> axis) {
    const Op& op = graph_.op(id);
    if (!axis || op.results.size() != 1 || has_activation(op)) return false;
    // What a normalization adds would have to be multiplied too, or joined with what has nothing
    // added.
    const bool normed = &values == &normed_;
    if (normed && (op.operands.size() > 1 || op.def == &ops::kSumDim)) return false;
    const size_t rank = graph_.type(op.results[0]).rank();
    const auto operand = [&](size_t i) {
      return reach_operand(values, op.operands[i], rank, *axis);
    };
    const bool sums = op.def == &ops::kAddTensor || op.def == &ops::kSubTensor;
    if (sums) {
      if (!operand(0) || !operand(1)) return false;
      return reach(values, op.results[0], *axis);
    }
    if (op.def == &ops::kMulTensor || op.def == &ops::kDivTensor)
      return is_number(op.operands[1]) && operand(0) && reach(values, op.results[0], *axis);
    if (op.def == &ops::kCat) {
      const auto dim = ops::normalize_dim(op.attributes.get<int64_t>("dim"), rank);
      if (!dim || static_cast<size_t>(*dim) == *axis) return false;
      for (size_t i = 0; i < op.operands.size(); ++i)
        if (!operand(i)) return false;
      return reach(values, op.results[0], *axis);
    }
    for (size_t own = 0; own < graph_.type(op.operands[0]).rank(); ++own)
      if (axis_of_result(op, own) == axis)
        return reach(values, op.operands[0], own) && reach(values, op.results[0], *axis);
    return false;
  }
  // Operands are aligned at their last dimension.
  bool reach_operand(Values& values, ValueId value, size_t rank, size_t axis) {
    const size_t own = graph_.type(value).rank();
    return axis + own >= rank && reach(values, value, axis + own - rank);
  }

  // Where the channels along `axis` of operand 0 are in the result of an op that keeps them whole.
  std::optional<size_t> axis_of_result(const Op& op, size_t axis) const {
    const Shape& from = graph_.type(op.operands[0]).shape;
    const Shape& to = graph_.type(op.results[0]).shape;
    if (axis >= from.size() || from[axis] != channels_) return std::nullopt;
    if (op.def == &ops::kAddTensor || op.def == &ops::kSubTensor || op.def == &ops::kMulTensor ||
        op.def == &ops::kDivTensor)
      return axis_from_end(from, to, axis);
    if (op.def == &ops::kCat) return axis;
    if (op.def == &ops::kPermute) {
      const Ints& dims = op.attributes.get<Ints>("dims");
      for (size_t i = 0; i < dims.size(); ++i)
        if (const auto dim = ops::normalize_dim(dims[i], from.size());
            dim && static_cast<size_t>(*dim) == axis)
          return i;
      return std::nullopt;
    }
    if (op.def == &ops::kView) {
      const auto before = [](const Shape& shape, size_t end) {
        int64_t product = 1;
        for (size_t i = 0; i < end; ++i) product *= shape[i];
        return product;
      };
      for (size_t i = 0; i < to.size(); ++i)
        if (to[i] == channels_ && before(to, i) == before(from, axis)) return i;
      return std::nullopt;
    }
    if (op.def == &ops::kExpand) {
      const auto i = axis_from_end(from, to, axis);
      return i && to[*i] == channels_ ? i : std::nullopt;
    }
    if (op.def == &ops::kSliceTensor) {
      const auto dim = ops::normalize_dim(op.attributes.get<int64_t>("dim"), from.size());
      return dim && static_cast<size_t>(*dim) != axis ? std::optional(axis) : std::nullopt;
    }
    if (op.def == &ops::kMeanDim || op.def == &ops::kSumDim) {
      const AttributeValue* dim = op.attributes.find("dim");
      const Ints* dims = dim != nullptr ? std::get_if<Ints>(dim) : nullptr;
      if (dims == nullptr || dims->empty()) return std::nullopt;
      size_t at = axis;
      for (const int64_t given : *dims) {
        const auto reduced = ops::normalize_dim(given, from.size());
        if (!reduced || static_cast<size_t>(*reduced) == axis) return std::nullopt;
        if (static_cast<size_t>(*reduced) < axis && !op.attributes.get<bool>("keepdim")) --at;
      }
      return at;
    }
    return std::nullopt;
  }
  static std::optional<size_t> axis_from_end(const Shape& from, const Shape& to, size_t axis) {
    return to.size() >= from.size() ? std::optional(axis + to.size() - from.size()) : std::nullopt;
  }

  // ---- constants

  void apply() {
    const Rotation q(static_cast<size_t>(channels_));
    ++report_.streams;
    for (const auto& [value, axis] : stream_) {
      if (graph_.is_constant(value)) {
        rotate_constant(q, value, axis);
        continue;
      }
      const OpId producer = graph_.producer(value);
      if (layer_axis(graph_.op(producer))) rotate_rows(q, producer);
    }
    for (const auto& [value, axis] : stream_)
      if (!graph_.is_constant(value))
        for (const Use& use : std::vector<Use>(graph_.value(value).uses)) read_stream(q, use);
    for (const auto& [value, axis] : normed_) {
      const std::vector<double> weight = parameter_of(value, 1, 1),
                                bias = parameter_of(value, 2, 0);
      for (const Use& use : std::vector<Use>(graph_.value(value).uses))
        if (layer_axis(graph_.op(use.op))) rotate_columns(q, use.op, weight, bias);
    }
    for (const OpId norm : norms_) {
      clear_parameter(norm, 1, 1);
      clear_parameter(norm, 2, 0);
    }
    norms_.clear();
  }

  void read_stream(const Rotation& q, const Use& use) {
    const Op& op = graph_.op(use.op);
    if (is_norm(op)) {
      if (std::ranges::find(norms_, use.op) == norms_.end()) norms_.push_back(use.op);
    } else if (layer_axis(op)) {
      rotate_columns(q, use.op, {}, {});
    }
  }

  // Operand `index` of the normalization that a value comes from.
  std::vector<double> parameter_of(ValueId value, size_t index, double absent) const {
    const Op* op = &graph_.op(graph_.producer(value));
    while (!is_norm(*op)) op = &graph_.op(graph_.producer(op->operands[0]));
    const ValueId parameter = operand_or_absent(*op, index);
    if (!parameter.valid()) return std::vector<double>(static_cast<size_t>(channels_), absent);
    return doubles(parameter);
  }
  void clear_parameter(OpId norm, size_t index, double value) {
    if (!operand_or_absent(graph_.op(norm), index).valid()) return;
    set(norm, index, std::vector<double>(static_cast<size_t>(channels_), value));
  }

  // Elements of a constant along `axis`.
  void rotate_constant(const Rotation& q, ValueId value, size_t axis) {
    std::vector<double> values = doubles(value);
    size_t inner = 1;
    const Shape& shape = graph_.type(value).shape;
    for (size_t i = axis + 1; i < shape.size(); ++i) inner *= static_cast<size_t>(shape[i]);
    for (size_t outer = 0; outer < values.size(); outer += inner * q.size)
      for (size_t i = 0; i < inner; ++i) q.apply(values, outer + i, inner);
    const ValueId rotated = add(value, values);
    for (const Use& use : std::vector<Use>(graph_.value(value).uses)) {
      const Op& op = graph_.op(use.op);
      if (op.results.size() == 1 && stream_.contains(op.results[0]))
        rewriter_.set_operand(use.op, use.operand, rotated);
    }
  }

  // The rows of a layer's weights make the channels of its result.
  void rotate_rows(const Rotation& q, OpId id) {
    std::vector<double> weights = doubles(graph_.op(id).operands[1]);
    const size_t row = weights.size() / q.size;
    for (size_t i = 0; i < row; ++i) q.apply(weights, i, row);
    set(id, 1, weights);
    if (const ValueId bias = operand_or_absent(graph_.op(id), 2); bias.valid()) {
      std::vector<double> values = doubles(bias);
      q.apply(values, 0, 1);
      set(id, 2, values);
    }
    ++report_.layers;
  }

  // The columns of a layer's weights read the channels of its operand, multiplied by `weight` and
  // with `bias` added; none: as they are.
  void rotate_columns(const Rotation& q, OpId id, std::span<const double> weight,
                      std::span<const double> bias) {
    std::vector<double> weights = doubles(graph_.op(id).operands[1]);
    const auto rows = static_cast<size_t>(graph_.type(graph_.op(id).operands[1]).shape[0]);
    const size_t taps = weights.size() / rows / q.size;
    std::vector<double> added(rows);
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < q.size; ++c)
        for (size_t t = 0; t < taps; ++t) {
          double& w = weights[(r * q.size + c) * taps + t];
          if (!bias.empty()) added[r] += w * bias[c];
          if (!weight.empty()) w *= weight[c];
        }
    for (size_t r = 0; r < rows; ++r)
      for (size_t t = 0; t < taps; ++t) q.apply(weights, r * q.size * taps + t, taps);
    set(id, 1, weights);
    ++report_.layers;
    if (std::ranges::all_of(added, [](double x) { return x == 0; })) return;
    if (const ValueId old = operand_or_absent(graph_.op(id), 2); old.valid()) {
      const std::vector<double> values = doubles(old);
      for (size_t r = 0; r < rows; ++r) added[r] += values[r];
    }
    const std::vector<float> sums(added.begin(), added.end());
    const Type type{.dtype = DType::kFloat32, .shape = {static_cast<int64_t>(rows)}};
    const std::string name = graph_.value(graph_.op(id).operands[1]).name + "_bias";
    rewriter_.set_operand(id, 2,
                          rewriter_.add_constant(type,
                                                 module_.constants.add_values<float>(
                                                     DType::kFloat32, std::span<const float>(sums)),
                                                 name));
  }

  std::vector<double> doubles(ValueId constant) const {
    const auto values = module_.constants.values<float>(graph_.value(constant).constant);
    return {values.begin(), values.end()};
  }
  ValueId add(ValueId old, std::span<const double> values) {
    const std::vector<float> rounded(values.begin(), values.end());
    const ConstantId constant =
        module_.constants.add_values<float>(DType::kFloat32, std::span<const float>(rounded));
    return rewriter_.add_constant(graph_.type(old), constant, graph_.value(old).name + "_rotated");
  }
  void set(OpId id, size_t operand, std::span<const double> values) {
    rewriter_.set_operand(id, operand, add(graph_.op(id).operands[operand], values));
  }

  Module& module_;
  Graph& graph_;
  Rewriter rewriter_;
  int64_t channels_ = 0;
  Values stream_, normed_;
  struct Work {
    ValueId value;
    bool normed;
  };
  std::vector<Work> work_;
  std::vector<OpId> norms_;  // that read the stream
  RotationReport report_;
};

}  // namespace

RotationReport rotate_streams(Module& module, Graph& graph) { return Rotator(module, graph).run(); }

}  // namespace dtr
