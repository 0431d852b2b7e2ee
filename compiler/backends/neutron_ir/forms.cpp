#include "compiler/backends/neutron_ir/forms.h"

#include <algorithm>

namespace dtr::neutron_ir {
namespace {

// Rows that the outputs reach behind the last one of the input.
int64_t reach(const ops::WindowAxis& axis) {
  return std::max<int64_t>(
      (axis.out - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1 - axis.in - axis.pad, 0);
}

bool is_same(const ops::WindowAxis& axis) {
  const int64_t total = std::max<int64_t>(
      (axis.out - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1 - axis.in, 0);
  return axis.out == (axis.in + axis.stride - 1) / axis.stride && axis.pad == total / 2 &&
         reach(axis) == total - total / 2;
}

// The dimensions of (N, C, L) or (C, H, W) in the order of an image.
Order rank3_order(bool planes) { return planes ? Order{0, 1, 2} : Order{0, 2, 1}; }

}  // namespace

Activation activation_of(const OpView& view, bool fuses) {
  const std::string name = view.attribute_or<std::string>("activation", {});
  struct Row {
    std::string_view name;
    std::optional<fb::ActivationFunctionType> fused;
    BuiltinOperator op;
  };
  constexpr Row kRows[] = {
      {"relu", fb::ActivationFunctionType::RELU, BuiltinOperator::RELU},
      {"relu6", fb::ActivationFunctionType::RELU6, BuiltinOperator::RELU6},
      {"relu_n1_to_1", fb::ActivationFunctionType::RELU_N1_TO_1, BuiltinOperator::RELU_N1_TO_1},
      {"relu_0_to_1", std::nullopt, BuiltinOperator::RELU_0_TO_1}};
  const auto* row = std::ranges::find(kRows, name, &Row::name);
  if (row == std::end(kRows)) return {};
  if (fuses && row->fused) return {.fused = *row->fused, .behind = {}};
  return {.behind = row->op};
}

TensorIndex before_activation(Emitter& emitter, const Activation& activation, TensorIndex result,
                              const Shape& shape) {
  return activation.behind ? emitter.temporary(shape, emitter.result_type().quantization) : result;
}

void add_activation(Emitter& emitter, const Activation& activation, TensorIndex from,
                    TensorIndex result) {
  if (activation.behind)
    emitter.add(*activation.behind, relu_version(*activation.behind), {from}, result);
}

Padding padding_of(const ops::Window& window) {
  const auto& [h, w] = window;
  if (is_same(h) && is_same(w)) return {.kind = fb::Padding::SAME};
  return {.top = h.pad, .bottom = reach(h), .left = w.pad, .right = reach(w)};
}

TensorIndex padded(Emitter& emitter, TensorIndex x, const Shape& shape, const Padding& padding,
                   int8_t value, const Quantization& quantization) {
  if (!padding.added()) return x;
  const TensorIndex y = emitter.temporary({shape[0], shape[1] + padding.top + padding.bottom,
                                           shape[2] + padding.left + padding.right, shape[3]},
                                          quantization);
  const TensorIndex amounts = emitter.integers(
      {0, 0, padding.top, padding.bottom, padding.left, padding.right, 0, 0}, {4, 2});
  emitter.add(BuiltinOperator::PADV2, 2,
              {x, amounts, emitter.int8_constant({&value, 1}, {1}, quantization)}, y);
  return y;
}

Image image_of(Emitter& emitter, size_t operand, bool planes) {
  const Type& type = emitter.type(operand);
  if (type.rank() == 4)
    return {emitter.operand(operand, kImageOrder), in_order(type.shape, kImageOrder)};
  const Shape shape = in_order(type.shape, rank3_order(planes));
  const Shape image =
      planes ? Shape{shape[0], shape[1], shape[2], 1} : Shape{shape[0], 1, shape[1], shape[2]};
  return {emitter.reshaped(emitter.operand(operand, rank3_order(planes)), image, type.quantization),
          image};
}

TensorIndex image_result(Emitter& emitter, const Shape& image) {
  return emitter.result_type().rank() == 4
             ? emitter.result(kImageOrder)
             : emitter.temporary(image, emitter.result_type().quantization);
}

void finish_image(Emitter& emitter, TensorIndex image, bool planes) {
  const Type& type = emitter.result_type();
  if (type.rank() == 4) return;
  emitter.reshape(image, emitter.result(rank3_order(planes)),
                  in_order(type.shape, rank3_order(planes)));
}

}  // namespace dtr::neutron_ir
