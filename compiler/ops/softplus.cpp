// aten.softplus: log(1 + exp(beta · x)) / beta, and x itself where beta · x exceeds the threshold.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

struct Function {
  double beta, threshold;
  explicit Function(const OpView& view) : beta(view.attribute_or("beta", 1.0)), threshold(view.attribute_or("threshold", 20.0)) {}
  template <class T>
  T operator()(T x) const {
    const T scaled = x * static_cast<T>(beta);
    return scaled > static_cast<T>(threshold) ? x : std::log1p(std::exp(scaled)) / static_cast<T>(beta);
  }
};

constexpr AttributeDef kAttributes[] = {{"beta", AttributeKind::kFloat, false}, {"threshold", AttributeKind::kFloat, false}};

}  // namespace

constinit const OpDef kSoftplus =
    unary_op<Function>("aten.softplus", "log(1 + exp(beta * x)) / beta; x where beta * x exceeds threshold", kAttributes);

}  // namespace dtr::ops
