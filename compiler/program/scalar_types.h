// Converts the IR's dtypes and layouts from and to those of a program file.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/ir/type.h"
#include "device/pte/scalar_type.h"

namespace dtr {

ScalarType scalar_type(DType dtype);
// The dtype of a scalar type; std::nullopt for half and for unknown numbers.
std::optional<DType> dtype_of(ScalarType type);
// "f32"; "?" for an unknown number.
std::string_view name(ScalarType type);
// The type of a tensor in a program file. Half, which Deuteron does not compute in, becomes its 16
// bits; a dimension order other than channels-last counts as contiguous.
Type type_of(ScalarType dtype, std::span<const int32_t> sizes, std::span<const uint8_t> dim_order);
// The dimension order of a type as a program file lists it.
std::vector<uint8_t> file_dim_order(const Type& type);

}  // namespace dtr
