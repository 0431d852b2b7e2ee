// What `deuteron inspect` says about a .pt2 file, also of one that does not compile.
#pragma once

#include <string>

#include "compiler/support/result.h"

namespace dtr::pt2 {

// Versions, inputs, outputs, parameters with shape and bytes, operators with their count and those
// that are not supported. Errors: as read_pt2 for a file that is damaged; unsupported operators and
// dtypes are no error here.
Result<std::string> describe_pt2(const std::string& path);

}  // namespace dtr::pt2
