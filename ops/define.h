// What the files of `ops/` share to define operators.
#pragma once

#include <fmt/format.h>

#include "ops/ops.h"

namespace dtr::ops {

// infer of ops whose result has dtype and shape of operand 0.
std::vector<Type> infer_like_first(const OpView& view);

// A broken rule of `view`'s op: "aten.relu: <reason>".
tl::unexpected<Diagnostic> broken(const OpView& view, std::string_view reason);

}  // namespace dtr::ops
