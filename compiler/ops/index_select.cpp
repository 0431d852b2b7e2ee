// aten.index_select: the elements of x (operand 0) along `dim` whose indices operand 1 lists; where
// x has its dimension `dim` the result has those of the indices. Along dimension 0 of a table that
// is aten.embedding, in general TFLite's GATHER.
#include <cstring>

#include "compiler/ops/movement.h"

namespace dtr::ops {
namespace {

Shape selected_shape(const OpView& view) {
  const Shape& x = view.operand(0).shape;
  const Shape& index = view.operand(1).shape;
  const auto dim = static_cast<ptrdiff_t>(*normalize_dim(view.attribute<int64_t>("dim"), x.size()));
  Shape shape(x.begin(), x.begin() + dim);
  shape.insert(shape.end(), index.begin(), index.end());
  shape.insert(shape.end(), x.begin() + dim + 1, x.end());
  return shape;
}

Result<void> verify(const OpView& view) {
  DTR_TRY(check_moves(view));
  const Type& index = view.operand(1);
  const int64_t dim = view.attribute<int64_t>("dim");
  if (!normalize_dim(dim, view.operand(0).rank()))
    return broken(view, fmt::format("`dim` {} is out of range for {}", dim,
                                    to_string(view.operand(0).shape)));
  if ((index.dtype != DType::kInt64 && index.dtype != DType::kInt32) || index.quantized())
    return broken(view, fmt::format("the indices are {}, expected i64 or i32", name(index.dtype)));
  return check_result_shape(view, selected_shape(view));
}

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = view.operand(0).dtype, .shape = selected_shape(view)}};
}

// What an index outside of the extent names is not defined; here it is zeros. Programs that run
// refuse it.
template <class Index>
void select(const OpView& view, const TensorView& x, const TensorView& index, const TensorView& y) {
  const size_t dim = *normalize_dim(view.attribute<int64_t>("dim"), x.shape.size());
  size_t outer = 1, inner = byte_size(x.dtype);
  for (size_t i = 0; i < x.shape.size(); ++i)
    if (i != dim) (i < dim ? outer : inner) *= static_cast<size_t>(x.shape[i]);
  std::byte* to = y.data;
  if (y.elements() == 0) return;
  for (size_t block = 0; block < outer; ++block)
    for (const Index i : index.values<Index>()) {
      if (i >= 0 && i < x.shape[dim]) {
        std::memcpy(
            to,
            x.data + (block * static_cast<size_t>(x.shape[dim]) + static_cast<size_t>(i)) * inner,
            inner);
      } else {
        std::memset(to, 0, inner);
      }
      to += inner;
    }
}

void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const auto function = operands[1].dtype == DType::kInt32 ? select<int32_t> : select<int64_t>;
  function(view, operands[0], operands[1], results[0]);
}

}  // namespace

constinit const OpDef kIndexSelect = with_one_evaluation(
    evaluate, {.name = "aten.index_select",
               .summary = "the elements along `dim` that a list of indices names",
               .schema = "(Tensor self, int dim, Tensor index)",
               .traits = kKeepsQuantization,
               .verify = verify,
               .infer = infer});

}  // namespace dtr::ops
