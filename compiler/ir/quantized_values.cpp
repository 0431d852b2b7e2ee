#include "compiler/ir/quantized_values.h"

#include <fmt/format.h>

namespace dtr {

std::string codes_text(const Quantization& quantization) {
  const int32_t zero = quantization.zero_point();
  const std::string code = zero == 0  ? "code"
                           : zero > 0 ? fmt::format("(code - {})", zero)
                                      : fmt::format("(code + {})", -int64_t{zero});
  const IntegerRange whole = integer_range(DType::kInt8);
  std::string text = fmt::format("value = {:.9g} * {}", quantization.scale(), code);
  if (quantization.qmin != whole.min || quantization.qmax != whole.max)
    text += fmt::format(", codes {} to {}", quantization.qmin, quantization.qmax);
  return text;
}

}  // namespace dtr
