// Helpers shared by the conversions of several operators.
#pragma once

#include "compiler/backends/neutron_ir/emitter.h"
#include "compiler/ops/window.h"

namespace dtr::neutron_ir {

using fb::BuiltinOperator;
using fb::OptionsType;

// The activation of an op: fused into its operator, or an operator of its own after it.
struct Activation {
  fb::ActivationFunctionType fused = fb::ActivationFunctionType::NONE;
  std::optional<BuiltinOperator> behind;
};
Activation activation_of(const OpView& view, bool fuses = true);
// The tensor that the operator itself writes, and the activation operator after it.
TensorIndex before_activation(Emitter& emitter, const Activation& activation, TensorIndex result,
                              const Shape& shape);
void add_activation(Emitter& emitter, const Activation& activation, TensorIndex from,
                    TensorIndex result);

// The first version of the operator that supports int8.
constexpr int relu_version(BuiltinOperator code) {
  return code == BuiltinOperator::RELU || code == BuiltinOperator::RELU6 ? 2 : 1;
}

// How a window is padded: by the operator itself (SAME, VALID), or by a PAD operator before it.
struct Padding {
  fb::Padding kind = fb::Padding::VALID;
  int64_t top = 0, bottom = 0, left = 0, right = 0;
  bool added() const { return top + bottom + left + right > 0; }
};
Padding padding_of(const ops::Window& window);
// x (N, H, W, C) padded with the int8 `value`.
TensorIndex padded(Emitter& emitter, TensorIndex x, const Shape& shape, const Padding& padding,
                   int8_t value, const Quantization& quantization);

// x of rank 4 as an image (N, H, W, C); (N, C, L) as one of one row. `planes`: (C, H, W) as C
// images of one channel.
struct Image {
  TensorIndex tensor = kAbsent;
  Shape shape;  // N, H, W, C
};
Image image_of(Emitter& emitter, size_t operand, bool planes);
// The result as such an image: its tensor, and the reshape back to a result of rank 3.
TensorIndex image_result(Emitter& emitter, const Shape& image);
void finish_image(Emitter& emitter, TensorIndex image, bool planes);

inline const Order kImageOrder{0, 2, 3, 1};

}  // namespace dtr::neutron_ir
