// Functions of two tensors that int8 has no form of, with broadcasting: aten.atan2,
// aten.pow.Tensor_Tensor.
#include "compiler/ops/binary.h"

namespace dtr::ops {
namespace {

template <auto kFunction>
constexpr OpDef float_op(OpDef def) {
  def = binary_op<kFunction>(def);
  def.evaluate_integer = nullptr;
  return def;
}

}  // namespace

constinit const OpDef kAtan2 = float_op<[](auto a, auto b) { return std::atan2(a, b); }>(
    {.name = "aten.atan2",
     .summary = "the angle whose tangent is a / b, in all four quadrants",
     .schema = "(Tensor self, Tensor other)"});
constinit const OpDef kPowTensorTensor = float_op<[](auto a, auto b) { return std::pow(a, b); }>(
    {.name = "aten.pow.Tensor_Tensor",
     .summary = "a to the power of b",
     .schema = "(Tensor self, Tensor exponent)",
     .kernel = "aten::pow.Tensor_Tensor_out"});

}  // namespace dtr::ops
