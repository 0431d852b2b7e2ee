// Moves elements between channels and pixels, by aten.view and aten.permute. Errors: `unsupported`
// of the builder, for the cases named below.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// (…, c · f², H, W) becomes (…, c, H · f, W · f); `back` reverses it. Unsupported: extents that the
// factor does not divide.
Result<ValueId> pixel_shuffle(GraphBuilder& builder, ValueId x, int64_t factor, bool back);

// Moves channel g · (C / groups) + i to i · groups + g. Unsupported: groups that do not divide the
// channels.
Result<ValueId> channel_shuffle(GraphBuilder& builder, ValueId x, int64_t groups);

}  // namespace dtr::compositions
