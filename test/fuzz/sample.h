// Small programs that the compiler makes on the spot, from test/fuzz/models: seeds of the fuzz
// targets, and the program that an input belongs to where the input is not a program itself.
#pragma once

#include <string_view>

#include "compiler/pipeline/compile.h"

namespace dtr::fuzz {

// The float model: "image" or "sequence".
Module read_sample(std::string_view model);
// The same, compiled. Calibrated on noise; the same bytes on every call. Ends the process if the
// compiler refuses, as the models are ours.
Compilation compile_sample(std::string_view model, std::string_view target,
                           bool external_constants = false, Io io = Io::kFloat);

}  // namespace dtr::fuzz
