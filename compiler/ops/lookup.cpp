// lookup: any function of one byte, as the table of its results. Passes make it of operators that
// compute the function in other ways (compiler/transforms/fold_lookups.cpp).
#include <algorithm>

#include "compiler/ops/define.h"

namespace dtr::ops {
namespace {

// Whether codes of such a type are those of one scale and zero point, or have none.
bool is_plain(const Type& type) {
  return type.dtype == DType::kInt8 ? !type.quantized() || per_tensor(type) : !type.quantized();
}

Result<void> verify(const OpView& view) {
  const Type& x = view.operand(0);
  const auto& wanted = view.attribute<std::string>("dtype");
  const auto dtype = dtype_from_name(wanted);
  if (byte_size(x.dtype) != 1 || !is_plain(x))
    return broken(view, fmt::format("the operand is {}, expected i8, u8 or bool, quantized per "
                                    "tensor or not",
                                    name(x.dtype)));
  if (dtype != DType::kInt8 && dtype != DType::kUint8)
    return broken(view, fmt::format("`dtype` is `{}`, expected i8 or u8", wanted));
  if (!view.results.empty() && !is_plain(view.result()))
    return broken(view, "the result is quantized otherwise than int8 per tensor");
  const bool is_signed = dtype == DType::kInt8;
  return check_ints(view, "codes", 256, is_signed ? -128 : 0, is_signed ? 127 : 255);
}

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = *dtype_from_name(view.attribute<std::string>("dtype")),
           .shape = view.operand(0).shape}};
}

void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const Ints& codes = view.attribute<Ints>("codes");
  // The least value of the operand's dtype reads entry 0.
  const unsigned flip = operands[0].dtype == DType::kInt8 ? 0x80 : 0;
  const std::span<const std::byte> x{operands[0].data, operands[0].bytes()};
  std::ranges::transform(x, results[0].data, [&](std::byte byte) {
    return static_cast<std::byte>(codes[std::to_integer<unsigned>(byte) ^ flip]);
  });
}

}  // namespace

constinit const OpDef kLookup =
    with_one_evaluation(evaluate, {.name = "lookup",
                                   .summary = "a function of one byte, whose results are listed",
                                   .schema = "(Tensor self, int[] codes, str dtype)",
                                   .traits = kElementwise,
                                   .kernel = "deuteron::lookup.out",
                                   .verify = verify,
                                   .infer = infer});

}  // namespace dtr::ops
