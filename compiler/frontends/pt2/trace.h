// Extracts the Python source of a node from the metadata that torch.export writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtr::pt2 {

// "L__self__,,Model;140…,stem,Sequential;140…,stem.0,Conv2d" → "stem.0"; "" for the model itself.
std::string module_path(std::string_view module_stack);
// The same text → {"Model", "Sequential", "Conv2d"}, qualified with their Python modules if the
// file has them.
std::vector<std::string> module_types(std::string_view module_stack);

// A Python stack trace → "model.py:208": the innermost frame outside torch, or the innermost frame
// if all are in torch.
std::string source_line(std::string_view stack_trace);

}  // namespace dtr::pt2
