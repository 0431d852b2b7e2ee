// aten.hardshrink: x, and 0 inside of [−lambd, lambd].
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

struct Function {
  double lambd;
  explicit Function(const OpView& view) : lambd(view.attribute_or("lambd", 0.5)) {}
  template <class T>
  T operator()(T x) const {
    const auto bound = static_cast<T>(lambd);
    return x >= -bound && x <= bound ? T{0} : x;
  }
};

constexpr AttributeDef kAttributes[] = {{"lambd", AttributeKind::kFloat, false}};

}  // namespace

constinit const OpDef kHardshrink = unary_op<Function>("aten.hardshrink", "x, and 0 where |x| <= lambd", kAttributes);

}  // namespace dtr::ops
