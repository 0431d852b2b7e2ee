// aten.amax: the greatest element over the dimensions `dim` (all if empty).
#include "ops/reduction.h"

namespace dtr::ops {
namespace {

Status verify(const OpView& view) {
  DTR_TRY(verify_reduction_of_some(view));
  return check_keeps_quantization(view);
}

}  // namespace

constinit const OpDef kAmax{
    .name = "aten.amax",
    .summary = "the greatest element over the dimensions `dim`",
    .attributes = kReductionAttributes,
    .traits = kKeepsQuantization,
    .verify = verify,
    .infer = infer_reduction,
    .evaluate_float = reduce_to_extreme<float, true>,
    .evaluate_double = reduce_to_extreme<double, true>,
    .evaluate_integer = reduce_to_extreme<int8_t, true>,
};

}  // namespace dtr::ops
