#include "compiler/ops/movement.h"

namespace dtr::ops {

Result<void> check_moves(const OpView& view) {
  DTR_TRY(check_keeps_quantization(view));
  const Type& x = view.operand(0);
  if (x.quantized() && x.quantization->per_channel())
    return broken(view, "the operand is quantized per channel");
  return {};
}

}  // namespace dtr::ops
