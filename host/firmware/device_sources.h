// The device sources embedded in the executable: a firmware project gets a copy of those that it
// needs.
#pragma once

#include <span>

#include "compiler/support/embedded_file.h"

namespace dtr {

// Sorted by path: the folder device/ without its examples, and the headers that flatc generates
// from its schemas.
std::span<const EmbeddedFile> device_sources();

}  // namespace dtr
