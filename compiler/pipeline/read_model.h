// Kinds of files, told apart by content, not by name; and models of every kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/support/file_contents.h"

namespace dtr {

enum class FileKind : uint8_t {
  kUnknown,
  kPt2,
  kTflite,
  kProgram,
  kTensorFile,
  kTrace,
  kRecords,
  kArrays,
  kText
};

// By the first bytes of a file, which says nothing about the rest. A zip whose first member is a
// .npy, or a .npy, holds arrays; another zip is a .pt2.
FileKind kind_of(std::span<const std::byte> bytes);
// Errors: kFileNotFound.
Result<FileKind> file_kind(const std::string& path);

// A .pt2 (zip), .tflite (identifier TFL3) or IR text. Errors: kModelUnknown, kFileNotFound, and
// those of the importer.
Result<Module> read_model(const std::string& path);
// The same of a file that is in memory already. The program keeps the file: its constants are not
// copied.
Result<Module> read_model(FileContents file, FileKind kind, const std::string& path);
// The same of bytes that outlive the program.
Result<Module> parse_model(std::span<const std::byte> bytes, FileKind kind,
                           const std::string& name);

}  // namespace dtr
