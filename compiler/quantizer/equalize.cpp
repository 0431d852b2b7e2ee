#include "compiler/quantizer/equalize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "compiler/ir/rewriter.h"
#include "compiler/ops/define.h"
#include "compiler/ops/ops.h"
#include "compiler/quantizer/channel_factors.h"
#include "compiler/quantizer/loops.h"
#include "compiler/support/thread_pool.h"

namespace dtr {
namespace {

constexpr size_t kMostSamples = 64;
// A group whose factors differ by less is left as it is.
constexpr double kWorthwhile = 1.1;
// Bounds of a factor around the mean of its group: weights keep their precision in float32.
constexpr double kMostFactor = 0x1p12;
// Room between the largest element seen of a channel and the bound of its activation: other samples
// have larger ones. A channel that is seldom far from zero is seldom seen there: of the largest
// elements of the samples, their mean and this many deviations need room too.
constexpr double kRoom = 1.25, kDeviations = 5;
// An input is scaled in float on the CPU only if its channels differ by more: three bits.
constexpr double kUnlikeInputs = 8;

class Equalizer {
 public:
  Equalizer(Module& module, Graph& graph, const Annotation& annotation, FactorWriter* writer)
      : module_(module),
        graph_(graph),
        rewriter_(graph),
        annotation_(annotation),
        writer_(writer),
        channels_(graph.value_slots()) {
    factors_.add();  // kPinned
  }

  Result<Equalization> run(Executor& executor, const Samples& samples, unsigned threads) {
    for (size_t i = 0; i < graph_.user_input_count(); ++i) begin_input(graph_.inputs()[i]);
    for (const OpId op : graph_.ops())
      if (!follow(op)) end_here(op);
    for (const ValueId output : graph_.outputs()) pin(output);
    if (factors_.size() == 1) return Equalization();
    DTR_TRY(observe(executor, samples, threads));
    for (const ValueId input : inputs_)
      if (!has_unlike_channels(input)) pin(input);
    solve();
    if (report_.groups == 0) return report_;
    if (writer_ != nullptr) {
      write();
    } else {
      apply();
    }
    return report_;
  }

 private:
  static constexpr int kPinned = 0;  // the factor 1

  // ---- which channels have one factor

  const Channels& of(ValueId value) const { return channels_[value.index]; }
  void pin(ValueId value) {
    if (!value.valid()) return;
    for (const int factor : of(value).factors) factors_.unite(kPinned, factor);
  }
  void end_here(OpId id) {
    for (const ValueId operand : graph_.op(id).operands) pin(operand);
  }
  void begin(ValueId value, size_t axis) {
    Channels& channels = channels_[value.index];
    channels.axis = axis;
    for (int64_t i = 0; i < graph_.type(value).shape[axis]; ++i)
      channels.factors.push_back(factors_.add());
  }
  // The channels of an input are those of the first layer that reads it. A product with a factor a
  // channel scales them in float, before they are quantized.
  void begin_input(ValueId input) {
    const Type& type = graph_.type(input);
    if (type.dtype != DType::kFloat32) return;
    for (const Use& use : graph_.value(input).uses) {
      const Op& op = graph_.op(use.op);
      if (use.operand != 0 || (op.def != &ops::kConvolution && op.def != &ops::kLinear)) continue;
      const std::optional<size_t> axis = layer_axis(op);
      if (!axis || type.shape[*axis] < 2) continue;
      begin(input, *axis);
      inputs_.push_back(input);
      return;
    }
  }
  bool has_unlike_channels(ValueId value) const {
    float least = 0, most = 0;
    for (const float channel : largest_.channels[value.index]) {
      if (channel == 0) continue;
      least = least == 0 ? channel : std::min(least, channel);
      most = std::max(most, channel);
    }
    return static_cast<double>(most) > kUnlikeInputs * static_cast<double>(least);
  }
  bool pass(OpId id, Channels channels) {
    channels_[graph_.op(id).results[0].index] = std::move(channels);
    return true;
  }

  bool is_float_constant(ValueId value) const {
    return graph_.is_constant(value) && graph_.type(value).dtype == DType::kFloat32;
  }
  // A fused activation that commutes with positive factors.
  bool scales_activation(OpId id) const {
    const ops::RealBounds bounds = ops::activation_bounds(BoundOpView(graph_, id));
    return std::isinf(bounds.high) && (bounds.low == 0 || std::isinf(bounds.low));
  }
  // True if positive factors pass through the bounds; `value` is what they leave. A finite bound
  // besides zero holds for elements below it alone, which solve() sees to.
  bool pass_bounds(const ops::RealBounds& bounds, ValueId value) {
    if (!(bounds.low <= 0) || !(bounds.high > 0)) return false;
    const double low = bounds.low == 0 ? -HUGE_VAL : bounds.low;
    const double limit = std::min(bounds.high, -low);
    if (std::isfinite(limit)) bounded_.push_back({value, limit});
    return true;
  }

  // True if the op commutes with the factors of its operands or takes them; its result then has
  // its factors.
  bool follow(OpId id) {
    const Op& op = graph_.op(id);
    if (op.results.size() != 1 || graph_.type(op.results[0]).dtype != DType::kFloat32) return false;
    if (op.def == &ops::kConvolution || op.def == &ops::kLinear) return follow_layer(id);
    if (op.def == &ops::kLayerNorm || op.def == &ops::kRmsNorm) return follow_norm(id);
    if (op.def == &ops::kCat) return follow_cat(id);
    if (op.def == &ops::kMatmul) return follow_matmul(id);
    if (op.def == &ops::kMulTensor || op.def == &ops::kDivTensor) return follow_product(id);
    if (op.def == &ops::kAddTensor || op.def == &ops::kSubTensor || op.def == &ops::kMaximum ||
        op.def == &ops::kMinimum)
      return follow_sum(id);
    if (op.operands.empty() || !op.operands[0].valid()) return false;
    const Channels& x = of(op.operands[0]);
    if (x.empty()) return false;
    const size_t rank = graph_.type(op.operands[0]).rank();
    if (op.def == &ops::kRelu || op.def == &ops::kLeakyRelu) return pass(id, x);
    if (op.def == &ops::kPrelu) return graph_.is_constant(op.operands[1]) && pass(id, x);
    if (op.def == &ops::kClamp) {
      const ops::RealBounds none;
      return pass_bounds({op.attributes.get_or<double>("min", none.low),
                          op.attributes.get_or<double>("max", none.high)},
                         op.results[0]) &&
             pass(id, x);
    }
    const bool resizes = op.def == &ops::kMaxPool2d || op.def == &ops::kAvgPool2d ||
                         op.def == &ops::kAdaptiveAvgPool2d || op.def == &ops::kAdaptiveMaxPool2d ||
                         op.def == &ops::kUpsampleNearest2d || op.def == &ops::kUpsampleBilinear2d;
    if (resizes) return x.axis + 2 < rank && pass(id, x);
    if (op.def == &ops::kMeanDim || op.def == &ops::kSumDim || op.def == &ops::kAmax ||
        op.def == &ops::kAmin)
      return follow_reduction(id, x, rank);
    return follow_movement(id, x, rank);
  }

  bool follow_layer(OpId id) {
    const Op& op = graph_.op(id);
    const std::optional<size_t> axis = layer_axis(op);
    if (!axis || (writer_ != nullptr && !writer_->can_scale(id))) return false;
    const Channels& x = of(op.operands[0]);
    if (!x.empty() && x.axis != *axis) pin(op.operands[0]);
    layers_.push_back(id);
    if (pass_bounds(ops::activation_bounds(BoundOpView(graph_, id)), op.results[0]))
      begin(op.results[0], *axis);
    return true;
  }
  // The axis of operand and result that the channels of a layer with constant weights lie along.
  std::optional<size_t> layer_axis(const Op& op) const {
    const ValueId bias = operand_or_absent(op, 2);
    if (graph_.is_constant(op.operands[0]) || !is_float_constant(op.operands[1]) ||
        (bias.valid() && !is_float_constant(bias)))
      return std::nullopt;
    const size_t rank = graph_.type(op.operands[0]).rank();
    if (op.def == &ops::kLinear) return rank - 1;
    return rank >= 3 ? std::optional<size_t>(1) : std::nullopt;
  }

  bool follow_norm(OpId id) {
    const Op& op = graph_.op(id);
    const ValueId weight = operand_or_absent(op, 1);
    const ValueId bias = operand_or_absent(op, 2);
    pin(op.operands[0]);
    if (!weight.valid() || !is_float_constant(weight) || graph_.type(weight).rank() != 1 ||
        (bias.valid() && !is_float_constant(bias)) ||
        (writer_ != nullptr && !writer_->can_scale(id)))
      return true;
    norms_.push_back(id);
    begin(op.results[0], graph_.type(op.results[0]).rank() - 1);
    return true;
  }

  bool follow_cat(OpId id) {
    const Op& op = graph_.op(id);
    const size_t rank = graph_.type(op.results[0]).rank();
    const auto dim = ops::normalize_dim(op.attributes.get<int64_t>("dim"), rank);
    std::optional<size_t> axis;
    for (const ValueId operand : op.operands) {
      if (of(operand).empty()) continue;
      if (axis && *axis != of(operand).axis) return false;
      axis = of(operand).axis;
    }
    if (!dim) return false;
    if (!axis) axis = static_cast<size_t>(*dim);  // no operand has factors; parts still may
    if (*axis == static_cast<size_t>(*dim)) return follow_joined_channels(id, *axis);
    for (const ValueId operand : op.operands)
      if (of(operand).empty()) return false;
    for (const ValueId operand : op.operands) unite(op.operands[0], operand);
    return pass(id, of(op.operands[0]));
  }

  // A part without factors of its own, an input or a sigmoid, gets one for all of its channels, and
  // so does the product of a value and a number, whose factors another part may have too.
  bool follow_joined_channels(OpId id, size_t axis) {
    const Op& op = graph_.op(id);
    Channels joined{.axis = axis};
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId operand = op.operands[i];
      const std::vector<int>& own = of(operand).factors;
      const OpId number = product_with_number(operand);
      if (!own.empty() && !number.valid()) {
        joined.factors.insert(joined.factors.end(), own.begin(), own.end());
        continue;
      }
      pin(operand);
      const bool may_scale = !graph_.is_constant(operand) &&
                             graph_.type(operand).dtype == DType::kFloat32 &&
                             (writer_ == nullptr || writer_->can_scale_operand(id, i));
      const int factor = may_scale ? factors_.add() : kPinned;
      if (may_scale) parts_.push_back({id, i, factor});
      joined.factors.insert(joined.factors.end(),
                            static_cast<size_t>(graph_.type(operand).shape[axis]), factor);
    }
    return pass(id, std::move(joined));
  }

  // The op that multiplies a value by a number, without an activation behind it.
  OpId product_with_number(ValueId value) const {
    const OpId producer = graph_.producer(value);
    if (!producer.valid()) return {};
    const Op& op = graph_.op(producer);
    const bool is_product =
        op.def == &ops::kMulTensor && op.attributes.find(ops::kActivationAttribute) == nullptr &&
        is_float_constant(op.operands[1]) && graph_.type(op.operands[1]).elements() == 1;
    return is_product ? producer : OpId{};
  }

  void unite(ValueId a, ValueId b) {
    for (size_t i = 0; i < of(a).factors.size(); ++i)
      factors_.unite(of(a).factors[i], of(b).factors[i]);
  }

  // The columns of the second operand are those of the result.
  bool follow_matmul(OpId id) {
    const Op& op = graph_.op(id);
    const Channels& b = of(op.operands[1]);
    const size_t rank = graph_.type(op.operands[1]).rank();
    if (b.empty() || rank < 2 || b.axis + 1 != rank) return false;
    pin(op.operands[0]);
    return pass(id, {graph_.type(op.results[0]).rank() - 1, b.factors});
  }

  // x · y and x / y have the factors of x, if y has none and does not widen x.
  bool follow_product(OpId id) {
    const Op& op = graph_.op(id);
    if (!scales_activation(id)) return false;
    const Shape& shape = graph_.type(op.results[0]).shape;
    for (size_t i = 0; i < (op.def == &ops::kMulTensor ? 2U : 1U); ++i) {
      const ValueId x = op.operands[i];
      if (of(x).empty() || graph_.type(x).shape != shape || x == op.operands[1 - i]) continue;
      pin(op.operands[1 - i]);
      return pass(id, of(x));
    }
    return false;
  }

  bool follow_sum(OpId id) {
    const Op& op = graph_.op(id);
    const Channels& a = of(op.operands[0]);
    const Channels& b = of(op.operands[1]);
    if (!scales_activation(id) || a.empty() || b.empty() || a.axis != b.axis ||
        graph_.type(op.operands[0]).shape != graph_.type(op.operands[1]).shape)
      return false;
    unite(op.operands[0], op.operands[1]);
    return pass(id, a);
  }

  bool follow_reduction(OpId id, const Channels& x, size_t rank) {
    const Op& op = graph_.op(id);
    const Ints* dims = nullptr;
    if (const AttributeValue* dim = op.attributes.find("dim")) dims = std::get_if<Ints>(dim);
    if (dims == nullptr || dims->empty()) return false;
    size_t axis = x.axis;
    for (const int64_t given : *dims) {
      const auto dim = ops::normalize_dim(given, rank);
      if (!dim || static_cast<size_t>(*dim) == x.axis) return false;
      if (static_cast<size_t>(*dim) < x.axis && !op.attributes.get<bool>("keepdim")) --axis;
    }
    return pass(id, {axis, x.factors});
  }

  bool follow_movement(OpId id, const Channels& x, size_t rank) {
    const Op& op = graph_.op(id);
    const Shape& from = graph_.type(op.operands[0]).shape;
    const Shape& to = graph_.type(op.results[0]).shape;
    if (op.def == &ops::kPermute) {
      const Ints& dims = op.attributes.get<Ints>("dims");
      for (size_t i = 0; i < dims.size(); ++i)
        if (const auto dim = ops::normalize_dim(dims[i], rank);
            dim && static_cast<size_t>(*dim) == x.axis)
          return pass(id, {i, x.factors});
      return false;
    }
    if (op.def == &ops::kView) return follow_view(id, x, from, to);
    if (op.def == &ops::kSliceTensor) {
      const auto dim = ops::normalize_dim(op.attributes.get<int64_t>("dim"), rank);
      if (!dim) return false;
      if (static_cast<size_t>(*dim) != x.axis) return pass(id, x);
      Channels part{.axis = x.axis};
      const int64_t given = op.attributes.get<int64_t>("start"), extent = from[x.axis];
      const int64_t start = std::clamp(given < 0 ? given + extent : given, int64_t{0}, extent);
      for (int64_t i = 0; i < to[x.axis]; ++i)
        part.factors.push_back(
            x.factors[static_cast<size_t>(start + i * op.attributes.get<int64_t>("step"))]);
      return pass(id, std::move(part));
    }
    if (op.def == &ops::kConstantPadNd) {
      const Ints& pad = op.attributes.get<Ints>("pad");
      const size_t back = rank - 1 - x.axis;
      const bool along =
          2 * back + 1 < pad.size() && (pad[2 * back] != 0 || pad[2 * back + 1] != 0);
      return !along && op.attributes.get_or<double>("value", 0.0) == 0 && pass(id, x);
    }
    if (op.def == &ops::kExpand) {
      const size_t axis = x.axis + to.size() - from.size();
      return to[axis] == from[x.axis] && pass(id, {axis, x.factors});
    }
    return false;
  }

  // Keeps channels whole, alone or with all elements behind them: (N, C, H, W) → (N, C·H·W).
  bool follow_view(OpId id, const Channels& x, const Shape& from, const Shape& to) {
    const int64_t before = product(from, 0, x.axis);
    const int64_t behind = product(from, x.axis + 1, from.size());
    for (size_t axis = 0; axis < to.size(); ++axis) {
      if (product(to, 0, axis) != before) continue;
      if (to[axis] == from[x.axis]) return pass(id, {axis, x.factors});
      if (to[axis] != from[x.axis] * behind) continue;
      Channels blocks{.axis = axis};
      for (const int factor : x.factors)
        blocks.factors.insert(blocks.factors.end(), static_cast<size_t>(behind), factor);
      return pass(id, std::move(blocks));
    }
    return false;
  }

  // ---- ranges

  struct Magnitudes {
    std::vector<std::vector<float>> channels;  // by value slot; one entry for values without axis
  };

  // What the largest element of a channel may be in samples that are not here.
  double expected_largest(ValueId value, size_t channel) const {
    double sum = 0, squares = 0;
    for (const Magnitudes& sample : samples_) {
      if (sample.channels[value.index].empty()) continue;
      const auto largest = static_cast<double>(sample.channels[value.index][channel]);
      sum += largest;
      squares += largest * largest;
    }
    const auto count = static_cast<double>(samples_.size());
    const double mean = sum / count;
    const double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean));
    const auto seen = static_cast<double>(largest_.channels[value.index][channel]);
    return std::max(kRoom * seen, mean + kDeviations * deviation);
  }

  Result<void> observe(Executor& executor, const Samples& samples, unsigned threads) {
    largest_.channels.resize(graph_.value_slots());
    const size_t count = std::min(samples.size(), kMostSamples);
    const bool stream = graph_.state_count() > 0;
    std::vector<Result<void>> results(count);
    samples_.resize(count);
    parallel_for(count, stream ? 1 : threads, [&](size_t i) {
      samples_[i].channels.resize(graph_.value_slots());
      const size_t sample = stream ? i : i * samples.size() / count;
      const auto outputs =
          executor.run(samples.inputs(sample), [&](ValueId value, const TensorView& tensor) {
            if (tensor.dtype == DType::kFloat32)
              samples_[i].channels[value.index] = measure(value, tensor);
          });
      if (!outputs) results[i] = tl::unexpected(outputs.error());
    });
    for (Result<void>& result : results) DTR_TRY(result);
    for (Magnitudes& own : samples_)
      for (size_t v = 0; v < own.channels.size(); ++v) {
        std::vector<float>& all = largest_.channels[v];
        all.resize(std::max(all.size(), own.channels[v].size()));
        for (size_t c = 0; c < own.channels[v].size(); ++c)
          all[c] = std::max(all[c], own.channels[v][c]);
      }
    return {};
  }

  // The executor may hand (N, C, H, W) as (N, H, W, C).
  std::vector<float> measure(ValueId value, const TensorView& tensor) const {
    const Channels& channels = of(value);
    const std::span<const float> elements = tensor.values<float>();
    std::vector<float> largest(std::max<size_t>(1, channels.factors.size()));
    size_t axis = channels.axis;
    if (tensor.shape != graph_.type(value).shape) axis = axis == 0 ? 0 : axis == 1 ? 3 : axis - 1;
    const auto inner =
        channels.empty()
            ? elements.size()
            : static_cast<size_t>(product(tensor.shape, axis + 1, tensor.shape.size()));
    if (inner == 0) return largest;
    if (inner == 1) {
      for (size_t at = 0; at + largest.size() <= elements.size(); at += largest.size())
        for (size_t c = 0; c < largest.size(); ++c)
          largest[c] = larger(largest[c], elements[at + c]);
      return largest;
    }
    for (size_t at = 0, c = 0; at < elements.size(); at += inner, c = (c + 1) % largest.size()) {
      const std::span<const float> part = elements.subspan(at, inner);
      if (const FiniteRange range = loops::finite_range(part); range.finite) {
        largest[c] = std::max({largest[c], std::abs(range.range.min), std::abs(range.range.max)});
        continue;
      }
      for (const float x : part) largest[c] = larger(largest[c], x);
    }
    return largest;
  }
  // Of `largest` and the magnitude of x, if that is finite.
  static float larger(float largest, float x) {
    const float magnitude = std::abs(x);
    const bool counts = magnitude > largest && magnitude <= std::numeric_limits<float>::max();
    return counts ? magnitude : largest;
  }

  // ---- factors

  // For each factor, √(r/w).
  void solve() {
    const std::vector<double> ranges = relative_ranges();
    const std::vector<double> weights = relative_weights();
    factor_.assign(factors_.size(), 1);
    Sets blocks;  // factors of one value are of one block
    for (size_t i = 0; i < factors_.size(); ++i) blocks.add();
    for (const Channels& channels : channels_) {
      int first = kPinned;
      for (const int factor : channels.factors) {
        const int root = factors_.find(factor);
        if (root == kPinned) continue;
        if (first != kPinned) blocks.unite(first, root);
        first = root;
      }
    }
    struct Block {
      double logs = 0, low = 0, high = 0;
      size_t count = 0;
      bool bounded = false;
    };
    const std::vector<double> least = least_logs();
    const double most = std::log2(kMostFactor);
    std::map<int, Block> all;
    std::vector<double> logs(factors_.size());
    const auto counts = [&](int factor) {
      return factor != kPinned && factors_.find(factor) == factor &&
             ranges[static_cast<size_t>(factor)] > 0;
    };
    for (int factor = 1; factor < static_cast<int>(factors_.size()); ++factor) {
      if (!counts(factor)) continue;
      const auto at = static_cast<size_t>(factor);
      logs[at] =
          weights[at] > 0 ? 0.5 * std::log2(ranges[at] / weights[at]) : std::log2(ranges[at]);
      Block& block = all[blocks.find(factor)];
      block.low = block.count == 0 ? logs[at] : std::min(block.low, logs[at]);
      block.high = block.count == 0 ? logs[at] : std::max(block.high, logs[at]);
      block.logs += logs[at];
      block.bounded = block.bounded || least[at] > -most;
      ++block.count;
    }
    for (const auto& [root, block] : all) {
      if (block.high - block.low < std::log2(kWorthwhile)) continue;
      ++report_.groups;
      report_.channels += block.count;
      report_.largest = std::max(report_.largest, std::exp2(block.high - block.low));
    }
    for (int factor = 1; factor < static_cast<int>(factors_.size()); ++factor) {
      if (!counts(factor)) continue;
      const Block& block = all.at(blocks.find(factor));
      if (block.high - block.low < std::log2(kWorthwhile)) continue;
      const auto at = static_cast<size_t>(factor);
      if (block.bounded) {  // channels grow only, up to the bound
        factor_[at] = std::exp2(std::clamp(logs[at] - block.high, least[at], 0.0));
        continue;
      }
      const double mean = block.logs / static_cast<double>(block.count);
      factor_[at] = std::exp2(std::clamp(logs[at] - mean, -most, most));
    }
  }

  // For each factor, the logarithm of the least one with which the channels stay within the bounds
  // of their activations.
  std::vector<double> least_logs() {
    std::vector<double> least(factors_.size(), -std::log2(kMostFactor));
    for (const auto& [value, limit] : bounded_)
      for (size_t c = 0; c < of(value).factors.size(); ++c) {
        const auto at = static_cast<size_t>(factors_.find(of(value).factors[c]));
        const double largest = expected_largest(value, c);
        if (largest > 0) least[at] = std::max(least[at], std::min(0.0, std::log2(largest / limit)));
        // A channel that is always zero says nothing of where it ends.
        else
          least[at] = 0;
      }
    return least;
  }

  // Of each factor's channels, relative to the range of their quantization; the geometric mean over
  // several quantizations. 0: not known, or always zero.
  std::vector<double> relative_ranges() {
    std::vector<double> widths(annotation_.groups.size());
    std::map<std::pair<int, int>, double> parts;  // by group and factor
    for (uint32_t v = 0; v < largest_.channels.size(); ++v) {
      const int group = annotation_.group_of_value[v];
      if (group == Annotation::kNoGroup) continue;
      for (size_t c = 0; c < largest_.channels[v].size(); ++c) {
        const auto largest = static_cast<double>(largest_.channels[v][c]);
        double& width = widths[static_cast<size_t>(group)];
        width = std::max(width, largest);
        if (channels_[v].empty()) continue;
        double& part = parts[{group, factors_.find(channels_[v].factors[c])}];
        part = std::max(part, largest);
      }
    }
    std::vector<double> logs(factors_.size()), counts(factors_.size());
    for (const auto& [key, part] : parts) {
      if (part == 0) continue;
      logs[static_cast<size_t>(key.second)] +=
          std::log2(part / widths[static_cast<size_t>(key.first)]);
      ++counts[static_cast<size_t>(key.second)];
    }
    for (size_t i = 0; i < logs.size(); ++i)
      logs[i] = counts[i] == 0 ? 0 : std::exp2(logs[i] / counts[i]);
    return logs;
  }

  // Of each factor's columns, relative to the largest weight of the row; 0: only layers read it
  // whose rows have one column.
  std::vector<double> relative_weights() {
    std::vector<double> largest(factors_.size());
    for (const OpId id : layers_) {
      const Op& op = graph_.op(id);
      const Channels x = read_by(op);
      const WeightMap map(graph_, op);
      if (x.empty() || map.depthwise()) continue;
      const std::span<const float> weights = floats(op.operands[1]);
      std::vector<float> rows(
          static_cast<size_t>(graph_.type(op.results[0]).shape[*layer_axis(op)]));
      map.for_each([&](size_t i, size_t, size_t output) {
        rows[output] = std::max(rows[output], std::abs(weights[i]));
      });
      std::vector<size_t> roots(x.factors.size());
      for (size_t i = 0; i < roots.size(); ++i)
        roots[i] = static_cast<size_t>(factors_.find(x.factors[i]));
      map.for_each([&](size_t i, size_t input, size_t output) {
        const float row = rows[output];
        double& column = largest[roots[input]];
        if (row > 0) column = std::max(column, static_cast<double>(std::abs(weights[i]) / row));
      });
    }
    return largest;
  }

  // The factors that a layer takes into its weights; none: those of its operand lie along another
  // axis, and are 1.
  Channels read_by(const Op& layer) const {
    const Channels& x = of(layer.operands[0]);
    return x.axis == *layer_axis(layer) ? x : Channels();
  }

  // ---- constants

  // Divides parts of concatenations by their factor: the number that they are multiplied by, or a
  // product of its own, which in int8 is the same codes in another scale.
  void apply_to_parts() {
    for (const Part& part : parts_) {
      const double by = 1 / factor_[static_cast<size_t>(factors_.find(part.factor))];
      if (by == 1) continue;
      const ValueId value = graph_.op(part.op).operands[part.operand];
      const OpId number = product_with_number(value);
      if (number.valid() && graph_.value(value).uses.size() == 1 &&
          graph_.value(value).output_uses == 0) {
        scale(number, 1, [&](size_t) { return by; });
        continue;
      }
      const auto constant = module_.constants.add_values<float>(
          DType::kFloat32, std::vector<float>{static_cast<float>(by)});
      const ValueId factor = rewriter_.add_constant(Type{.dtype = DType::kFloat32}, constant,
                                                    graph_.value(value).name + "_factor");
      const Result<ValueId> scaled =
          rewriter_.insert_value(part.op, {.def = &ops::kMulTensor,
                                           .operands = {value, factor},
                                           .origin = graph_.op(part.op).origin,
                                           .name = graph_.value(value).name + "_scaled"});
      DTR_CHECK(scaled);
      rewriter_.set_operand(part.op, part.operand, *scaled);
    }
  }

  void apply_to_inputs() {
    for (const ValueId input : inputs_) {
      const Channels& channels = of(input);
      std::vector<float> by(channels.factors.size());
      for (size_t i = 0; i < by.size(); ++i) by[i] = static_cast<float>(1 / at(channels, i));
      if (std::ranges::all_of(by, [](float factor) { return factor == 1; })) continue;
      const std::vector<Use> uses = graph_.value(input).uses;
      OpId first;
      for (const OpId id : graph_.ops())
        if (!first.valid() &&
            std::ranges::any_of(uses, [&](const Use& use) { return use.op == id; }))
          first = id;
      Shape shape(graph_.type(input).rank() - channels.axis, 1);
      shape[0] = static_cast<int64_t>(by.size());
      const ConstantId constant =
          module_.constants.add_values<float>(DType::kFloat32, std::span<const float>(by));
      const ValueId factor =
          rewriter_.add_constant({.dtype = DType::kFloat32, .shape = std::move(shape)}, constant,
                                 graph_.value(input).name + "_factor");
      const Result<ValueId> scaled =
          rewriter_.insert_value(first, {.def = &ops::kMulTensor,
                                         .operands = {input, factor},
                                         .origin = graph_.op(first).origin,
                                         .name = graph_.value(input).name + "_scaled"});
      DTR_CHECK(scaled);
      for (const Use& use : uses) rewriter_.set_operand(use.op, use.operand, *scaled);
      report_.scaled_inputs.push_back(graph_.producer(*scaled));
    }
  }

  void apply() {
    apply_to_parts();
    for (const OpId id : layers_) {
      const Op& op = graph_.op(id);
      const Channels x = read_by(op), y = of(op.results[0]);
      const std::vector<double> in = all(x), out = all(y);
      std::vector<double> by(floats(op.operands[1]).size());
      WeightMap(graph_, op).for_each([&](size_t i, size_t input, size_t output) {
        by[i] = (in.empty() ? 1 : in[input]) / (out.empty() ? 1 : out[output]);
      });
      scale(id, 1, [&](size_t i) { return by[i]; });
      if (!y.empty() && operand_or_absent(op, 2).valid())
        scale(id, 2, [&](size_t i) { return 1 / at(y, i); });
    }
    for (const OpId id : norms_) {
      const Channels y = of(graph_.op(id).results[0]);
      for (size_t operand = 1; operand < graph_.op(id).operands.size(); ++operand)
        if (graph_.op(id).operands[operand].valid())
          scale(id, operand, [&](size_t i) { return 1 / at(y, i); });
    }
    apply_to_inputs();  // last: layers then read values that have no channels here
  }

  // What `apply` does, by the writer.
  void write() {
    // Of each channel; none: all are 1.
    const auto changed = [&](const Channels& channels, bool inverse) {
      std::vector<double> by = all(channels);
      if (inverse)
        for (double& factor : by) factor = 1 / factor;
      if (std::ranges::all_of(by, [](double factor) { return factor == 1; })) by.clear();
      return by;
    };
    for (const Part& part : parts_)
      if (const double by = 1 / factor_[static_cast<size_t>(factors_.find(part.factor))]; by != 1)
        writer_->scale_operand(part.op, part.operand, by);
    for (const OpId id : layers_) {
      const std::vector<double> in = changed(read_by(graph_.op(id)), false),
                                out = changed(of(graph_.op(id).results[0]), true);
      if (!in.empty() || !out.empty()) writer_->scale_layer(id, in, out);
    }
    for (const OpId id : norms_)
      if (const std::vector<double> out = changed(of(graph_.op(id).results[0]), true); !out.empty())
        writer_->scale_norm(id, out);
    for (const ValueId input : inputs_)
      if (const std::vector<double> by = changed(of(input), true); !by.empty())
        writer_->scale_input(input, of(input).axis, {by.begin(), by.end()});
  }

  std::vector<double> all(const Channels& channels) {
    std::vector<double> factors(channels.factors.size());
    for (size_t i = 0; i < factors.size(); ++i) factors[i] = at(channels, i);
    return factors;
  }
  double at(const Channels& channels, size_t i) {
    return factor_[static_cast<size_t>(factors_.find(channels.factors[i]))];
  }

  template <class Factor>
  void scale(OpId id, size_t operand, const Factor& factor) {
    const ValueId old = graph_.op(id).operands[operand];
    const std::span<const float> values = floats(old);
    std::vector<float> scaled(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      scaled[i] = static_cast<float>(static_cast<double>(values[i]) * factor(i));
    if (std::ranges::equal(scaled, values)) return;
    const ConstantId constant =
        module_.constants.add_values<float>(DType::kFloat32, std::span<const float>(scaled));
    rewriter_.set_operand(
        id, operand,
        rewriter_.add_constant(graph_.type(old), constant, graph_.value(old).name + "_equalized"));
  }

  std::span<const float> floats(ValueId constant) const {
    return module_.constants.values<float>(graph_.value(constant).constant);
  }

  Module& module_;
  Graph& graph_;
  Rewriter rewriter_;
  const Annotation& annotation_;
  FactorWriter* writer_;
  std::vector<Channels> channels_;  // by value slot
  Sets factors_;
  std::vector<OpId> layers_, norms_;
  struct Part {
    OpId op;  // the concatenation
    size_t operand;
    int factor;
  };
  std::vector<ValueId> inputs_;  // with factors
  std::vector<Part> parts_;      // with a factor for all channels
  struct Bounded {
    ValueId value;
    double limit;  // of the magnitude of its elements
  };
  std::vector<Bounded> bounded_;
  std::vector<Magnitudes> samples_;  // on which `graph` ran
  Magnitudes largest_;               // of all of them
  std::vector<double> factor_;
  Equalization report_;
};

}  // namespace

Result<Equalization> equalize(Module& module, Graph& graph, const Annotation& annotation,
                              Executor& executor, const Samples& samples, unsigned threads,
                              FactorWriter* writer) {
  return Equalizer(module, graph, annotation, writer).run(executor, samples, threads);
}

}  // namespace dtr
