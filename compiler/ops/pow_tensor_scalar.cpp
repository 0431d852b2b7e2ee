// aten.pow.Tensor_Scalar: x to the power of a number.
#include "compiler/ops/unary.h"

namespace dtr::ops {
namespace {

struct Function {
  double exponent;
  explicit Function(const OpView& view) : exponent(view.attribute<double>("exponent")) {}
  template <class T>
  T operator()(T x) const {
    return std::pow(x, static_cast<T>(exponent));
  }
};

}  // namespace

constinit const OpDef kPowTensorScalar =
    unary_op<Function>({.name = "aten.pow.Tensor_Scalar",
                        .summary = "x to the power of a number",
                        .schema = "(Tensor self, Scalar exponent)",
                        .kernel = "aten::pow.Tensor_Scalar_out"});

}  // namespace dtr::ops
