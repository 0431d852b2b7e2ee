// requantize: int8 with one quantization to int8 with another, in integers.
#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(check_activation(view));
  if (!view.operand(0).quantized())
    return broken(view, "the operand is float, expected quantized i8");
  return {};
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  rescale(view, {}, operands[0], results[0]);
}

}  // namespace

constinit const OpDef kRequantize{
    .name = "requantize",
    .summary = "int8 to int8 with another scale and zero point",
    .schema = "(Tensor self | bool qdq=False)",
    .traits = kElementwise,
    .tflite = {"QUANTIZE", 2},
    .verify = verify,
    .infer = infer_like_first,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
