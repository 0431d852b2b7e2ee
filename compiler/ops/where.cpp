// aten.where.self: elements of a (operand 1) where the mask of bool (operand 0) is true, of b
// (operand 2) elsewhere, all three with broadcasting; a and b have one dtype, any.
#include <cstring>

#include "compiler/ir/reorder.h"
#include "compiler/ops/broadcast.h"
#include "compiler/ops/define.h"

namespace dtr::ops {
namespace {

std::optional<Shape> joint_shape(const OpView& view) {
  const auto choices = broadcast_shape(view.operand(1).shape, view.operand(2).shape);
  return choices ? broadcast_shape(view.operand(0).shape, *choices) : std::nullopt;
}

Result<void> verify(const OpView& view) {
  const Type &mask = view.operand(0), &a = view.operand(1), &b = view.operand(2);
  if (mask.dtype != DType::kBool)
    return broken(view, fmt::format("the mask is {}, expected bool", name(mask.dtype)));
  if (a.dtype != b.dtype || a.quantized() || b.quantized())
    return broken(view, fmt::format("it chooses between {} and {}, expected one dtype without "
                                    "quantization",
                                    name(a.dtype), name(b.dtype)));
  const auto shape = joint_shape(view);
  if (!shape)
    return broken(view, fmt::format("the shapes {}, {} and {} do not broadcast",
                                    to_string(mask.shape), to_string(a.shape), to_string(b.shape)));
  return check_result_shape(view, *shape);
}

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = view.operand(1).dtype, .shape = *joint_shape(view)}};
}

void evaluate(const OpView&, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const Shape& shape = results[0].shape;
  const size_t bytes = byte_size(results[0].dtype);
  const auto repeated = [&](const TensorView& operand) {
    Tensor wide(operand.dtype, shape);
    reorder(shape, byte_size(operand.dtype), operand.data, broadcast_strides(operand.shape, shape),
            wide.view().data, strides(shape, Layout::kContiguous));
    return wide;
  };
  const Tensor mask = repeated(operands[0]), a = repeated(operands[1]), b = repeated(operands[2]);
  const auto truth = mask.values<uint8_t>();
  for (size_t i = 0; i < truth.size(); ++i)
    std::memcpy(results[0].data + i * bytes, (truth[i] != 0 ? a : b).view().data + i * bytes,
                bytes);
}

}  // namespace

constinit const OpDef kWhereSelf{.name = "aten.where.self",
                                 .summary =
                                     "elements of one tensor where a mask is true, of "
                                     "another elsewhere",
                                 .schema = "(Tensor condition, Tensor self, Tensor other)",
                                 .traits = kOnIntegers,
                                 .kernel = "aten::where.self_out",
                                 .verify = verify,
                                 .infer = infer,
                                 .evaluate_float = evaluate,
                                 .evaluate_double = evaluate};

}  // namespace dtr::ops
