// aten.mul.Tensor: a · b with broadcasting, then the fused activation.
#include "compiler/ops/binary.h"

namespace dtr::ops {
constinit const OpDef kMulTensor =
    binary_op_on_numbers<[](auto a, auto b) { return a * b; }, uint64_t>(
        {.name = "aten.mul.Tensor",
         .summary = "a * b with broadcasting",
         .schema = "(Tensor self, Tensor other | str? activation=None, bool qdq=False)",
         .traits = kCommutative});

}  // namespace dtr::ops
