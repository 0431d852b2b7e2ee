#include "compiler/ops/adaptive_pool.h"

#include "compiler/ops/window.h"

namespace dtr::ops {

AdaptiveWindow adaptive_window(const OpView& view) {
  const Shape& shape = view.operand(0).shape;
  const Ints& size = view.attribute<Ints>("output_size");
  return {{shape[shape.size() - 2], size[0]}, {shape[shape.size() - 1], size[1]}};
}

Result<void> verify_adaptive_pool(const OpView& view) {
  DTR_TRY(check_pool_operand(view));
  DTR_TRY(check_ints(view, "output_size", 2, 1, kMaxExtent));
  return check_result_shape(view, infer_adaptive_pool(view).front().shape);
}

std::vector<Type> infer_adaptive_pool(const OpView& view) {
  std::vector<Type> types = infer_like_first(view);
  Shape& shape = types[0].shape;
  const Ints& size = view.attribute<Ints>("output_size");
  shape[shape.size() - 2] = size[0];
  shape[shape.size() - 1] = size[1];
  return types;
}

}  // namespace dtr::ops
