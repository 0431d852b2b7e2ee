// Sources of what runs on a device, as this command carries them: a firmware project holds a copy
// of those that it needs.
#pragma once

#include <span>

#include "compiler/support/embedded_file.h"

namespace dtr {

// Sorted by path: the folder device/ without its examples, and the headers that flatc makes of its
// schemas.
std::span<const EmbeddedFile> device_sources();

}  // namespace dtr
