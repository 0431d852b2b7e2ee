// Where tests find their data, and how they read it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "ir/npz.h"

namespace dtr::test {

inline std::filesystem::path source_path(const std::string& relative) {
  const char* root = std::getenv("DEUTERON_SOURCE");
  return std::filesystem::path(root == nullptr ? "." : root) / relative;
}

// A file of the full set of models and cases; empty if the set is not there.
inline std::filesystem::path shared_path(const std::string& relative) {
  const char* root = std::getenv("DEUTERON_SHARED");
  if (root == nullptr || *root == '\0' || !std::filesystem::exists(std::filesystem::path(root) / relative)) return {};
  return std::filesystem::path(root) / relative;
}

inline std::vector<NamedTensor> read_arrays(const std::filesystem::path& path) {
  auto arrays = read_npz(path.string());
  if (!arrays) ADD_FAILURE() << to_text(arrays.error());
  return arrays ? std::move(*arrays) : std::vector<NamedTensor>{};
}

inline const Tensor* find_array(const std::vector<NamedTensor>& arrays, const std::string& name) {
  for (const NamedTensor& array : arrays)
    if (array.name == name) return &array.tensor;
  return nullptr;
}

}  // namespace dtr::test
