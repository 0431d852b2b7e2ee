// Microcode as text, for people: header, operands, one line a command with what it computes, where
// its data lie and its cycles.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "device/npu/target.h"

namespace dtr::simulator {

// Any bytes; where a payload is refused, the text says why and at which command. Lines end in '\n'.
std::string list_payload(const npu::Target& target, std::span<const std::byte> payload);

}  // namespace dtr::simulator
