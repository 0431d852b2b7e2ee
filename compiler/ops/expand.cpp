// aten.expand: the operand broadcast to the shape `size`: dimensions of extent 1 and new leading
// ones are repeated.
#include "compiler/ir/reorder.h"
#include "compiler/ops/broadcast.h"
#include "compiler/ops/movement.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(check_moves(view));
  const Shape& from = view.operand(0).shape;
  const Ints& size = view.attribute<Ints>("size");
  bool fits = from.size() <= size.size();
  for (size_t i = 0; fits && i < size.size(); ++i) {
    const size_t missing = size.size() - from.size();
    fits = size[i] >= 0 && size[i] <= kMaxExtent &&
           (i < missing || from[i - missing] == 1 || from[i - missing] == size[i]);
  }
  if (!fits)
    return broken(view, fmt::format("{} does not broadcast to `size` [{}]", to_string(from),
                                    fmt::join(size, ", ")));
  return check_result_shape(view, size);
}

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = view.operand(0).dtype, .shape = view.attribute<Ints>("size")}};
}

void evaluate(const OpView&, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const Shape& shape = results[0].shape;
  reorder(shape, byte_size(operands[0].dtype), operands[0].data,
          broadcast_strides(operands[0].shape, shape), results[0].data,
          strides(shape, Layout::kContiguous));
}

}  // namespace

constinit const OpDef kExpand =
    moving_op(evaluate, {.name = "aten.expand",
                         .summary = "the operand repeated to the shape `size`",
                         .schema = "(Tensor self, int[] size)",
                         .verify = verify,
                         .infer = infer});

}  // namespace dtr::ops
