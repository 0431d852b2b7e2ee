// Element types of tensors in a program file: PyTorch's numbers. Freestanding.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dtr {

enum class ScalarType : int8_t {
  kByte = 0,
  kChar = 1,
  kShort = 2,
  kInt = 3,
  kLong = 4,
  kHalf = 5,
  kFloat = 6,
  kDouble = 7,
  kBool = 11
};

// Bytes of one element; 0 for an unknown number.
constexpr size_t byte_size(ScalarType type) {
  switch (type) {
    case ScalarType::kByte:
    case ScalarType::kChar:
    case ScalarType::kBool:
      return 1;
    case ScalarType::kShort:
    case ScalarType::kHalf:
      return 2;
    case ScalarType::kInt:
    case ScalarType::kFloat:
      return 4;
    case ScalarType::kLong:
    case ScalarType::kDouble:
      return 8;
  }
  return 0;
}

constexpr size_t kMaxRank = 16;  // as ExecuTorch's runtime

}  // namespace dtr
