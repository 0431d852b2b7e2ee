// aten.threshold: x where it is above the threshold, else value.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

struct Function {
  double threshold, value;
  explicit Function(const OpView& view)
      : threshold(view.attribute<double>("threshold")), value(view.attribute<double>("value")) {}
  template <class T>
  T operator()(T x) const {
    return x <= static_cast<T>(threshold) ? static_cast<T>(value) : x;
  }
};

}  // namespace

constinit const OpDef kThreshold =
    unary_op<Function>({.name = "aten.threshold",
                        .summary = "x where above threshold, else value",
                        .schema = "(Tensor self, Scalar threshold, Scalar value)"});

}  // namespace dtr::ops
