// Reads a PyTorch 2 export (.pt2, written by torch.export.save) without libtorch.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/ir/dimensions.h"
#include "compiler/ir/graph.h"
#include "compiler/support/file_contents.h"
#include "compiler/support/result.h"
#include "compiler/support/zip_archive.h"

namespace dtr::pt2 {

// Reads a model into canonical form: ATen operators, static shapes, quantize and dequantize as
// explicit ops, and a source operator for each node of the file. Weights refer to the contents of
// the file, which the module owns. Errors: ids pt2-*, zip-*, file-not-found, each with the node,
// its module path and its source line if known. `sizes` are those of dimensions that the export
// left open; errors: those of bind_dimensions.
Result<Module> read_pt2(const std::string& path, const DimensionSizes& sizes = {});
// The same for a file in memory; `path` names it in messages. Errors: ids pt2-*, zip-*.
Result<Module> read_pt2(FileContents file, const std::string& path,
                        const DimensionSizes& sizes = {});

// The same for bytes that must outlive the module, as must weights that are not in them
// (`detached`); `file` names them in messages. Errors: ids pt2-*, zip-*.
Result<Module> parse_pt2(std::span<const std::byte> bytes, const std::string& file,
                         ZipLimits limits = {}, std::span<const DetachedBytes> detached = {},
                         const DimensionSizes& sizes = {});

// The same, but what is computed from parameters stays operators, so that PyTorch can train an
// export of what the graph has. Errors: as parse_pt2, also for operators that need a constant
// there.
Result<Module> parse_trainable_pt2(std::span<const std::byte> bytes, const std::string& file);

// An operator of PyTorch that the reader knows, by name. In-place forms ("aten.relu_.default") are
// read as the plain ones.
struct ReadOperator {
  std::string name;                        // "aten.add"
  std::vector<std::string> real, complex;  // overloads, on real and on complex numbers
};
// Sorted by name.
std::vector<ReadOperator> read_operators();

}  // namespace dtr::pt2
