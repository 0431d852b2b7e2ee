// aten.view: the same elements in the same logical order under another shape; flatten, squeeze,
// unsqueeze and reshape are this.
#include <cstring>

#include "compiler/ops/movement.h"

namespace dtr::ops {
namespace {

// `size` with its one −1 replaced; nullopt if it does not hold exactly the elements of the operand.
std::optional<Shape> view_shape(const OpView& view) {
  Shape shape = view.attribute<Ints>("size");
  int64_t* free_extent = nullptr;
  int64_t known = 1;
  for (int64_t& extent : shape) {
    if (extent == -1 && free_extent == nullptr) {
      free_extent = &extent;
    } else if (extent < 0 || extent > kMaxExtent || __builtin_mul_overflow(known, extent, &known)) {
      return std::nullopt;
    }
  }
  const int64_t elements = view.operand(0).elements();
  if (free_extent != nullptr) {
    if (known == 0 || elements % known != 0) return std::nullopt;
    *free_extent = elements / known;
    known *= *free_extent;
  }
  if (known != elements) return std::nullopt;
  return shape;
}

Result<void> verify(const OpView& view) {
  const Type& x = view.operand(0);
  DTR_TRY(check_moves(view));
  if (!view_shape(view))
    return broken(view,
                  fmt::format("`size` [{}] does not hold the elements of the operand {}",
                              fmt::join(view.attribute<Ints>("size"), ", "), to_string(x.shape)));
  return {};
}

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = view.operand(0).dtype, .shape = *view_shape(view)}};
}

void evaluate(const OpView&, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  std::memcpy(results[0].data, operands[0].data, results[0].bytes());
}

}  // namespace

constinit const OpDef kView =
    moving_op(evaluate, {.name = "aten.view",
                         .summary = "the elements in logical order under another shape",
                         .schema = "(Tensor self, int[] size)",
                         .verify = verify,
                         .infer = infer});

}  // namespace dtr::ops
