// Reads TensorFlow Lite models (.tflite), float or quantized to int8.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/result.h"

namespace dtr::tflite {

// A model as a program, and where its tensors went. Tensors of rank 4 are NHWC in the file; in the
// program their logical shape is NCHW (weights: OIHW), inputs and outputs of rank 4 have layout
// channels_last. Everything else keeps its order of dimensions.
struct Import {
  Module module;
  std::vector<ValueId> values;  // by tensor index of the first subgraph; invalid for tensors that
                                // no value stands for
};

// Values are named after tensors. One source operator an operator of the file. Errors:
// file-not-found and ids tflite-*, each with the tensor or operator that is at fault.
Result<Module> read_tflite(const std::string& path);
// The same of a file that is in memory already; `path` names it in messages.
Result<Module> read_tflite(FileContents file, const std::string& path);
Result<Import> import_tflite(const std::string& path);

// The same from memory, which must outlive nothing: constants are copied. `file` names it in
// messages.
Result<Import> parse_tflite(std::span<const std::byte> bytes, const std::string& file);

// What the file holds, as text: inputs, outputs, operators with types and quantization; also of
// models with operators that are not imported. Errors: file-not-found, tflite-invalid.
Result<std::string> describe_tflite(const std::string& path);

}  // namespace dtr::tflite
