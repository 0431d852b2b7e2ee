// aten.flip: the elements in reverse order along `dims`.
#include "compiler/ir/reorder.h"
#include "compiler/ops/movement.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(check_moves(view));
  const size_t rank = view.operand(0).rank();
  std::vector<bool> seen(rank);
  for (const int64_t dim : view.attribute<Ints>("dims")) {
    const auto at = normalize_dim(dim, rank);
    if (!at || seen[*at])
      return broken(view, fmt::format("`dims` [{}] is out of range or repeats for rank {}",
                                      fmt::join(view.attribute<Ints>("dims"), ", "), rank));
    seen[*at] = true;
  }
  return {};
}

void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  if (operands[0].elements() == 0) return;
  const Shape& shape = operands[0].shape;
  const std::vector<int64_t> own = strides(shape, Layout::kContiguous);
  std::vector<int64_t> from = own;
  int64_t first = 0;
  for (const int64_t dim : view.attribute<Ints>("dims")) {
    const size_t at = *normalize_dim(dim, shape.size());
    first += (shape[at] - 1) * own[at];
    from[at] = -own[at];
  }
  const size_t element = byte_size(operands[0].dtype);
  reorder(shape, element, operands[0].data + static_cast<size_t>(first) * element, from,
          results[0].data, own);
}

}  // namespace

constinit const OpDef kFlip =
    moving_op(evaluate, {.name = "aten.flip",
                         .summary = "the elements in reverse order along `dims`",
                         .schema = "(Tensor self, int[] dims)",
                         .verify = verify,
                         .infer = infer_like_first});

}  // namespace dtr::ops
