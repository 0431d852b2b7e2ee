// aten.mul.Tensor: a · b with broadcasting, then the fused activation.
#include "compiler/ops/binary.h"

namespace dtr::ops {
namespace {

constexpr AttributeDef kAttributes[] = {kActivationAttribute, kQdqAttribute};

}  // namespace

constinit const OpDef kMulTensor =
    binary_op<[](auto a, auto b) { return a * b; }>("aten.mul.Tensor", "a * b with broadcasting", kAttributes, kCommutative);

}  // namespace dtr::ops
