// Kinds of files, told apart by content, not by name; and models of every kind.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/ir/graph.h"

namespace dtr {

enum class FileKind : uint8_t { kUnknown, kPt2, kTflite, kProgram, kTensorFile, kTrace, kRecords, kArrays, kText };
// By the first bytes of the file, which says nothing about the rest. A zip whose first member is a
// .npy, or a .npy, holds arrays; another zip is a .pt2. Errors: kFileNotFound.
Result<FileKind> file_kind(const std::string& path);

// .pt2 (zip), .tflite (identifier TFL3) or IR text. Errors: kModelUnknown, and those of the reader.
Result<Program> read_model(const std::string& path);

}  // namespace dtr
