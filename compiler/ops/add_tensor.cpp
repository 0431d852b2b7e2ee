// aten.add.Tensor: a + alpha · b with broadcasting, then the fused activation.
#include "compiler/ops/binary.h"

namespace dtr::ops {
namespace {

constexpr auto kFunctionOf = [](auto alpha) {
  return [alpha](auto a, auto b) { return a + alpha * b; };
};

}  // namespace

constinit const OpDef kAddTensor = binary_op_with_alpha<kFunctionOf>(
    {.name = "aten.add.Tensor",
     .summary = "a + alpha * b with broadcasting",
     .schema = "(Tensor self, Tensor other, *, Scalar alpha=1 | str? activation=None)"});

}  // namespace dtr::ops
