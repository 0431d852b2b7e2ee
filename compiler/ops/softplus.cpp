// aten.softplus: log(1 + exp(beta · x)) / beta, and x itself where beta · x exceeds the threshold.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

struct Function {
  double beta, threshold;
  explicit Function(const OpView& view)
      : beta(view.argument<double>("beta")), threshold(view.argument<double>("threshold")) {}
  template <class T>
  T operator()(T x) const {
    const T scaled = x * static_cast<T>(beta);
    return scaled > static_cast<T>(threshold) ? x
                                              : std::log1p(std::exp(scaled)) / static_cast<T>(beta);
  }
};

}  // namespace

constinit const OpDef kSoftplus = unary_op<Function>(
    {.name = "aten.softplus",
     .summary = "log(1 + exp(beta * x)) / beta; x where beta * x exceeds threshold",
     .schema = "(Tensor self, Scalar beta=1, Scalar threshold=20)"});

}  // namespace dtr::ops
