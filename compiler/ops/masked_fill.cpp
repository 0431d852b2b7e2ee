// aten.masked_fill: x (operand 0), and `value` where the mask of bool (operand 1, broadcast to x)
// is true. Float: an int8 softmax whose scores it excludes takes the mask itself (`mask_softmax`).
#include "compiler/ops/broadcast.h"
#include "compiler/ops/define.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  const Type& x = view.operand(0);
  const Type& mask = view.operand(1);
  if (!is_float(x.dtype))
    return broken(view, fmt::format("operand 0 is {}, expected float", name(x.dtype)));
  if (mask.dtype != DType::kBool)
    return broken(view, fmt::format("the mask is {}, expected bool", name(mask.dtype)));
  if (broadcast_shape(mask.shape, x.shape) != x.shape)
    return broken(view, fmt::format("the mask of shape {} does not broadcast to {}",
                                    to_string(mask.shape), to_string(x.shape)));
  return {};
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const auto value = static_cast<T>(view.attribute<double>("value"));
  const T* x = operands[0].values<T>().data();
  const uint8_t* mask = operands[1].values<uint8_t>().data();
  T* y = results[0].values<T>().data();
  for_each_broadcast_row(operands[0].shape, operands[1].shape, results[0].shape,
                         [&](int64_t at, int64_t at_x, int64_t at_mask, int64_t count,
                             int64_t step_x, int64_t step_mask) {
                           for (int64_t i = 0; i < count; ++i)
                             y[at + i] =
                                 mask[at_mask + i * step_mask] != 0 ? value : x[at_x + i * step_x];
                         });
}

}  // namespace

constinit const OpDef kMaskedFill{
    .name = "aten.masked_fill",
    .summary = "a number where a mask is true",
    .schema = "(Tensor self, Tensor mask, Scalar value)",
    .kernel = "aten::masked_fill.Scalar_out",
    .verify = verify,
    .infer = infer_like_first,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
};

}  // namespace dtr::ops
