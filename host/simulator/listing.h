// Lists microcode as text: header, operands, and a line for each command with its arguments,
// addresses and cycles.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "device/npu/target.h"

namespace dtr::simulator {

// Accepts any bytes; for an invalid payload the text has the error and its command. Lines end in
// '\n'.
std::string list_payload(const npu::Target& target, std::span<const std::byte> payload);

}  // namespace dtr::simulator
