// dim_order_ops._to_dim_order_copy: the same tensor in another physical order. Placed by the layout
// solver; logically the identity.
#include "compiler/ops/movement.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  const auto& layout = view.attribute<std::string>("layout");
  if (layout != "contiguous" && layout != "channels_last")
    return broken(view, fmt::format("unknown layout `{}`", layout));
  return check_moves(view);
}

// Reference tensors are always in logical order, so there is nothing to move.
void evaluate(const OpView&, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  std::memcpy(results[0].data, operands[0].data, operands[0].bytes());
}

}  // namespace

constinit const OpDef kToDimOrderCopy =
    moving_op(evaluate, {.name = "dim_order_ops._to_dim_order_copy",
                         .summary = "the same tensor in another physical order of dimensions",
                         .schema = "(Tensor self | str layout)",
                         .verify = verify,
                         .infer = infer_like_first});

}  // namespace dtr::ops
