// The type of a value: element type, logical shape, physical layout, quantization.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtr {

enum class DType : uint8_t { kBool, kUint8, kInt8, kInt16, kInt32, kInt64, kFloat32, kFloat64 };

size_t byte_size(DType dtype);
std::string_view name(DType dtype);  // "f32", "i8", … as in the text form
std::optional<DType> dtype_from_name(std::string_view name);
inline bool is_float(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

using Shape = std::vector<int64_t>;  // PyTorch's logical order (N, C, H, W); {} is a scalar

// Product of the dimensions; std::nullopt when it (or the byte count at 8 bytes an element)
// overflows int64 or a dimension is negative.
std::optional<int64_t> checked_element_count(const Shape& shape);
int64_t element_count(const Shape& shape);  // the same for a shape that the verifier has checked
std::string to_string(const Shape& shape);  // "1x3x32x32", "scalar"

// Physical order of the dimensions. Channels-last puts dimension 1 last (NHWC for NCHW); meaningful
// for rank ≥ 3.
enum class Layout : uint8_t { kContiguous, kChannelsLast };

// Logical dimension index at each physical position, outermost first: channels-last rank 4 → {0, 2,
// 3, 1}.
std::vector<int> dim_order(Layout layout, size_t rank);
// Stride in elements of each logical dimension for a dense tensor of that layout.
std::vector<int64_t> strides(const Shape& shape, Layout layout);

// True if a dense tensor of that shape has the same order of elements in both layouts (one channel,
// or no spatial extent).
bool same_order(const Shape& shape, Layout a, Layout b);

// real = scale · (q − zero_point), per tensor (axis < 0, one entry) or per channel along `axis`
// (one entry a channel).
struct Quantization {
  std::vector<float> scales;
  std::vector<int32_t> zero_points;
  int axis = -1;
  int32_t qmin = -128;
  int32_t qmax = 127;

  bool per_channel() const { return axis >= 0; }
  float scale() const { return scales.front(); }
  int32_t zero_point() const { return zero_points.front(); }
  bool operator==(const Quantization&) const = default;

  static Quantization per_tensor(float scale, int32_t zero_point, int32_t qmin = -128,
                                 int32_t qmax = 127) {
    return {{scale}, {zero_point}, -1, qmin, qmax};
  }
};

// The smallest and greatest value of an integer dtype of at most 32 bits, which is the default
// range of a Quantization.
struct IntegerRange {
  int32_t min, max;
};
IntegerRange integer_range(DType dtype);

// Quantization of the int32 bias of an op that multiplies `input` by `weight`: scale s_in·s_w
// rounded to float once, zero point 0. Per channel along axis 0 if the weight is per channel; the
// scales of a transposed convolution's weight repeat for each group.
Quantization bias_quantization(const Quantization& input, const Quantization& weight,
                               int64_t channels);

struct Type {
  DType dtype = DType::kFloat32;
  Shape shape;
  Layout layout = Layout::kContiguous;
  std::optional<Quantization> quantization;

  bool quantized() const { return quantization.has_value(); }
  int64_t elements() const { return element_count(shape); }
  int64_t bytes() const { return elements() * static_cast<int64_t>(byte_size(dtype)); }
  size_t rank() const { return shape.size(); }
  bool operator==(const Type&) const = default;
};

}  // namespace dtr
