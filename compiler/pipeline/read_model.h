// Detects the kind of a file from its content, not its name, and reads models of every kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "compiler/ir/dimensions.h"
#include "compiler/ir/graph.h"
#include "compiler/support/detached_bytes.h"
#include "compiler/support/file_contents.h"

namespace dtr {

enum class FileKind : uint8_t {
  kUnknown,
  kPt2,
  kTflite,
  kOnnx,
  kProgram,
  kTensorFile,
  kTrace,
  kRecords,
  kArrays,
  kText
};

// Looks at the first bytes of a file only; the rest may still be invalid. A zip whose first member
// is a .npy, or a .npy, holds arrays; another zip is a .pt2.
FileKind kind_of(std::span<const std::byte> bytes);
// The kind of the file at `path`. Error: kFileNotFound.
Result<FileKind> file_kind(const std::string& path);

// What a model of that kind is called in messages: "a .tflite file".
std::string_view name_of(FileKind kind);

// Reads a .pt2 (zip), a .tflite (identifier TFL3), an .onnx (its first fields) or IR text. Errors:
// kModelUnknown, kFileNotFound, and those of the importer. `sizes` are those of dimensions that
// the model leaves open; error: kModelUnknown, for a kind of file that has none.
Result<Module> read_model(const std::string& path, const DimensionSizes& sizes = {});
// The same for a file in memory. The module owns the file, whose constants are not copied. Errors:
// kModelUnknown, and those of the importer.
Result<Module> read_model(FileContents file, FileKind kind, const std::string& path,
                          const DimensionSizes& sizes = {});
// The same for bytes that outlive the module; `detached`: weights of a .pt2 that are not in them.
Result<Module> parse_model(std::span<const std::byte> bytes, FileKind kind, const std::string& name,
                           std::span<const DetachedBytes> detached = {},
                           const DimensionSizes& sizes = {});

}  // namespace dtr
