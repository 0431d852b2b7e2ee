// The page of an HTML report, as this command carries it: profiler/html.
#pragma once

#include <span>

#include "support/embedded_file.h"

namespace dtr {

// report.html, report.css, then the scripts in the order in which they run.
std::span<const EmbeddedFile> html_sources();

}  // namespace dtr
