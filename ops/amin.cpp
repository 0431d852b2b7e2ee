// aten.amin: the least element over the dimensions `dim` (all if empty).
#include "ops/reduction.h"

namespace dtr::ops {
namespace {

Status verify(const OpView& view) {
  DTR_TRY(verify_reduction_of_some(view));
  return check_keeps_quantization(view);
}

}  // namespace

constinit const OpDef kAmin{
    .name = "aten.amin",
    .summary = "the least element over the dimensions `dim`",
    .attributes = kReductionAttributes,
    .traits = kKeepsQuantization,
    .verify = verify,
    .infer = infer_reduction,
    .evaluate_float = reduce_to_extreme<float, false>,
    .evaluate_double = reduce_to_extreme<double, false>,
    .evaluate_integer = reduce_to_extreme<int8_t, false>,
};

}  // namespace dtr::ops
