// Maps the elements of a tensor to memory as a list of modes (shape and stride pairs, as CuTe calls
// them): the logical, row-major index of an element is written in a mixed radix, and every mode
// moves the address by a fixed stride. Contiguous and channels-last tensors and every view and
// permutation of them have this form, so that data is moved only when a kernel needs another layout
// than the value has.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compiler/ir/type.h"

namespace dtr::neutron {

struct Mode {
  int64_t extent = 1;
  int64_t logical_stride = 1;  // elements between neighbours in the logical, row-major index
  int64_t byte_stride = 1;     // bytes between neighbours in memory (elements are int8)
  bool operator==(const Mode&) const = default;
};

// Modes by falling byte stride: outermost in memory first, without modes of extent 1, contiguous
// neighbours merged. Two layouts of the same tensor are equal exactly if every element has the same
// address. Byte strides may leave gaps (a slice), be negative (a reversed tensor: the address is
// that of the element of index 0) or 0 (a repeated element); a layout without any of these is
// dense.
using StridedLayout = std::vector<Mode>;

// Sorts the modes by byte stride, drops those of extent 1 and merges contiguous neighbours.
StridedLayout normalized(StridedLayout modes);
// A row-major tensor of so many int8 elements.
StridedLayout contiguous_layout(int64_t elements);
// Dense memory with the dimensions in the order of `dims`, outermost first.
StridedLayout dense_layout(const Shape& shape, std::span<const int> dims);
StridedLayout strided_layout(const Shape& shape, Layout layout);
inline StridedLayout strided_layout(const Type& type) {
  return strided_layout(type.shape, type.layout);
}
// Dimension i has the byte stride `steps[i]`: a part of a larger tensor.
StridedLayout strided_layout(const Shape& shape, std::span<const int64_t> steps);

// The dense layout with the same order of modes; the contiguous layout if elements are repeated.
StridedLayout compacted(const StridedLayout& layout);

// The same addresses with modes split so that no mode spans one of the logical strides `places`;
// nullopt if a mode cannot be split there because the stride does not divide it. The result is
// sorted by byte stride and not merged.
std::optional<StridedLayout> split_at(const StridedLayout& layout, std::span<const int64_t> places);
// split_at the logical strides of the dimensions.
std::optional<StridedLayout> split_at_dims(const StridedLayout& layout, const Shape& shape);

// The layout of the permuted tensor in the same memory: dimension i of the result is dimension
// dims[i] of the operand. nullopt as for split_at.
std::optional<StridedLayout> permuted(const StridedLayout& layout, const Shape& shape,
                                      std::span<const size_t> dims);

// Bytes between neighbours along each dimension, 0 where the extent is 1; nullopt if a dimension
// has no single byte stride.
std::optional<std::vector<int64_t>> steps_of(const StridedLayout& layout, const Shape& shape);

// A part of a tensor, or all of it, in the same memory. `offset`: bytes from the first element of
// the tensor to that of the part.
struct Section {
  StridedLayout layout;
  int64_t offset = 0;
};
// `count` elements along dimension `dim`, `step` apart, from index `start` on; nullopt if the modes
// of the dimension cannot be split there.
std::optional<Section> sliced(const StridedLayout& layout, const Shape& shape, size_t dim,
                              int64_t start, int64_t count, int64_t step);
// The tensor reversed along the marked dimensions; nullopt as for split_at.
std::optional<Section> reversed(const StridedLayout& layout, const Shape& shape,
                                const std::vector<bool>& dims);

// One loop of a strided copy, by falling byte stride of the destination.
struct CopyLoop {
  int64_t extent = 1;
  int64_t from_step = 0, to_step = 0;
  bool operator==(const CopyLoop&) const = default;
};
// Loops that copy every element from `from` to `to`; nullopt if the modes of the two layouts cannot
// be split alike. Two copies, through the contiguous layout, then do it.
std::optional<std::vector<CopyLoop>> copy_loops(const StridedLayout& from, const StridedLayout& to);

// Loops over the elements of one tensor in several layouts at once, by falling byte stride of the
// last layout; neighbouring loops that are contiguous in every layout are merged. Strides of 0 are
// allowed. nullopt as for copy_loops.
struct JointLoop {
  int64_t extent = 1;
  std::vector<int64_t> steps;  // bytes, one for each layout
};
std::optional<std::vector<JointLoop>> joint_loops(std::span<const StridedLayout> layouts);

// The layout of a tensor of shape `from` broadcast to `shape`: byte strides of 0 along repeated
// dimensions. nullopt if a mode spans several dimensions and cannot be split at them.
std::optional<StridedLayout> broadcast_layout(const StridedLayout& layout, const Shape& from,
                                              const Shape& shape);

// The bytes of a contiguous constant rearranged to the dense layout `to`.
std::vector<std::byte> rearranged(std::span<const std::byte> contiguous, const StridedLayout& to);

}  // namespace dtr::neutron
