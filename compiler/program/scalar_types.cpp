#include "compiler/program/scalar_types.h"

#include <algorithm>

namespace dtr {

ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return ScalarType::kBool;
    case DType::kUint8:
      return ScalarType::kByte;
    case DType::kInt8:
      return ScalarType::kChar;
    case DType::kInt16:
      return ScalarType::kShort;
    case DType::kInt32:
      return ScalarType::kInt;
    case DType::kInt64:
      return ScalarType::kLong;
    case DType::kFloat32:
      return ScalarType::kFloat;
    case DType::kFloat64:
      return ScalarType::kDouble;
  }
  return ScalarType::kByte;
}

std::optional<DType> dtype_of(ScalarType type) {
  for (uint8_t i = 0; i <= static_cast<uint8_t>(DType::kFloat64); ++i)
    if (scalar_type(static_cast<DType>(i)) == type) return static_cast<DType>(i);
  return std::nullopt;
}

std::string_view name(ScalarType type) {
  switch (type) {
    case ScalarType::kByte:
      return "u8";
    case ScalarType::kChar:
      return "i8";
    case ScalarType::kShort:
      return "i16";
    case ScalarType::kInt:
      return "i32";
    case ScalarType::kLong:
      return "i64";
    case ScalarType::kHalf:
      return "f16";
    case ScalarType::kFloat:
      return "f32";
    case ScalarType::kDouble:
      return "f64";
    case ScalarType::kBool:
      return "bool";
  }
  return "?";
}

Type type_of(ScalarType dtype, std::span<const int32_t> sizes, std::span<const uint8_t> order) {
  Type type{.dtype = dtype_of(dtype).value_or(DType::kInt16),
            .shape = Shape(sizes.begin(), sizes.end())};
  const std::vector<int> last = dim_order(Layout::kChannelsLast, type.rank());
  if (type.rank() >= 3 && std::equal(last.begin(), last.end(), order.begin(), order.end()))
    type.layout = Layout::kChannelsLast;
  return type;
}

std::vector<uint8_t> file_dim_order(const Type& type) {
  std::vector<uint8_t> order;
  for (const int dim : dim_order(type.layout, type.rank()))
    order.push_back(static_cast<uint8_t>(dim));
  return order;
}

}  // namespace dtr
