// aten.elu: scale · x where it is positive, else scale · alpha · (exp(input_scale · x) − 1); selu and celu are this with other numbers.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

struct Function {
  double alpha, scale, input_scale;
  explicit Function(const OpView& view)
      : alpha(view.attribute_or("alpha", 1.0)),
        scale(view.attribute_or("scale", 1.0)),
        input_scale(view.attribute_or("input_scale", 1.0)) {}
  template <class T>
  T operator()(T x) const {
    if (x > 0) return x * static_cast<T>(scale);
    return std::expm1(x * static_cast<T>(input_scale)) * static_cast<T>(alpha * scale);
  }
};

constexpr AttributeDef kAttributes[] = {
    {"alpha", AttributeKind::kFloat, false}, {"scale", AttributeKind::kFloat, false}, {"input_scale", AttributeKind::kFloat, false}};

}  // namespace

constinit const OpDef kElu =
    unary_op<Function>("aten.elu", "scale * x where positive, else scale * alpha * (exp(input_scale * x) - 1)", kAttributes);

}  // namespace dtr::ops
