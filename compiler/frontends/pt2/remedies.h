// What to change in the source of a PyTorch model, for an operator that is refused.
#pragma once

#include <string>
#include <string_view>

namespace dtr::pt2 {

// For an operator whose result has a size, or is a Python number, that depends on elements of a
// tensor. `target` is "aten.nonzero.default".
std::string_view remedy_of_data(std::string_view target);

// For an operator that draws random numbers.
std::string_view remedy_of_random(std::string_view target);

struct MissingKind {
  bool complex = false;     // it takes or gives complex numbers
  bool decomposed = false;  // the program is a result of run_decompositions()
};
// For an operator that the importer does not know.
std::string remedy_of_missing(std::string_view target, MissingKind kind);

}  // namespace dtr::pt2
