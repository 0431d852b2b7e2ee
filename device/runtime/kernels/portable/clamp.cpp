// aten::clamp.out(self, min, max, out) with either bound optional, and aten::hardtanh.out(self,
// min_val, max_val, out) with both.
#include <limits>

#include "device/runtime/kernels/portable/elements.h"
#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

Error clamp_out(std::span<Value* const> values) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Arguments arguments(values);
  const auto low = static_cast<float>(arguments.number_or(1, -kInfinity));
  const auto high = static_cast<float>(arguments.number_or(2, kInfinity));
  if (!arguments.good()) return Error::kKernelArguments;
  // As PyTorch: NaN stays, and with low > high everything is high.
  return unary_float(values, 3, [=](float x) {
    const float above = x < low ? low : x;
    return above > high ? high : above;
  });
}

Error hardtanh_out(std::span<Value* const> values) { return clamp_out(values); }

}  // namespace dtr::runtime::portable
