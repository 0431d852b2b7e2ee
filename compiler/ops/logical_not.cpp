// aten.logical_not of bool: true where the operand is false.
#include <algorithm>

#include "compiler/ops/define.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  if (view.operand(0).dtype != DType::kBool)
    return broken(view, fmt::format("operand 0 is {}, expected bool", name(view.operand(0).dtype)));
  return {};
}

void evaluate(const OpView&, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  std::ranges::transform(operands[0].values<uint8_t>(), results[0].values<uint8_t>().begin(),
                         [](uint8_t x) { return static_cast<uint8_t>(x == 0 ? 1 : 0); });
}

}  // namespace

constinit const OpDef kLogicalNot =
    with_one_evaluation(evaluate, {.name = "aten.logical_not",
                                   .summary = "true where the operand is false",
                                   .verify = verify,
                                   .infer = infer_like_first});

}  // namespace dtr::ops
