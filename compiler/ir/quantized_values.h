// Values in real numbers and their codes, as PyTorch and ExecuTorch convert them.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>

#include "compiler/ir/tensor.h"

namespace dtr {

// code = zero_point + round-half-even(x · (1 / scale)) in float32, limited to [qmin, qmax]; NaN
// becomes the zero point. `q` is per tensor, `codes` has as many elements as `x`.
template <class T>
void quantize_values(const Quantization& q, std::span<const T> x, std::span<int8_t> codes) {
  const T inverse_scale = T{1} / static_cast<T>(q.scale());
  const auto low = static_cast<T>(q.qmin - q.zero_point());
  const auto high = static_cast<T>(q.qmax - q.zero_point());
  for (size_t i = 0; i < codes.size(); ++i) {
    const T steps = std::nearbyint(x[i] * inverse_scale);
    const T limited = steps < low ? low : steps > high ? high : steps == steps ? steps : T{0};
    codes[i] = static_cast<int8_t>(static_cast<int32_t>(limited) + q.zero_point());
  }
}

// Whether an input or output of this type takes or gives values in real numbers as well: int8 codes
// with one scale.
inline bool has_real_values(const Type& type) {
  return type.dtype == DType::kInt8 && type.quantized() && !type.quantization->per_channel();
}

// "value = 0.0156862754 * (code - 3)" of a quantization per tensor, for messages; with the range of
// the codes if it is not that of int8.
std::string codes_text(const Quantization& quantization);

// float32 values as codes of a type that has_real_values.
inline Tensor quantized(const TensorView& values, const Type& type) {
  Tensor codes(DType::kInt8, values.shape);
  quantize_values<float>(*type.quantization, values.values<float>(), codes.values<int8_t>());
  return codes;
}

}  // namespace dtr
