// aten.constant_pad_nd: `pad` has (before, after) of the last dimension first; negative entries
// cut.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/ops/define.h"
#include "compiler/ops/integer.h"

namespace dtr::ops {
namespace {

Shape padded_shape(const OpView& view) {
  Shape shape = view.operand(0).shape;
  const Ints& pad = view.attribute<Ints>("pad");
  for (size_t i = 0; i < pad.size() / 2; ++i)
    shape[shape.size() - 1 - i] += pad[2 * i] + pad[2 * i + 1];
  return shape;
}

Result<void> verify(const OpView& view) {
  const Type& x = view.operand(0);
  DTR_TRY(check_keeps_quantization(view));
  if (!x.quantized() && !is_float(x.dtype))
    return broken(view,
                  fmt::format("the operand is {}, expected float or quantized i8", name(x.dtype)));
  DTR_TRY(check_activation(view));
  const Ints& pad = view.attribute<Ints>("pad");
  if (pad.size() % 2 != 0 || pad.size() > 2 * x.rank())
    return broken(
        view, fmt::format("`pad` has {} entries for an operand of rank {}", pad.size(), x.rank()));
  DTR_TRY(check_ints(view, "pad", pad.size(), -kMaxExtent, kMaxExtent));
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const int64_t extent = x.shape[x.rank() - 1 - i];
    if (extent > kMaxExtent ||
        extent + std::min<int64_t>(pad[2 * i], 0) + std::min<int64_t>(pad[2 * i + 1], 0) < 0)
      return broken(view, fmt::format("`pad` {} and {} cut more than the extent {}", pad[2 * i],
                                      pad[2 * i + 1], extent));
  }
  return check_result_shape(view, padded_shape(view));
}

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = view.operand(0).dtype, .shape = padded_shape(view)}};
}

// Fills the result with `value` and copies what is left of the operand, one run of the last
// dimension at a time.
template <class T>
void pad_with(const OpView& view, const TensorView& from, const TensorView& to, T value) {
  const auto y = to.values<T>();
  std::fill(y.begin(), y.end(), value);
  if (from.elements() == 0 || y.empty()) return;
  if (from.shape.empty()) {
    y[0] = from.values<T>()[0];
    return;
  }
  const size_t rank = from.shape.size();
  const Ints& pad = view.attribute<Ints>("pad");
  Shape first(rank, 0);  // first kept index of the operand
  Shape kept = from.shape;
  Shape offset(rank, 0);  // where it goes in the result
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t dim = rank - 1 - i;
    first[dim] = std::max<int64_t>(0, -pad[2 * i]);
    offset[dim] = std::max<int64_t>(0, pad[2 * i]);
    kept[dim] -= first[dim] + std::max<int64_t>(0, -pad[2 * i + 1]);
  }
  if (element_count(kept) == 0) return;
  const std::vector<int64_t> strides_from = strides(from.shape, Layout::kContiguous);
  const std::vector<int64_t> strides_to = strides(to.shape, Layout::kContiguous);
  const T* x = from.values<T>().data();
  Shape index(rank, 0);
  for (;;) {
    int64_t at_from = 0;
    int64_t at_to = 0;
    for (size_t d = 0; d < rank; ++d) {
      at_from += (first[d] + index[d]) * strides_from[d];
      at_to += (offset[d] + index[d]) * strides_to[d];
    }
    std::copy_n(x + at_from, kept[rank - 1], y.data() + at_to);
    size_t dim = rank - 1;
    for (;; --dim) {
      if (dim == 0) return;
      if (++index[dim - 1] < kept[dim - 1]) break;
      index[dim - 1] = 0;
    }
  }
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  pad_with(view, operands[0], results[0], static_cast<T>(view.attribute<double>("value")));
}

void evaluate_integer(const OpView& view, std::span<const TensorView> operands,
                      std::span<const TensorView> results) {
  const Quantization& q = *view.result().quantization;
  const int32_t value =
      numerics::code_of(view.attribute<double>("value"), q.scale(), q.zero_point(), range_of(q));
  pad_with(view, operands[0], results[0], static_cast<int8_t>(value));
}

}  // namespace

constinit const OpDef kConstantPadNd{
    .name = "aten.constant_pad_nd",
    .summary = "the operand with `value` around it",
    .schema = "(Tensor self, int[] pad, Scalar value)",
    .traits = kMovesData,
    .verify = verify,
    .infer = infer,
    .evaluate_float = evaluate<float>,
    .evaluate_double = evaluate<double>,
    .evaluate_integer = evaluate_integer,
};

}  // namespace dtr::ops
