// aten.cat: the operands one after the other along `dim`. All have the same quantization.
#include <cstring>

#include "compiler/ops/movement.h"

namespace dtr::ops {
namespace {

Shape joined_shape(const OpView& view) {
  Shape shape = view.operand(0).shape;
  const size_t dim = *normalize_dim(view.attribute<int64_t>("dim"), shape.size());
  for (size_t i = 1; i < view.operands.size(); ++i) shape[dim] += view.operand(i).shape[dim];
  return shape;
}

Result<void> verify(const OpView& view) {
  const Type& first = view.operand(0);
  DTR_TRY(check_keeps_quantization(view));
  if (first.quantized() && first.quantization->per_channel())
    return broken(view, "operand 0 is quantized per channel");
  const int64_t wanted = view.attribute<int64_t>("dim");
  const auto dim = normalize_dim(wanted, first.rank());
  if (!dim)
    return broken(view, fmt::format("`dim` {} is out of range for operand 0, {}", wanted,
                                    to_string(first.shape)));
  int64_t extent = 0;
  for (size_t i = 0; i < view.operands.size(); ++i) {
    if (!view.has(i)) return broken(view, fmt::format("operand {} is missing", i));
    const Type& operand = view.operand(i);
    Shape other = operand.shape;
    if (other.size() == first.rank()) other[*dim] = first.shape[*dim];
    if (other != first.shape)
      return broken(view, fmt::format("operand {} has shape {}, which does not join {} along {}", i,
                                      to_string(operand.shape), to_string(first.shape), *dim));
    if (operand.dtype != first.dtype || operand.quantization != first.quantization)
      return broken(view, fmt::format("operands 0 and {} differ in dtype or quantization", i));
    if (__builtin_add_overflow(extent, operand.shape[*dim], &extent))
      return broken(view, "the result is too large");
  }
  return check_result_shape(view, joined_shape(view));
}

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = view.operand(0).dtype, .shape = joined_shape(view)}};
}

void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const size_t dim = *normalize_dim(view.attribute<int64_t>("dim"), operands[0].shape.size());
  int64_t outer = 1;
  for (size_t i = 0; i < dim; ++i) outer *= operands[0].shape[i];
  std::byte* to = results[0].data;
  for (int64_t block = 0; block < outer; ++block)
    for (const TensorView& operand : operands) {
      const size_t size = operand.bytes() / static_cast<size_t>(outer);
      if (size != 0) std::memcpy(to, operand.data + static_cast<size_t>(block) * size, size);
      to += size;
    }
}

}  // namespace

constinit const OpDef kCat =
    moving_op(evaluate, {.name = "aten.cat",
                         .summary = "the operands one after the other along `dim`",
                         .schema = "(Tensor[] tensors, int dim)",
                         .verify = verify,
                         .infer = infer});

}  // namespace dtr::ops
