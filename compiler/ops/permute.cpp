// aten.permute: dimension i of the result is dimension dims[i] of the operand.
#include "compiler/ir/reorder.h"
#include "compiler/ops/movement.h"

namespace dtr::ops {
namespace {

std::optional<std::vector<size_t>> normalized_dims(const OpView& view) {
  const Ints& dims = view.attribute<Ints>("dims");
  const size_t rank = view.operand(0).rank();
  if (dims.size() != rank) return std::nullopt;
  std::vector<size_t> normalized;
  std::vector<bool> seen(rank);
  for (const int64_t dim : dims) {
    const auto at = normalize_dim(dim, rank);
    if (!at || seen[*at]) return std::nullopt;
    seen[*at] = true;
    normalized.push_back(*at);
  }
  return normalized;
}

Result<void> verify(const OpView& view) {
  const Type& x = view.operand(0);
  DTR_TRY(check_moves(view));
  if (!normalized_dims(view))
    return broken(view,
                  fmt::format("`dims` [{}] is not a permutation of the dimensions of {}",
                              fmt::join(view.attribute<Ints>("dims"), ", "), to_string(x.shape)));
  return {};
}

std::vector<Type> infer(const OpView& view) {
  Type type{.dtype = view.operand(0).dtype};
  const std::vector<size_t> dims = *normalized_dims(view);
  for (const size_t dim : dims) type.shape.push_back(view.operand(0).shape[dim]);
  return {type};
}

void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const std::vector<int64_t> own = strides(operands[0].shape, Layout::kContiguous);
  const std::vector<size_t> dims = *normalized_dims(view);
  std::vector<int64_t> from;
  for (const size_t dim : dims) from.push_back(own[dim]);
  reorder(results[0].shape, byte_size(operands[0].dtype), operands[0].data, from, results[0].data,
          strides(results[0].shape, Layout::kContiguous));
}

}  // namespace

constinit const OpDef kPermute = moving_op(evaluate, {.name = "aten.permute",
                                                      .summary = "dimensions in another order",
                                                      .schema = "(Tensor self, int[] dims)",
                                                      .kernel = "aten::permute_copy.out",
                                                      .verify = verify,
                                                      .infer = infer});

}  // namespace dtr::ops
