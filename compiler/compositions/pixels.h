// Exchanges between channels and pixels, as aten.view and aten.permute.
#pragma once

#include "compiler/ir/builder.h"

namespace dtr::compositions {

// (…, c · f², H, W) becomes (…, c, H · f, W · f); `back` the other way. Errors: extents that the
// factor does not divide.
Result<ValueId> pixel_shuffle(GraphBuilder& builder, ValueId x, int64_t factor, bool back);

// Channel g · (C / groups) + i goes to i · groups + g. Errors: groups that do not divide the
// channels.
Result<ValueId> channel_shuffle(GraphBuilder& builder, ValueId x, int64_t groups);

}  // namespace dtr::compositions
