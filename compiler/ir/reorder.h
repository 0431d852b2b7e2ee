// Copies tensors between strided layouts: physical layouts, permutations, slices, reversals,
// repetitions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compiler/ir/type.h"

namespace dtr {

// to[Σ i_d · to_strides[d]] = from[Σ i_d · from_strides[d]] for all indices of `shape`, for
// elements of `element` bytes. Strides are in elements, one per dimension; those of the source may
// be 0 or negative.
void reorder(const Shape& shape, size_t element, const std::byte* from,
             std::span<const int64_t> from_strides, std::byte* to,
             std::span<const int64_t> to_strides);

// Convert a tensor between logical (row-major) order and its type's layout; both have type.bytes()
// bytes.
void to_physical(const Type& type, const std::byte* logical, std::byte* physical);
void to_logical(const Type& type, const std::byte* physical, std::byte* logical);

}  // namespace dtr
