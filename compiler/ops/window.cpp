#include "compiler/ops/window.h"

namespace dtr::ops {

int64_t window_outputs(const WindowAxis& axis, bool ceil_mode) {
  const int64_t room = axis.in + axis.pad + axis.pad_end - axis.dilation * (axis.kernel - 1) - 1;
  if (room < 0) return 0;
  int64_t outputs = (room + (ceil_mode ? axis.stride - 1 : 0)) / axis.stride + 1;
  // With ceil_mode the last window must start inside the input or its left padding.
  if (ceil_mode && (outputs - 1) * axis.stride >= axis.in + axis.pad) --outputs;
  return outputs;
}

Window pool_window(const OpView& view) {
  const Shape& shape = view.operand(0).shape;
  const Ints& kernel = view.attribute<Ints>("kernel_size");
  const Ints& stride = view.attribute<Ints>("stride");
  const Ints& padding = view.attribute<Ints>("padding");
  const Ints padding_end = view.attribute_or<Ints>("padding_end", padding);
  const Ints dilation = view.attribute_or<Ints>("dilation", Ints{1, 1});
  const bool ceil_mode = view.attribute<bool>("ceil_mode");
  const auto axis = [&](size_t i) {
    WindowAxis made{.in = shape[shape.size() - 2 + i],
                    .kernel = kernel[i],
                    .stride = stride[i],
                    .pad = padding[i],
                    .pad_end = padding_end[i],
                    .dilation = dilation[i]};
    made.out = window_outputs(made, ceil_mode);
    return made;
  };
  return {axis(0), axis(1)};
}

Result<void> check_pool_operand(const OpView& view) {
  DTR_TRY(check_activation(view));
  const Shape& shape = view.operand(0).shape;
  if (shape.size() != 3 && shape.size() != 4)
    return broken(view, fmt::format("the operand has shape {}, expected 3 or 4 dimensions",
                                    to_string(shape)));
  for (const int64_t extent : shape)
    if (extent < 1 || extent > kMaxExtent)
      return broken(view, fmt::format("the operand has shape {}", to_string(shape)));
  return {};
}

Result<void> verify_pool(const OpView& view) {
  DTR_TRY(check_pool_operand(view));
  DTR_TRY(check_ints(view, "kernel_size", 2, 1, kMaxExtent));
  DTR_TRY(check_ints(view, "stride", 2, 1, kMaxExtent));
  const Ints& kernel = view.attribute<Ints>("kernel_size");
  for (const std::string_view name : {"padding", "padding_end"}) {
    if (view.attributes->find(name) == nullptr) continue;
    DTR_TRY(check_ints(view, name, 2, 0, kMaxExtent));
    const Ints& padding = view.attribute<Ints>(name);
    for (size_t i = 0; i < 2; ++i)
      if (padding[i] > kernel[i] / 2)
        return broken(view, fmt::format("`{}` {} is more than half of the kernel, {}", name,
                                        padding[i], kernel[i]));
  }
  if (view.attributes->find("dilation") != nullptr)
    DTR_TRY(check_ints(view, "dilation", 2, 1, kMaxExtent));
  const Window window = pool_window(view);
  if (window.h.out < 1 || window.w.out < 1)
    return broken(view, fmt::format("the kernel {}x{} does not fit the operand {}", kernel[0],
                                    kernel[1], to_string(view.operand(0).shape)));
  return check_result_shape(view, infer_pool(view).front().shape);
}

std::vector<Type> infer_pool(const OpView& view) {
  std::vector<Type> types = infer_like_first(view);
  const Window window = pool_window(view);
  Shape& shape = types[0].shape;
  shape[shape.size() - 2] = window.h.out;
  shape[shape.size() - 1] = window.w.out;
  return types;
}

}  // namespace dtr::ops
