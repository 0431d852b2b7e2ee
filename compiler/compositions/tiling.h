// Operators that repeat, reverse or join a tensor's own elements, as aten.expand, aten.flip,
// aten.slice.Tensor and aten.cat.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// x repeated along every dimension: as a whole, or each element. There may be more repeats than
// dimensions, never fewer.
enum class Repetition : uint8_t { kWhole, kEach };
Result<ValueId> repeat(GraphBuilder& builder, ValueId x, const Ints& repeats,
                       Repetition repetition);

// All values in the shape that they broadcast to.
Result<std::vector<ValueId>> broadcast_together(GraphBuilder& builder, std::vector<ValueId> values);

// Vectors as a grid: each varies along a dimension of its own. `exchanges_first`: the first two
// vectors exchange theirs ("xy").
Result<std::vector<ValueId>> meshgrid(GraphBuilder& builder, std::vector<ValueId> vectors,
                                      bool exchanges_first);

// x turned by quarters, from the first of two dimensions towards the second; negative dimensions
// count from the end.
Result<ValueId> rotate_quarters(GraphBuilder& builder, ValueId x, int64_t turns, Ints dims);

// Element i of each of `dims` goes to i + shift, modulo the extent. Without dimensions: over all
// elements in logical order.
Result<ValueId> roll(GraphBuilder& builder, ValueId x, const Ints& shifts, Ints dims);

// Borders made of the tensor's own elements, one dimension after the other; `amounts` as the pad of
// aten.constant_pad_nd.
enum class Border : uint8_t { kReflect, kReplicate, kCircular };
Result<ValueId> pad_with_own_elements(GraphBuilder& builder, ValueId x, const Ints& amounts,
                                      Border mode);

}  // namespace dtr::compositions
