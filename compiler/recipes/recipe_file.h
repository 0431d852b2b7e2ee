// Names of backends, for the reader of recipe files.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/targets/target.h"

namespace dtr {

// Backends that a recipe for the target may name. `only_fallbacks`: those that may be the last one.
std::vector<std::string_view> backend_names(const TargetDescription& target,
                                            bool only_fallbacks = false);

// Whether a backend has an option of this name.
bool has_option(std::string_view backend, std::string_view option);

}  // namespace dtr
