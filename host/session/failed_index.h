// What a kernel that refused an index does not say: which one, and of how many elements.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "device/runtime/value.h"

namespace dtr {

// ": index 7 of 5 elements", of the first index that the arguments of the operator ("aten::gather",
// without overload) hold outside of its dimension. Empty if there is none: the operator is another,
// or its index was computed as a place that nothing has.
std::string failed_index(std::string_view kernel, std::span<runtime::Value* const> arguments);

}  // namespace dtr
