#include "compiler/ops/reduction.h"

namespace dtr::ops {

std::optional<std::vector<bool>> reduced_dims(const OpView& view) {
  const size_t rank = view.operand(0).rank();
  const Ints& dims = view.attribute<Ints>("dim");
  std::vector<bool> reduced(rank, dims.empty());
  for (const int64_t dim : dims) {
    const auto normalized = normalize_dim(dim, rank);
    if (!normalized || reduced[*normalized]) return std::nullopt;
    reduced[*normalized] = true;
  }
  return reduced;
}

Result<void> verify_reduction(const OpView& view) {
  DTR_TRY(check_activation(view));
  if (!reduced_dims(view))
    return broken(view, fmt::format("`dim` is out of range or repeats for an operand of rank {}",
                                    view.operand(0).rank()));
  return {};
}

Result<void> verify_partial_reduction(const OpView& view) {
  DTR_TRY(verify_reduction(view));
  if (view.operand(0).elements() == 0) return broken(view, "the operand has no elements");
  return {};
}

Result<void> verify_extreme(const OpView& view) {
  DTR_TRY(verify_partial_reduction(view));
  return check_keeps_quantization(view);
}

void sum_integers(const OpView& view, const TensorView& operand, const TensorView& result) {
  const Tensor wide = as_int64(operand);
  const auto sums = result.values<int64_t>();
  std::ranges::fill(sums, 0);
  for_each_reduced<int64_t>(view, wide.view(), sums, [](int64_t& sum, int64_t value) {
    sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(value));
  });
}

std::vector<Type> infer_reduction(const OpView& view) {
  const std::vector<bool> reduced = *reduced_dims(view);
  const Shape& shape = view.operand(0).shape;
  Type type{.dtype = view.operand(0).dtype};
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!reduced[i]) {
      type.shape.push_back(shape[i]);
    } else if (view.attribute<bool>("keepdim")) {
      type.shape.push_back(1);
    }
  }
  return {type};
}

}  // namespace dtr::ops
