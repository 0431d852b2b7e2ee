// Where tests find their data, and how they read it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/npz.h"

namespace dtr::test {

inline std::filesystem::path source_path(const std::string& relative) {
  const char* root = std::getenv("DEUTERON_SOURCE");
  return std::filesystem::path(root == nullptr ? "." : root) / relative;
}

// A committed export of PyTorch.
inline std::string export_path(const std::string& name) {
  return source_path("test/data/pt2/" + name).string();
}

// A file of the full set of models and cases; empty if the set is not there.
inline std::filesystem::path shared_path(const std::string& relative) {
  const char* root = std::getenv("DEUTERON_SHARED");
  if (root == nullptr || *root == '\0' ||
      !std::filesystem::exists(std::filesystem::path(root) / relative))
    return {};
  return std::filesystem::path(root) / relative;
}

// Says that a part of a test does not run, which otherwise passes; the line behind ctest's summary
// names it (scripts/not_run).
inline void not_run(const std::string& what) {
  std::printf("\nNOT RUN: %s\n", what.c_str());
  std::fflush(stdout);
}

// The conformance cases that there are: the full set, or the committed ones, which it says. `test`:
// "test_proof".
inline std::filesystem::path conformance_cases(const std::string& test) {
  const std::filesystem::path full = shared_path("conformance");
  if (full.empty())
    not_run("the full set of conformance cases in " + test + " (no DEUTERON_SHARED)");
  return full.empty() ? source_path("test/data/conformance") : full;
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

inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_FALSE(bytes.empty()) << path;
  return {bytes.begin(), bytes.end()};
}

// Every .pt2 below the folder, in the order of their paths.
inline void for_each_export(const std::filesystem::path& folder,
                            const std::function<void(const std::filesystem::path&)>& visit) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".pt2") paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const auto& path : paths) visit(path);
}

// A folder that disappears with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dtr-test-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  size_t size() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

// "pt2-invalid" of a failed result, "" of a good one.
template <class T>
std::string error_id(const Result<T>& result) {
  return result ? std::string() : std::string(info(result.error().id).name);
}

template <class T>
std::string error_text(const Result<T>& result) {
  return result ? std::string() : to_text(result.error());
}

}  // namespace dtr::test
