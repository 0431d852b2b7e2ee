// convert: the same numbers in another dtype, as PyTorch converts: to bool, whatever is not zero is
// true; to integers, fractions are cut off, and what an integer cannot hold becomes its bound (NaN
// becomes 0). Not of quantized values, see `quantize` and `dequantize`.
#include <algorithm>

#include "compiler/ops/integral.h"
#include "device/numerics/requantize.h"

namespace dtr::ops {
namespace {

Result<void> verify(const OpView& view) {
  if (view.operand(0).quantized() || (!view.results.empty() && view.result().quantized()))
    return broken(view, "the operand or the result is quantized");
  const auto& wanted = view.attribute<std::string>("dtype");
  if (!dtype_from_name(wanted)) return broken(view, fmt::format("unknown dtype `{}`", wanted));
  return {};
}

std::vector<Type> infer(const OpView& view) {
  return {{.dtype = *dtype_from_name(view.attribute<std::string>("dtype")),
           .shape = view.operand(0).shape}};
}

// Calls f with the elements as floats of their type.
template <class F>
void with_reals(const TensorView& tensor, F f) {
  if (tensor.dtype == DType::kFloat32) return f(tensor.values<float>());
  f(tensor.values<double>());
}

// The dtypes of the tensors decide the precision in which floats are evaluated.
void evaluate(const OpView&, std::span<const TensorView> operands,
              std::span<const TensorView> results) {
  const bool from_float = is_float(operands[0].dtype), to_float = is_float(results[0].dtype);
  if (!from_float && !to_float) return store_integers(integers_of(operands[0]), results[0]);
  if (!from_float) {
    const std::vector<int64_t> integers = integers_of(operands[0]);
    return with_reals(results[0], [&]<class T>(std::span<T> y) {
      std::ranges::transform(integers, y.begin(), [](int64_t x) { return static_cast<T>(x); });
    });
  }
  with_reals(operands[0], [&](auto x) {
    if (to_float)
      return with_reals(results[0], [&]<class T>(std::span<T> y) {
        std::ranges::transform(x, y.begin(), [](auto value) { return static_cast<T>(value); });
      });
    std::vector<int64_t> integers(x.size());
    const bool truth = results[0].dtype == DType::kBool;
    const bool wide = results[0].dtype == DType::kInt64;
    const IntegerRange range = integer_range(results[0].dtype);
    std::ranges::transform(x, integers.begin(), [&](auto value) -> int64_t {
      if (truth) return value != 0 ? 1 : 0;
      const auto whole = numerics::saturating_cast<int64_t>(static_cast<double>(value));
      return wide ? whole : std::clamp<int64_t>(whole, range.min, range.max);
    });
    store_integers(integers, results[0]);
  });
}

}  // namespace

constinit const OpDef kConvert{.name = "convert",
                               .summary = "the same numbers in another dtype",
                               .schema = "(Tensor self | str dtype)",
                               .traits = kElementwise | kOnIntegers,
                               .kernel = "dim_order_ops::_to_dim_order_copy.out",
                               .verify = verify,
                               .infer = infer,
                               .evaluate_float = evaluate,
                               .evaluate_double = evaluate};

}  // namespace dtr::ops
