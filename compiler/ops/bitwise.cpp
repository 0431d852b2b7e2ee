// Operators on the bits of plain integers, with broadcasting, and of bools, where they are the
// logical ones: aten.bitwise_and.Tensor, aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor,
// aten.bitwise_not; of bools alone aten.logical_and, aten.logical_or, aten.logical_xor.
#include "compiler/ops/binary.h"
#include "compiler/ops/integral.h"

namespace dtr::ops {
namespace {

Result<void> check_integers(const OpView& view, bool bools_only) {
  for (size_t i = 0; i < view.operands.size(); ++i) {
    const Type& type = view.operand(i);
    if (!is_integral(type) || (bools_only && type.dtype != DType::kBool))
      return broken(view, fmt::format("operand {} is {}{}, expected {}", i, name(type.dtype),
                                      type.quantized() ? ", quantized" : "",
                                      bools_only ? "bool" : "a plain integer or bool"));
  }
  return {};
}

template <bool kBoolsOnly>
Result<void> verify(const OpView& view) {
  DTR_TRY(check_integers(view, kBoolsOnly));
  return view.operands.size() == 1 ? Result<void>{} : verify_binary(view);
}

template <auto kFunction>
void evaluate(const OpView&, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  map_integer_pairs<uint64_t>(operands, results[0], kFunction);
}

// Of bools, ~ is `not`: 0 and 1 are what they hold.
void evaluate_not(const OpView&, std::span<const TensorView> operands,
                  std::span<const TensorView> results) {
  const uint64_t mask = operands[0].dtype == DType::kBool ? 1 : ~uint64_t{0};
  map_integers<uint64_t>(operands[0], results[0], [mask](uint64_t x) { return x ^ mask; });
}

template <auto kFunction, bool kBoolsOnly>
constexpr OpDef bits_op(std::string_view name, std::string_view kernel, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .schema = "(Tensor self, Tensor other)",
          .traits = kElementwise | kCommutative | kOnIntegers,
          .kernel = kernel,
          .verify = verify<kBoolsOnly>,
          .infer = infer_binary,
          .evaluate_float = evaluate<kFunction>,
          .evaluate_double = evaluate<kFunction>};
}

constexpr auto kAnd = [](uint64_t a, uint64_t b) { return a & b; };
constexpr auto kOr = [](uint64_t a, uint64_t b) { return a | b; };
constexpr auto kXor = [](uint64_t a, uint64_t b) { return a ^ b; };

}  // namespace

constinit const OpDef kBitwiseAndTensor = bits_op<kAnd, false>(
    "aten.bitwise_and.Tensor", "aten::bitwise_and.Tensor_out", "the bits that both have");
constinit const OpDef kBitwiseNot{.name = "aten.bitwise_not",
                                  .summary = "every bit inverted; of bool: not",
                                  .traits = kElementwise | kOnIntegers,
                                  .verify = verify<false>,
                                  .infer = infer_like_first,
                                  .evaluate_float = evaluate_not,
                                  .evaluate_double = evaluate_not};
constinit const OpDef kBitwiseOrTensor = bits_op<kOr, false>(
    "aten.bitwise_or.Tensor", "aten::bitwise_or.Tensor_out", "the bits that one of both has");
constinit const OpDef kBitwiseXorTensor = bits_op<kXor, false>(
    "aten.bitwise_xor.Tensor", "aten::bitwise_xor.Tensor_out", "the bits in which both differ");
constinit const OpDef kLogicalAnd =
    bits_op<kAnd, true>("aten.logical_and", "", "true where both are");
constinit const OpDef kLogicalOr =
    bits_op<kOr, true>("aten.logical_or", "", "true where one of both is");
constinit const OpDef kLogicalXor =
    bits_op<kXor, true>("aten.logical_xor", "", "true where both differ");

}  // namespace dtr::ops
