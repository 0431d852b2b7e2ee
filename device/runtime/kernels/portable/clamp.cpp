// aten::clamp.out(self, min, max, out) with either bound optional, and aten::hardtanh.out(self,
// min_val, max_val, out) with both; aten::clamp.Tensor_out(self, min, max, out) with bounds that
// are broadcast.
#include <limits>

#include "device/runtime/kernels/portable/integers.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error clamp_out(std::span<Value* const> values) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Arguments arguments(values);
  const double least = arguments.number_or(1, -kInfinity);
  const double most = arguments.number_or(2, kInfinity);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(3);
  if (!arguments.good()) return Error::kKernelArguments;
  if (is_integer(out.dtype)) {
    if (!same_shape(in, out)) return Error::kKernelArguments;
    const Error raised = map_integers(
        in, in, out,
        {[](int64_t x, int64_t, int64_t low) { return x < low ? low : x; }, saturated(least)});
    if (raised != Error::kOk) return raised;
    return map_integers(
        out, out, out,
        {[](int64_t x, int64_t, int64_t high) { return x > high ? high : x; }, saturated(most)});
  }
  const auto low = static_cast<float>(least);
  const auto high = static_cast<float>(most);
  // As PyTorch: NaN stays, and with low > high everything is high.
  return unary_float(values, 3, [=](float x) {
    const float above = x < low ? low : x;
    return above > high ? high : above;
  });
}

Error clamp_tensor_out(std::span<Value* const> values) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor* bounds[] = {arguments.optional_tensor(1), arguments.optional_tensor(2)};
  const Tensor& out = arguments.output(3);
  if (!arguments.good() || !broadcasts_to(in, out) ||
      (bounds[0] == nullptr && bounds[1] == nullptr))
    return Error::kKernelArguments;
  for (const Tensor* bound : bounds) {
    if (bound != nullptr && !broadcasts_to(*bound, out)) return Error::kKernelArguments;
    if (bound != nullptr && bound->dtype != out.dtype) return Error::kKernelDtype;
  }
  if (in.dtype != out.dtype || (out.dtype != ScalarType::kFloat && !is_integer(out.dtype)))
    return Error::kKernelDtype;
  // A bound that is NaN makes the result NaN, as PyTorch does.
  const Tensor* from = &in;
  for (int side = 0; side < 2; ++side) {
    const Tensor* bound = bounds[side];
    if (bound == nullptr) continue;
    if (is_integer(out.dtype)) {
      map_integers(*from, *bound, out,
                   {[](int64_t x, int64_t limit, int64_t upper) {
                      return (upper != 0 ? x > limit : x < limit) ? limit : x;
                    },
                    side});
    } else {
      map_broadcast<float, float>(*from, *bound, out, [side](float x, float limit) {
        if (limit != limit || x != x) return x != x ? x : limit;
        return (side != 0 ? x > limit : x < limit) ? limit : x;
      });
    }
    from = &out;
  }
  return Error::kOk;
}

Error hardtanh_out(std::span<Value* const> values) { return clamp_out(values); }

}  // namespace dtr::runtime::portable
