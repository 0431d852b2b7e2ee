// Quantization patterns of a backend: for each op, how each operand and result becomes int8 (a bias
// int32). The quantizer resolves the specs of all ops against each other (annotate.h), observes
// values (calibration.h) and rewrites the graph (convert.h).
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace dtr {

// The scale of an activation that was zero in all of calibration: it still gets a range.
inline constexpr float kActivationEps = 0x1p-20F;
// The smallest scale of others, and of weights; products of scales stay far from where float32 has
// none. ExecuTorch's Neutron quantizer has 2^-12, and 2^-23 of weights: 8 codes within ±10^-6.
inline constexpr float kLeastScale = 0x1p-48F;

struct QuantSpec {
  enum class Kind : uint8_t {
    kNone,       // keeps its type
    kAffine,     // int8 per tensor, −128…127, scale and zero point from the observed range
    kSymmetric,  // int8 per tensor, −127…127, zero point 0; from the observed range, or from the
                 // content of a constant
    kPerChannel,  // constant only: int8, −127…127, zero point 0, one scale for each index along
                  // `axis`
    kBias,  // constant only: int32, scale = scale of operand 0 · scale of operand 1 (per channel if
            // that is)
    kFixed,  // int8 per tensor, −128…127, `scale` and `zero_point` as given, unless it `narrows`
    kShared,  // the quantization of operand `operand` of the same op
  };
  // kHistogram, kTail: best_range of what was observed, or is expected (observer.h); kMinMax: the
  // extremes.
  enum class Observer : uint8_t { kHistogram, kMinMax, kTail };
  static constexpr std::array<std::string_view, 3> kObserverNames = {"histogram", "min-max",
                                                                     "tail"};

  Kind kind = Kind::kNone;
  Observer observer = Observer::kHistogram;  // kAffine, kSymmetric
  float least_scale = kLeastScale;  // kAffine, kSymmetric: lower bound of the observed scale
  int axis = -1;                    // kPerChannel
  float scale = 0;                  // kFixed
  int32_t zero_point = 0;           // kFixed
  // kFixed: where the observed range needs less than half of the scale, that range is used
  bool narrows = false;
  uint32_t operand = 0;  // kShared
  // kShared result: elements may be outside of the operand's range, so they are observed too
  bool widens = false;
  bool operator==(const QuantSpec&) const = default;

  static QuantSpec none() { return {}; }
  static QuantSpec affine(Observer with = Observer::kHistogram) {
    return {.kind = Kind::kAffine, .observer = with};
  }
  static QuantSpec symmetric(Observer with = Observer::kMinMax) {
    return {.kind = Kind::kSymmetric, .observer = with};
  }
  static QuantSpec channelwise(int along) { return {.kind = Kind::kPerChannel, .axis = along}; }
  static QuantSpec bias() { return {.kind = Kind::kBias}; }
  static QuantSpec fixed(float s, int32_t zp) {
    return {.kind = Kind::kFixed, .scale = s, .zero_point = zp};
  }
  static QuantSpec at_most(float s, int32_t zp) {
    return {.kind = Kind::kFixed, .scale = s, .zero_point = zp, .narrows = true};
  }
  // The quantization is known without observing a value.
  bool is_given() const { return kind == Kind::kFixed && !narrows; }
  // This spec with another lower bound of the scale.
  QuantSpec at_least(float smallest) const {
    QuantSpec spec = *this;
    spec.least_scale = smallest;
    return spec;
  }
  static QuantSpec shared_with(uint32_t index, bool may_widen = false) {
    return {.kind = Kind::kShared, .operand = index, .widens = may_widen};
  }
};

// The elements of its first operand that an op tells apart. Others have the effect of the nearest
// bound, to less than half a step of an int8 result: they may saturate. A softmax has no use for
// elements far below the greatest of their row, such as masked ones; tanh none for those above 5.
struct ReadWindow {
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // From min(greatest element, `top`) − `below` on; greatest of the row along `dim`, or of all.
  float below = kInfinity;
  float top = kInfinity;
  float high = kInfinity;  // up to here
  std::optional<int64_t> dim;
  bool mirrored = false;  // all of this holds for −x
  bool operator==(const ReadWindow&) const = default;
};

// One entry for each operand and each result of the op.
struct OpAnnotation {
  std::vector<QuantSpec> operands;
  std::vector<QuantSpec> results;
  // The result's elements are elements of the operands or bounds, and which of them does not depend
  // on the exact values of the others: maximum, clamp, slice. Elements that such an op never
  // selects need no codes; they may saturate.
  bool selects = false;
  std::optional<ReadWindow> window;  // none: all elements count
};

// Why an op stays float.
struct FloatReason {
  std::string_view id;  // stable, kebab-case: "quantizer-no-pattern"
  std::string reason;
  std::string remedy = {};
};

class QuantizationPatterns {
 public:
  virtual ~QuantizationPatterns() = default;
  virtual std::string_view name() const = 0;  // of the backend
  // The specs of `op`, or why it stays float.
  virtual tl::expected<OpAnnotation, FloatReason> annotate(const Graph& graph, OpId op) const = 0;
};

}  // namespace dtr
