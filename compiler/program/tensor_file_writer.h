// Writes constants of a program as a tensor file (.ptd), which Deuteron's and ExecuTorch's runtimes
// read.
//
// Layout: FlatBuffer with extended header, then segments on 16-byte boundaries. An entry is found
// by its key, which carries a hash of the tensor: a file of other weights lacks it, so that a
// program never runs with them. Entries are listed by ascending key, for a binary search; their
// bytes are in the order of `add`. The last bytes are a checksum, an entry of its own, which
// ExecuTorch ignores.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/type.h"

namespace dtr {

class TensorFileWriter {
 public:
  // `data` in the physical order of the type. Returns the key by which a program names it; equal
  // tensors are stored once.
  std::string add(const std::string& name, const Type& type, std::vector<std::byte> data);
  size_t bytes() const { return bytes_; }  // of all tensors
  std::vector<std::byte> finish() const;

 private:
  struct Entry {
    std::string key;
    Type type;
    std::vector<std::byte> data;
  };
  std::vector<Entry> entries_;
  std::multimap<uint64_t, size_t> known_;  // by hash
  size_t bytes_ = 0;
};

}  // namespace dtr
