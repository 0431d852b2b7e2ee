#include "ops/adaptive_pool.h"

namespace dtr::ops {

AdaptiveWindow adaptive_window(const OpView& view) {
  const Shape& shape = view.operand(0).shape;
  const Ints& size = view.attribute<Ints>("output_size");
  return {{shape[shape.size() - 2], size[0]}, {shape[shape.size() - 1], size[1]}};
}

Status verify_adaptive_pool(const OpView& view) {
  DTR_TRY(check_activation(view));
  const Shape& shape = view.operand(0).shape;
  if (shape.size() != 3 && shape.size() != 4)
    return broken(view, fmt::format("the operand has shape {}, expected 3 or 4 dimensions", to_string(shape)));
  for (const int64_t extent : shape)
    if (extent < 1 || extent > kMaxExtent) return broken(view, fmt::format("the operand has shape {}", to_string(shape)));
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
