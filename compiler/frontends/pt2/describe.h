// Describes a .pt2 file for `deuteron inspect`, also one that does not compile.
#pragma once

#include <string>

#include "compiler/support/result.h"

namespace dtr::pt2 {

// Lists versions, inputs, outputs, parameters with shape and bytes, and operators with their count,
// marking unsupported ones. Errors: those of read_pt2 for a damaged file; unsupported operators and
// dtypes are not errors here.
Result<std::string> describe_pt2(const std::string& path);

}  // namespace dtr::pt2
