// Converts a .pt2 file to the form of edge programs in ExecuTorch's ETRecords: the schema of
// executorch.exir.serde, version 5.4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace dtr::pt2 {

struct EdgeExport {
  std::string json;
  std::vector<std::byte> state_dict;  // parameters and buffers, as torch.save writes them
  std::vector<std::byte> constants;   // constants, and buffers that are not saved with the module
};

// Every node keeps its operator (in the edge dialect), traces and modules. The keys of its modules
// are their paths, by which ExecuTorch's Inspector finds a module. Nodes in `handles` get that
// debug handle. `bytes` is a file that parse_pt2 reads. Errors: those of Archive, kPt2Invalid.
Result<EdgeExport> to_edge_export(std::span<const std::byte> bytes, const std::string& file,
                                  const std::map<std::string, uint32_t, std::less<>>& handles);

}  // namespace dtr::pt2
