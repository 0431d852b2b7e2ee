// Finds the index that a kernel or the NPU refused, and the number of elements it is outside of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "device/npu/target.h"
#include "device/runtime/value.h"

namespace dtr {

// ": index 7 of 5 elements", of the first index that the arguments of the operator ("aten::gather",
// without overload) hold outside of its dimension. Empty if there is none: the operator is another,
// or its index was computed as a place that nothing has.
std::string failed_index(std::string_view kernel, std::span<runtime::Value* const> arguments);

// The same of a gather on the NPU that ended a run: its command in the payload, whose arguments are
// the operands and the scratch memory.
std::string failed_index(const npu::Target& target, std::span<const std::byte> payload,
                         uint32_t command, std::span<runtime::Value* const> arguments);

}  // namespace dtr
