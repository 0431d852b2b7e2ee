// Functions of two tensors that int8 has no form of, with broadcasting: aten.atan2,
// aten.pow.Tensor_Tensor. Powers of integers wrap, as PyTorch's do; a negative exponent gives the
// fraction 1 / a^b cut to an integer: 0, or ±1 for the bases 1 and −1.
#include "compiler/ops/binary.h"

namespace dtr::ops {
namespace {

constexpr auto kPower = []<class T>(T base, T exponent) {
  if constexpr (std::is_integral_v<T>) {
    if (exponent < 0) return base == 1 || base == -1 ? (exponent % 2 == 0 ? T{1} : base) : T{0};
    uint64_t result = 1;
    for (auto factor = static_cast<uint64_t>(base); exponent != 0; exponent /= 2) {
      if (exponent % 2 != 0) result *= factor;
      factor *= factor;
    }
    return static_cast<T>(result);
  } else {
    return std::pow(base, exponent);
  }
};

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
constinit const OpDef kPowTensorTensor = [] {
  OpDef def = binary_op_on_numbers<kPower, int64_t>({.name = "aten.pow.Tensor_Tensor",
                                                     .summary = "a to the power of b",
                                                     .schema = "(Tensor self, Tensor exponent)",
                                                     .kernel = "aten::pow.Tensor_Tensor_out"});
  def.evaluate_integer = nullptr;
  return def;
}();

}  // namespace dtr::ops
