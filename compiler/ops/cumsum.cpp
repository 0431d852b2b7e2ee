// aten.cumsum: along `dim`, each element is the sum of those up to it. Integers and bools are added
// up in int64.
#include "compiler/ops/argmax.h"
#include "compiler/ops/integral.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  DTR_TRY(check_activation(view));
  if (view.operand(0).quantized()) return broken(view, "the operand is quantized");
  const int64_t dim = view.attribute<int64_t>("dim");
  if (!normalize_dim(dim, std::max<size_t>(view.operand(0).rank(), 1)))
    return broken(view, fmt::format("`dim` {} is out of range for {}", dim,
                                    to_string(view.operand(0).shape)));
  return {};
}

std::vector<Type> infer(const OpView& view) {
  const Type& x = view.operand(0);
  return {{.dtype = is_float(x.dtype) ? x.dtype : DType::kInt64, .shape = x.shape}};
}

template <class T>
void add_up(const Compared& shape, std::span<const T> x, std::span<T> y) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  for (int64_t outer = 0; outer < shape.outer; ++outer)
    for (int64_t inner = 0; inner < shape.inner; ++inner) {
      Sum sum = 0;
      for (int64_t i = 0; i < shape.count; ++i) {
        const auto at = static_cast<size_t>((outer * shape.count + i) * shape.inner + inner);
        sum += static_cast<Sum>(x[at]);
        y[at] = static_cast<T>(sum);
      }
    }
}

template <class T>
void evaluate(const OpView& view, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const Compared shape = compared(view);
  if (is_float(operands[0].dtype))
    return add_up<T>(shape, operands[0].values<T>(), results[0].values<T>());
  const std::vector<int64_t> x = integers_of(operands[0]);
  add_up<int64_t>(shape, x, results[0].values<int64_t>());
}

}  // namespace

constinit const OpDef kCumsum{.name = "aten.cumsum",
                              .summary = "sums of the elements along `dim` up to each one",
                              .schema = "(Tensor self, int dim, *, ScalarType? dtype=None)",
                              .traits = kOnIntegers,
                              .verify = verify,
                              .infer = infer,
                              .evaluate_float = evaluate<float>,
                              .evaluate_double = evaluate<double>};

}  // namespace dtr::ops
