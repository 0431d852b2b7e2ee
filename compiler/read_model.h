// Reads a model of any kind that Deuteron knows, told apart by content, not by name.
#pragma once

#include <string>

#include "ir/graph.h"

namespace dtr {

// .pt2 (zip), .tflite (identifier TFL3) or IR text. Errors: kModelUnknown, and those of the reader.
Result<Program> read_model(const std::string& path);

}  // namespace dtr
