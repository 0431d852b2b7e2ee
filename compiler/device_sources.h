// Sources of what runs on a device, as this command carries them: a firmware project holds a copy of those that it needs.
#pragma once

#include <span>

#include "support/embedded_file.h"

namespace dtr {

// Sorted by path: abi, numerics, runtime, simulator/core, and the header that is generated from the program's schema.
std::span<const EmbeddedFile> device_sources();

}  // namespace dtr
