// Builds operators that repeat, reverse or join a tensor's own elements, from aten.expand,
// aten.flip, aten.slice.Tensor and aten.cat. Errors: those of GraphBuilder, and `unsupported` of
// the builder for arguments that the shapes do not allow.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// x repeated along every dimension: the whole tensor, or each element. There may be more repeats
// than dimensions, not fewer.
enum class Repetition : uint8_t { kWhole, kEach };
Result<ValueId> repeat(GraphBuilder& builder, ValueId x, const Ints& repeats,
                       Repetition repetition);

// Expands all values to the shape that they broadcast to.
Result<std::vector<ValueId>> broadcast_together(GraphBuilder& builder, std::vector<ValueId> values);

// Expands vectors to a grid: vector i varies along dimension i. `exchanges_first`: the first two
// exchange their dimensions ("xy").
Result<std::vector<ValueId>> meshgrid(GraphBuilder& builder, std::vector<ValueId> vectors,
                                      bool exchanges_first);

// x rotated by quarter turns, from the first of two dimensions towards the second; negative
// dimensions count from the end.
Result<ValueId> rotate_quarters(GraphBuilder& builder, ValueId x, int64_t turns, Ints dims);

// Moves element i along each of `dims` to i + shift, modulo the extent. Without dimensions: shifts
// all elements in logical order.
Result<ValueId> roll(GraphBuilder& builder, ValueId x, const Ints& shifts, Ints dims);

// fftshift: frequency 0 to the middle of each dimension. `back`: ifftshift, its inverse, which
// differs for odd extents. `dims` count from the front.
Result<ValueId> shift_frequencies(GraphBuilder& builder, ValueId x, const Ints& dims, bool back);

// Pads with the tensor's own elements, one dimension after the other; `amounts` as the pad of
// aten.constant_pad_nd.
enum class Border : uint8_t { kReflect, kReplicate, kCircular };
Result<ValueId> pad_with_own_elements(GraphBuilder& builder, ValueId x, const Ints& amounts,
                                      Border mode);

}  // namespace dtr::compositions
