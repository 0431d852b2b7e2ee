// Where the elements of a tensor lie in memory, as digits: the index of an element in logical
// (row-major) order is written in a mixed radix, and every digit moves the address by a fixed step.
// Contiguous, channels-last, and whatever views and permutations make of them are all of this form,
// so that data is moved only when a kernel needs another order than the one that is there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/ir/type.h"

namespace dtr::neutron {

struct Mode {
  int64_t extent = 1;
  int64_t logical_stride = 1;  // weight in the logical index, in elements
  int64_t byte_stride = 1;     // bytes between neighbours in memory (elements are int8)
  bool operator==(const Mode&) const = default;
};

// Digits by falling size of the step: outermost in memory first, without digits of extent 1,
// neighbours merged where they are one run. Two orders of the same tensor are equal exactly if
// every element lies at the same address. Steps may leave gaps (a slice), be negative (reversed:
// the address is that of the element of index 0) or 0 (repeated); without any of these an order is
// dense.
using StridedLayout = std::vector<Mode>;

StridedLayout normalized(StridedLayout modes);
StridedLayout contiguous_layout(int64_t elements);
// Dense memory with the dimensions in that order, outermost first.
StridedLayout dense_layout(const Shape& shape, std::span<const int> dims);
StridedLayout strided_layout(const Shape& shape, Layout layout);
inline StridedLayout strided_layout(const Type& type) {
  return strided_layout(type.shape, type.layout);
}
// Dimensions at given byte strides (a part of a larger tensor).
StridedLayout strided_layout(const Shape& shape, std::span<const int64_t> steps);

// The dense order closest to it; the contiguous one where elements are repeated.
StridedLayout compacted(const StridedLayout& layout);

// The same addresses with digits split so that none reaches across one of `places`; nullopt if a
// digit cannot be split there (the place divides it unevenly). The result is sorted by step and not
// merged.
std::optional<StridedLayout> split_at(const StridedLayout& layout, std::span<const int64_t> places);
// split_at the places of the dimensions.
std::optional<StridedLayout> split_at_dims(const StridedLayout& layout, const Shape& shape);

// StridedLayout of the permuted tensor over the same memory: dimension i of the result is dims[i]
// of the operand. nullopt as for split_at.
std::optional<StridedLayout> permuted(const StridedLayout& layout, const Shape& shape,
                                      std::span<const size_t> dims);

// Bytes between neighbours along each dimension, 0 where the extent is 1; nullopt if a dimension
// has no such step.
std::optional<std::vector<int64_t>> steps_of(const StridedLayout& layout, const Shape& shape);

// A part of a tensor, or all of it, over the same memory, which begins `offset` bytes from it.
struct Section {
  StridedLayout layout;
  int64_t offset = 0;
};
// `count` elements along dimension `dim`, `step` apart from `start`; nullopt where digits that the
// dimension is made of do not divide so.
std::optional<Section> sliced(const StridedLayout& layout, const Shape& shape, size_t dim,
                              int64_t start, int64_t count, int64_t step);
// In reverse order along the marked dimensions.
std::optional<Section> reversed(const StridedLayout& layout, const Shape& shape,
                                const std::vector<bool>& dims);

// What a strided copy has to do: loops by falling step of the destination.
struct CopyLoop {
  int64_t extent = 1;
  int64_t from_step = 0, to_step = 0;
  bool operator==(const CopyLoop&) const = default;
};
// Loops that copy every element from `from` to `to`; nullopt if the digits of the two do not fit
// each other (then a copy through the contiguous order does it in two).
std::optional<std::vector<CopyLoop>> copy_loops(const StridedLayout& from, const StridedLayout& to);

// Loops over the elements of one tensor in several orders at once, by falling step of the last of
// them; neighbours that every order walks through in one go are merged. Steps of 0 are fine.
// nullopt as for copy_loops.
struct JointLoop {
  int64_t extent = 1;
  std::vector<int64_t> steps;  // one an order
};
std::optional<std::vector<JointLoop>> joint_loops(std::span<const StridedLayout> layouts);

// The order of a tensor seen as broadcast to `shape`: steps of 0 along the dimensions that are
// repeated. nullopt if a digit reaches across dimensions and cannot be split there.
std::optional<StridedLayout> broadcast_layout(const StridedLayout& layout, const Shape& from,
                                              const Shape& shape);

// `from` rearranged in a dense order, for constants.
std::vector<std::byte> rearranged(std::span<const std::byte> contiguous, const StridedLayout& to);

}  // namespace dtr::neutron
