// Divisions beside aten.div.Tensor, with broadcasting: aten.div.Tensor_mode (the quotient rounded
// to −∞ or to 0), aten.fmod.Tensor (the remainder with the sign of a), aten.remainder.Tensor (with
// the sign of b). Of integers they are exact; a quotient by 0, which PyTorch refuses, is 0 and its
// remainder a.
#include "compiler/ops/binary.h"

namespace dtr::ops {
namespace {

// PyTorch's: of the exact quotient, not of the rounded one.
constexpr auto kFloorDivide = []<class T>(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return T{0};
    if (b == -1) return static_cast<T>(-static_cast<uint64_t>(a));
    return static_cast<T>(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
  } else {
    if (b == 0) return a / b;
    const T rest = std::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return std::copysign(T{0}, a / b);
    const T floor = std::floor(quotient);
    return quotient - floor > T{0.5} ? floor + 1 : floor;
  }
};

constexpr auto kTruncateDivide = []<class T>(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return T{0};
    return b == -1 ? static_cast<T>(-static_cast<uint64_t>(a)) : static_cast<T>(a / b);
  } else {
    return std::trunc(a / b);
  }
};

constexpr auto kFmod = []<class T>(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return b == 0 ? a : b == -1 ? T{0} : static_cast<T>(a % b);
  } else {
    return std::fmod(a, b);
  }
};

constexpr auto kRemainder = []<class T>(T a, T b) {
  const T rest = kFmod(a, b);
  return static_cast<T>(rest != 0 && b != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
};

// In float alone or of plain integers: a step is nothing that int8 keeps.
template <auto kFunction>
constexpr OpDef division_op(std::string_view name, std::string_view summary,
                            std::string_view kernel = {}) {
  OpDef def = binary_op_on_numbers<kFunction, int64_t>({.name = name,
                                                        .summary = summary,
                                                        .schema = "(Tensor self, Tensor other)",
                                                        .kernel = kernel});
  def.evaluate_integer = nullptr;
  return def;
}

Result<void> verify_rounded(const OpView& view) {
  DTR_TRY(verify_binary(view));
  const auto mode = view.attribute_or<std::string>("rounding_mode", "");
  if (mode != "floor" && mode != "trunc")
    return broken(view, fmt::format("`rounding_mode` is `{}`, expected floor or trunc", mode));
  return {};
}

template <class T>
void evaluate_rounded(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const bool floor = view.attribute<std::string>("rounding_mode") == "floor";
  (floor ? evaluate_numbers<T, kFloorDivide, int64_t>
         : evaluate_numbers<T, kTruncateDivide, int64_t>)(view, operands, results);
}

}  // namespace

constinit const OpDef kDivTensorMode = [] {
  OpDef def = division_op<kFloorDivide>("aten.div.Tensor_mode",
                                        "a / b rounded to a smaller integer, or towards 0",
                                        "aten::div.out_mode");
  def.schema = "(Tensor self, Tensor other, *, str? rounding_mode)";
  def.verify = verify_rounded;
  def.evaluate_float = evaluate_rounded<float>;
  def.evaluate_double = evaluate_rounded<double>;
  return def;
}();
constinit const OpDef kFmodTensor = division_op<kFmod>(
    "aten.fmod.Tensor", "the remainder of a / b with the sign of a", "aten::fmod.Tensor_out");
constinit const OpDef kRemainderTensor =
    division_op<kRemainder>("aten.remainder.Tensor", "the remainder of a / b with the sign of b",
                            "aten::remainder.Tensor_out");

}  // namespace dtr::ops
