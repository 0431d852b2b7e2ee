// aten.argmax and aten.argmin: the index along `dim` (in the flattened operand without it) of the
// greatest or smallest value, the first of equals; NaN is more extreme than everything, as in
// PyTorch. Quantized values compare as their codes do. The index is int64, or int32 where
// `as_int32` is set, as in TFLite's ARG_MAX.
#include "compiler/ops/argmax.h"

#include "compiler/ops/integral.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  const Type& x = view.operand(0);
  const bool quantized = x.dtype == DType::kInt8 && per_tensor(x);
  if (!quantized && x.quantized())
    return broken(view, fmt::format("operand 0 is quantized {}, expected a number or i8 quantized "
                                    "per tensor",
                                    name(x.dtype)));
  const AttributeValue* dim = view.attributes->find("dim");
  if (dim != nullptr && !normalize_dim(std::get<int64_t>(*dim), std::max<size_t>(x.rank(), 1)))
    return broken(view, fmt::format("`dim` {} is out of range for the operand {}",
                                    std::get<int64_t>(*dim), to_string(x.shape)));
  if (x.elements() == 0) return broken(view, "the operand has no elements");
  return {};
}

std::vector<Type> infer(const OpView& view) {
  Type type{.dtype = view.argument<bool>("as_int32") ? DType::kInt32 : DType::kInt64,
            .shape = view.operand(0).shape};
  const bool keeps = view.argument<bool>("keepdim");
  const AttributeValue* dim = view.attributes->find("dim");
  if (dim == nullptr || type.shape.empty()) {
    type.shape = Shape(keeps ? type.shape.size() : 0, 1);
    return {type};
  }
  const size_t axis = *normalize_dim(std::get<int64_t>(*dim), type.shape.size());
  if (keeps) {
    type.shape[axis] = 1;
  } else {
    type.shape.erase(type.shape.begin() + static_cast<ptrdiff_t>(axis));
  }
  return {type};
}

template <class T, bool kGreatest, class Index>
void find(const Compared& shape, const TensorView& operand, const TensorView& result) {
  const T* x = operand.values<T>().data();
  Index* y = result.values<Index>().data();
  const auto wins = [](T value, T best) {
    return best == best && (value != value || (kGreatest ? value > best : value < best));
  };
  for (int64_t outer = 0; outer < shape.outer; ++outer)
    for (int64_t inner = 0; inner < shape.inner; ++inner) {
      const T* row = x + outer * shape.count * shape.inner + inner;
      int64_t best = 0;
      for (int64_t i = 1; i < shape.count; ++i)
        if (wins(row[i * shape.inner], row[best * shape.inner])) best = i;
      *y++ = static_cast<Index>(best);
    }
}

template <class T, bool kGreatest>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  if (std::is_floating_point_v<T> && !is_float(operands[0].dtype)) {
    const Tensor wide = as_int64(operands[0]);
    const auto on_integers = results[0].dtype == DType::kInt32 ? find<int64_t, kGreatest, int32_t>
                                                               : find<int64_t, kGreatest, int64_t>;
    return on_integers(compared(view), wide.view(), results[0]);
  }
  const auto function =
      results[0].dtype == DType::kInt32 ? find<T, kGreatest, int32_t> : find<T, kGreatest, int64_t>;
  function(compared(view), operands[0], results[0]);
}

template <bool kGreatest>
constexpr OpDef index_op(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .schema = "(Tensor self, int? dim=None, bool keepdim=False | bool as_int32=False)",
          .traits = kOnIntegers,
          .verify = verify,
          .infer = infer,
          .evaluate_float = evaluate<float, kGreatest>,
          .evaluate_double = evaluate<double, kGreatest>,
          .evaluate_integer = evaluate<int8_t, kGreatest>};
}

}  // namespace

Compared compared(const OpView& view) {
  const Shape& shape = view.operand(0).shape;
  const AttributeValue* dim = view.attributes->find("dim");
  if (dim == nullptr || shape.empty()) return {.count = element_count(shape)};
  const size_t axis = *normalize_dim(std::get<int64_t>(*dim), shape.size());
  Compared result{.count = shape[axis]};
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != axis) (i < axis ? result.outer : result.inner) *= shape[i];
  return result;
}

constinit const OpDef kArgmax =
    index_op<true>("aten.argmax", "index of the greatest element along `dim`");
constinit const OpDef kArgmin =
    index_op<false>("aten.argmin", "index of the smallest element along `dim`");

}  // namespace dtr::ops
