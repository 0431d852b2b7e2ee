// aten.hardshrink: x, and 0 inside of [−lambd, lambd].
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

struct Function {
  double lambd;
  explicit Function(const OpView& view) : lambd(view.argument<double>("lambd")) {}
  template <class T>
  T operator()(T x) const {
    const auto bound = static_cast<T>(lambd);
    return x >= -bound && x <= bound ? T{0} : x;
  }
};

}  // namespace

constinit const OpDef kHardshrink =
    unary_op<Function>({.name = "aten.hardshrink",
                        .summary = "x, and 0 where |x| <= lambd",
                        .schema = "(Tensor self, Scalar lambd=0.5)"});

}  // namespace dtr::ops
