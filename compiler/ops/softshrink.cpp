// aten.softshrink: x nearer to 0 by lambd, and 0 inside of [−lambd, lambd].
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

struct Function {
  double lambd;
  explicit Function(const OpView& view) : lambd(view.argument<double>("lambd")) {}
  template <class T>
  T operator()(T x) const {
    const auto bound = static_cast<T>(lambd);
    return x > bound ? x - bound : x < -bound ? x + bound : x * T{0};  // NaN stays NaN
  }
};

Result<void> verify(const OpView& view) {
  DTR_TRY(verify_activation(view));
  const Function function(view);
  if (!(function.lambd >= 0))
    return broken(view, fmt::format("`lambd` is {}, expected 0 or more", function.lambd));
  return {};
}

}  // namespace

constinit const OpDef kSoftshrink =
    unary_op<Function>({.name = "aten.softshrink",
                        .summary = "x nearer to 0 by lambd; 0 where |x| <= lambd",
                        .schema = "(Tensor self, Scalar lambd=0.5)",
                        .verify = verify});

}  // namespace dtr::ops
