// Builds a zip archive in memory. Its bytes depend only on the added entries: no times, no names of
// machines.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dtr {

class ZipWriter {
 public:
  ZipWriter();
  ~ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  void add(const std::string& name, std::span<const std::byte> bytes, bool deflate = false);
  // The archive. The writer must not be used afterwards.
  std::vector<std::byte> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dtr
