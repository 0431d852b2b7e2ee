// The header of plug-ins, embedded in the executable: their sources are compiled with it.
#pragma once

#include <span>

#include "compiler/support/embedded_file.h"

namespace dtr {

std::span<const EmbeddedFile> kernel_header();

}  // namespace dtr
