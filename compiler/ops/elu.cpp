// aten.elu: scale · x where it is positive, else scale · alpha · (exp(input_scale · x) − 1); selu
// and celu are this with other numbers.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

struct Function {
  double alpha, scale, input_scale;
  explicit Function(const OpView& view)
      : alpha(view.argument<double>("alpha")),
        scale(view.argument<double>("scale")),
        input_scale(view.argument<double>("input_scale")) {}
  template <class T>
  T operator()(T x) const {
    if (x > 0) return x * static_cast<T>(scale);
    return std::expm1(x * static_cast<T>(input_scale)) * static_cast<T>(alpha * scale);
  }
};

}  // namespace

constinit const OpDef kElu = unary_op<Function>(
    {.name = "aten.elu",
     .summary = "scale * x where positive, else scale * alpha * (exp(input_scale * x) - 1)",
     .schema = "(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1)",
     .tflite = {"ELU", 0}});

}  // namespace dtr::ops
