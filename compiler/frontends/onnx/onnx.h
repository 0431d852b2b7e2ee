// Reads ONNX models (.onnx): float, with quantize and dequantize operators (QDQ), or with quantized
// operators (QOperator).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/constant_release.h"
#include "compiler/ir/dimensions.h"
#include "compiler/ir/graph.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/result.h"

namespace dtr::onnx {

// Reads a model; its shapes, inputs and outputs are those of the file, contiguous. `path` names it
// in messages, and its folder holds external data. The file is let go as soon as it is parsed, and
// each stored tensor when it is read, so that no element is in memory twice. Open dimensions have
// the sizes of `sizes`, by their names (dim_param) or as "INPUT.NUMBER"; an open batch without one
// is 1. Errors: ids onnx-*, each with the tensor or node at fault; kOnnxUnsupportedShape also for a
// name that no dimension has, two sizes of one name.
Result<Module> read_onnx(FileContents file, const std::string& path,
                         const DimensionSizes& sizes = {});
// The same for a file in memory, of which nothing is kept. Constants that only led to others are
// released whenever `release_step` more bytes are there.
Result<Module> import_onnx(std::span<const std::byte> bytes, const std::string& path,
                           const DimensionSizes& sizes = {},
                           size_t release_step = ConstantRelease::kStep);

// True if a file that begins with these bytes may be an ONNX model. The format has no identifier:
// the first field is the format's version, and a known field follows it.
bool looks_like_onnx(std::span<const std::byte> head);

// The operators of the format, whether they are read, and what the others need that is not here.
struct OperatorSupport {
  std::string_view domain;  // "" for ai.onnx
  std::string_view name;
  bool read;
  std::string_view needs;
};
std::vector<OperatorSupport> operators_of_format();

// Describes the file as text: inputs, outputs, nodes, stored tensors; also for models with
// unsupported operators. Errors: file-not-found, onnx-invalid.
Result<std::string> describe_onnx(const std::string& path);

}  // namespace dtr::onnx
