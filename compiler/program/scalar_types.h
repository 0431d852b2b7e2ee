// The IR's dtypes and the numbers that stand for them in a program file.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/ir/type.h"
#include "device/pte/scalar_type.h"

namespace dtr {

ScalarType scalar_type(DType dtype);
// The dtype of a scalar type; half has none.
std::optional<DType> dtype_of(ScalarType type);
// "f32"; "?" for a number that is none.
std::string_view name(ScalarType type);
// A tensor of a program file. Half, which Deuteron does not compute in, reads as its bits; an order
// that is not channels-last as contiguous.
Type type_of(ScalarType dtype, std::span<const int32_t> sizes, std::span<const uint8_t> dim_order);
// The dimension order of a type as a program file lists it.
std::vector<uint8_t> file_dim_order(const Type& type);

}  // namespace dtr
