// Where in the user's Python a node comes from, out of the texts that torch.export keeps in its
// metadata.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtr::pt2 {

// "L__self__,,Model;140…,stem,Sequential;140…,stem.0,Conv2d" → "stem.0"; "" for the model itself.
std::string module_path(std::string_view module_stack);
// The same → {"Model", "Sequential", "Conv2d"}, with the names of their Python modules in front
// where the file has them.
std::vector<std::string> module_types(std::string_view module_stack);

// A Python stack trace → "model.py:208": the innermost frame outside torch, or the innermost of a
// file if there is none outside.
std::string source_line(std::string_view stack_trace);

}  // namespace dtr::pt2
