// The constants of a module, deduplicated by hash. Weights in a file that the pool owns are
// referenced, not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "compiler/ir/type.h"
#include "compiler/support/detached_bytes.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_contents.h"

namespace dtr {

struct ConstantId {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
  auto operator<=>(const ConstantId&) const = default;
};

class ConstantPool {
 public:
  // Owns the contents of a file for as long as the pool lives; constants may refer to them.
  void keep(FileContents file) { files_.push_back(std::move(file)); }

  // Copies `bytes` unless a constant of the same dtype and content exists. The shape belongs to the
  // value, not to the constant.
  ConstantId add(DType dtype, std::span<const std::byte> bytes);
  // As add, but refers to `bytes` inside an owned file; copies them if they are not aligned for the
  // dtype.
  ConstantId add_in_place(DType dtype, std::span<const std::byte> bytes);
  template <class T>
  ConstantId add_values(DType dtype, std::span<const T> values) {
    return add(dtype, std::as_bytes(values));
  }

  DType dtype(ConstantId id) const { return entries_.at(id.index).dtype; }
  std::span<const std::byte> bytes(ConstantId id) const {
    const Entry& entry = entries_.at(id.index);
    DTR_CHECK(!entry.released);
    return entry.bytes;
  }
  bool released(ConstantId id) const { return entries_.at(id.index).released; }
  uint64_t hash(ConstantId id) const { return entries_.at(id.index).hash; }
  template <class T>
  std::span<const T> values(ConstantId id) const {
    const std::span<const std::byte> raw = bytes(id);
    return {reinterpret_cast<const T*>(raw.data()), raw.size() / sizeof(T)};
  }
  size_t size() const { return entries_.size(); }

  // Bytes of copies, without those inside of files.
  size_t owned_bytes() const { return owned_bytes_; }
  // Frees the copies of constants that are not `used` (by index, for all of them): nobody may read
  // their bytes any more. dtype and hash stay, and the same content can be added again, as another
  // constant.
  void release_unused(const std::vector<bool>& used);

 private:
  struct Entry {
    DType dtype;
    uint64_t hash;
    std::span<const std::byte> bytes;
    std::unique_ptr<std::byte[]> owned;
    bool released = false;
  };
  ConstantId find_or_add(DType dtype, std::span<const std::byte> bytes, bool copy);

  std::vector<Entry> entries_;
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;
  std::vector<FileContents> files_;
  size_t owned_bytes_ = 0;
};

// 64-bit content hash, stable across machines and runs; not cryptographic.
uint64_t content_hash(std::span<const std::byte> bytes, uint64_t seed = 0);
// The same of a file with detached parts: the hash of the file in one piece.
uint64_t content_hash(std::span<const std::byte> bytes, std::span<const DetachedBytes> detached);

}  // namespace dtr
