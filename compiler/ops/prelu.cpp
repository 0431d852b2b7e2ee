// aten.prelu: x where it is positive, else weight · x. The weight broadcasts to x like any operand;
// frontends give PyTorch's vector of one entry a channel the shape (C, 1, …).
#include "compiler/ops/binary.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(verify_binary(view));
  const Shape& x = view.operand(0).shape;
  const Shape& weight = view.operand(1).shape;
  if (broadcast_shape(x, weight) != x)
    return broken(view, fmt::format("the weight of shape {} does not broadcast to {}",
                                    to_string(weight), to_string(x)));
  return {};
}

constexpr auto kFunction = [](auto x, auto weight) { return x > 0 ? x : weight * x; };

}  // namespace

constinit const OpDef kPrelu = [] {
  OpDef def = binary_op<kFunction>(
      {.name = "aten.prelu",
       .summary = "x where positive, else weight * x; the weight broadcasts to x",
       .schema = "(Tensor self, Tensor weight | bool qdq=False)",
       .tflite = {"PRELU"}});
  def.verify = verify;
  def.infer = infer_like_first;
  return def;
}();

}  // namespace dtr::ops
