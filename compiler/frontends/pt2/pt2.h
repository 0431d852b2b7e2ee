// Reads a PyTorch 2 export (.pt2, written by torch.export.save) without libtorch.
#pragma once

#include <span>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/result.h"
#include "compiler/support/zip_archive.h"

namespace dtr::pt2 {

// The program in canonical form (design.md 3): operators of ATen, static shapes, quantize and
// dequantize as explicit ops, one source operator a node of the file. Weights stay in the contents
// of the file, which the program keeps. Errors: ids pt2-*, zip-*, file-not-found, each with the
// node, its module path and its source line where there is one.
Result<Module> read_pt2(const std::string& path);
// The same of a file that is in memory already; `path` names it in messages.
Result<Module> read_pt2(FileContents file, const std::string& path);

// The same from memory, which must outlive the program; `file` names it in messages.
Result<Module> parse_pt2(std::span<const std::byte> bytes, const std::string& file,
                         ZipLimits limits = {});

}  // namespace dtr::pt2
