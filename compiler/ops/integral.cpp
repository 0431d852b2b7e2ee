#include "compiler/ops/integral.h"

#include <algorithm>

namespace dtr::ops {
namespace {

// Calls f with a null pointer of the C++ type that holds an element of an integer or a bool.
template <class F>
void for_integer_type(DType dtype, F f) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
      return f(static_cast<uint8_t*>(nullptr));
    case DType::kInt8:
      return f(static_cast<int8_t*>(nullptr));
    case DType::kInt16:
      return f(static_cast<int16_t*>(nullptr));
    case DType::kInt32:
      return f(static_cast<int32_t*>(nullptr));
    case DType::kInt64:
      return f(static_cast<int64_t*>(nullptr));
    case DType::kFloat32:
    case DType::kFloat64:
      DTR_CHECK(false);
  }
}

}  // namespace

std::vector<int64_t> integers_of(const TensorView& tensor) {
  std::vector<int64_t> values(static_cast<size_t>(tensor.elements()));
  for_integer_type(tensor.dtype,
                   [&]<class T>(T*) { std::ranges::copy(tensor.values<T>(), values.begin()); });
  return values;
}

Tensor as_int64(const TensorView& tensor) {
  Tensor wide(DType::kInt64, tensor.shape);
  for_integer_type(tensor.dtype, [&]<class T>(T*) {
    std::ranges::copy(tensor.values<T>(), wide.values<int64_t>().begin());
  });
  return wide;
}

void store_integers(std::span<const int64_t> values, const TensorView& result) {
  const bool truth = result.dtype == DType::kBool;
  for_integer_type(result.dtype, [&]<class T>(T*) {
    std::ranges::transform(values, result.values<T>().begin(), [truth](int64_t value) {
      return static_cast<T>(truth ? value != 0 : value);
    });
  });
}

}  // namespace dtr::ops
