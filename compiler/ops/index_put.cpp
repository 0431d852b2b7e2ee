// aten.index_put: x (operand 0), whose rows along dimension 0 that a tensor of indices (operand 1)
// names are replaced by those of operand 2, or with `accumulate` have them added. Of several for
// one row the last remains. Other dimensions, and several tensors of indices, are views and index
// arithmetic around it (compositions/indices.h).
#include <cstring>

#include "compiler/ops/integral.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(check_activation(view));
  const Type &x = view.operand(0), &index = view.operand(1), &rows = view.operand(2);
  if (x.quantized() || rows.quantized()) return broken(view, "an operand is quantized");
  if (x.rank() == 0) return broken(view, "operand 0 is a scalar");
  if ((index.dtype != DType::kInt64 && index.dtype != DType::kInt32) || index.quantized())
    return broken(view, fmt::format("the indices are {}, expected i64 or i32", name(index.dtype)));
  Shape expected = index.shape;
  expected.insert(expected.end(), x.shape.begin() + 1, x.shape.end());
  if (rows.shape != expected || rows.dtype != x.dtype)
    return broken(view, fmt::format("the rows are {}{}, expected {}{}", name(rows.dtype),
                                    to_string(rows.shape), name(x.dtype), to_string(expected)));
  return {};
}

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = view.operand(0).dtype, .shape = view.operand(0).shape}};
}

template <class T>
void put(const OpView& view, std::span<const TensorView> operands,
         std::span<const TensorView> results) {
  const TensorView &x = operands[0], &rows = operands[2], &y = results[0];
  const bool accumulate = view.attribute_or("accumulate", false);
  const int64_t count = x.shape[0];
  const auto row = static_cast<size_t>(count == 0 ? 0 : x.elements() / count);
  const std::vector<int64_t> indices = integers_of(operands[1]);
  const auto at = [&](size_t i) -> std::optional<size_t> {
    const int64_t index = indices[i] < 0 ? indices[i] + count : indices[i];
    if (index < 0 || index >= count) return std::nullopt;  // programs that run refuse it
    return static_cast<size_t>(index);
  };
  if (!accumulate || is_float(x.dtype)) {
    const size_t bytes = row * byte_size(y.dtype);
    std::memcpy(y.data, x.data, static_cast<size_t>(x.elements()) * byte_size(x.dtype));
    for (size_t i = 0; i < indices.size(); ++i) {
      const std::optional<size_t> to = at(i);
      if (!to) continue;
      if (!accumulate) {
        std::memcpy(y.data + *to * bytes, rows.data + i * bytes, bytes);
        continue;
      }
      for (size_t e = 0; e < row; ++e)
        y.values<T>()[*to * row + e] += rows.values<T>()[i * row + e];
    }
    return;
  }
  std::vector<int64_t> sums = integers_of(x);
  const std::vector<int64_t> added = integers_of(rows);
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::optional<size_t> to = at(i);
    if (!to) continue;
    for (size_t e = 0; e < row; ++e) {
      int64_t& sum = sums[*to * row + e];
      sum = static_cast<int64_t>(static_cast<uint64_t>(sum) +
                                 static_cast<uint64_t>(added[i * row + e]));
    }
  }
  store_integers(sums, y);
}

}  // namespace

constinit const OpDef kIndexPut{
    .name = "aten.index_put",
    .summary = "the tensor with the rows that indices name replaced, or added to",
    .schema = "(Tensor self, Tensor index, Tensor source | bool accumulate=False)",
    .traits = kOnIntegers,
    .verify = verify,
    .infer = infer,
    .evaluate_float = put<float>,
    .evaluate_double = put<double>};

}  // namespace dtr::ops
