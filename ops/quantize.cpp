// quantize: where float becomes int8; the result's type says scale and zero point.
#include "ops/define.h"

namespace dtr::ops {
namespace {

Status verify(const OpView& view) {
  if (!is_float(view.operand(0).dtype)) return broken(view, fmt::format("the operand is {}, expected float", name(view.operand(0).dtype)));
  if (!view.results.empty() && !per_tensor(view.result())) return broken(view, "the result is not quantized per tensor");
  return {};
}

std::vector<Type> infer(const OpView& view) { return {{.dtype = DType::kInt8, .shape = view.operand(0).shape}}; }

}  // namespace

constinit const OpDef kQuantize{
    .name = "quantize",
    .summary = "float to int8 with the quantization of the result",
    .traits = kElementwise,
    .verify = verify,
    .infer = infer,
};

}  // namespace dtr::ops
