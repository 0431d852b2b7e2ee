#include "program/scalar_types.h"

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

std::vector<uint8_t> file_dim_order(const Type& type) {
  std::vector<uint8_t> order;
  for (const int dim : dim_order(type.layout, type.rank())) order.push_back(static_cast<uint8_t>(dim));
  return order;
}

}  // namespace dtr
