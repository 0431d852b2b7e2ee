// Arithmetic on integers and bools: in int64, stored modulo 2^bits of the dtype, into bool whether
// it is zero. The dtype is looked at for each element, so that all dtypes and operators share one
// loop: such tensors are indices and masks, and few.
#pragma once

#include <type_traits>

#include "device/runtime/kernels/portable/elements.h"

namespace dtr::runtime::portable {

inline bool is_integer(ScalarType dtype) {
  return dtype == ScalarType::kBool || dtype == ScalarType::kByte || dtype == ScalarType::kChar ||
         dtype == ScalarType::kShort || dtype == ScalarType::kInt || dtype == ScalarType::kLong;
}

inline int64_t load_integer(const Tensor& tensor, int32_t at) {
  switch (tensor.dtype) {
    case ScalarType::kChar:
      return tensor.values<int8_t>()[at];
    case ScalarType::kShort:
      return tensor.values<int16_t>()[at];
    case ScalarType::kInt:
      return tensor.values<int32_t>()[at];
    case ScalarType::kLong:
      return tensor.values<int64_t>()[at];
    default:
      return tensor.values<uint8_t>()[at];
  }
}

inline void store_integer(const Tensor& tensor, int32_t at, int64_t value) {
  switch (tensor.dtype) {
    case ScalarType::kBool:
      tensor.values<uint8_t>()[at] = value != 0 ? 1 : 0;
      break;
    case ScalarType::kShort:
      tensor.values<int16_t>()[at] = static_cast<int16_t>(value);
      break;
    case ScalarType::kInt:
      tensor.values<int32_t>()[at] = static_cast<int32_t>(value);
      break;
    case ScalarType::kLong:
      tensor.values<int64_t>()[at] = value;
      break;
    default:
      tensor.values<uint8_t>()[at] = static_cast<uint8_t>(value);
      break;
  }
}

// An element of a float tensor as float, of one of integers or bools as int64.
template <class T>
T load_number(const Tensor& tensor, int32_t at) {
  if constexpr (std::is_same_v<T, float>) {
    return tensor.values<float>()[at];
  } else {
    return load_integer(tensor, at);
  }
}
template <class T>
void store_number(const Tensor& tensor, int32_t at, T value) {
  if constexpr (std::is_same_v<T, float>) {
    tensor.values<float>()[at] = value;
  } else {
    store_integer(tensor, at, value);
  }
}

// A number as the integer below it in magnitude, or the nearest that there is; 0 for NaN.
inline int64_t saturated(double number) {
  if (!(number > -0x1p63)) return number == number ? INT64_MIN : 0;
  return number < 0x1p63 ? static_cast<int64_t>(number) : INT64_MAX;
}

// Sums and products as the machine wraps them.
inline int64_t add_wrapping(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t multiply_wrapping(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// A function of two integers, and of a number that the kernel was called with.
struct IntegerFunction {
  int64_t (*call)(int64_t a, int64_t b, int64_t parameter);
  int64_t parameter = 0;
};

// out = f(a, b), all of one dtype; both are broadcast.
inline Error map_integers(const Tensor& a, const Tensor& b, const Tensor& out, IntegerFunction f) {
  if (!is_integer(out.dtype) || a.dtype != out.dtype || b.dtype != out.dtype)
    return Error::kKernelDtype;
  for_each_offset(
      out.shape(),
      [&](int32_t i, int32_t j, int32_t k) {
        store_integer(out, k, f.call(load_integer(a, i), load_integer(b, j), f.parameter));
      },
      broadcast_strides(a, out.rank), broadcast_strides(b, out.rank), strides_of(out));
  return Error::kOk;
}

// binary_float and unary_float that take integers too. Of one tensor, `f` gets it twice.
template <class F>
Error binary_number(std::span<Value* const> values, size_t out_index, F f, IntegerFunction g) {
  Arguments arguments(values);
  const Tensor& a = arguments.tensor(0);
  const Tensor& b = arguments.tensor(1);
  const Tensor& out = arguments.output(out_index);
  if (!arguments.good() || !broadcasts_to(a, out) || !broadcasts_to(b, out))
    return Error::kKernelArguments;
  return is_integer(out.dtype) ? map_integers(a, b, out, g) : binary_float(values, out_index, f);
}
template <class F>
Error unary_number(std::span<Value* const> values, size_t out_index, F f, IntegerFunction g) {
  Arguments arguments(values);
  const Tensor& in = arguments.tensor(0);
  const Tensor& out = arguments.output(out_index);
  if (!arguments.good() || !same_shape(in, out)) return Error::kKernelArguments;
  return is_integer(out.dtype) ? map_integers(in, in, out, g) : unary_float(values, out_index, f);
}

}  // namespace dtr::runtime::portable
