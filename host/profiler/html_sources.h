// The sources of the HTML report (host/profiler/html), embedded in the executable.
#pragma once

#include <span>

#include "compiler/support/embedded_file.h"

namespace dtr {

// report.html, report.css, then the scripts in the order in which they run.
std::span<const EmbeddedFile> html_sources();

}  // namespace dtr
