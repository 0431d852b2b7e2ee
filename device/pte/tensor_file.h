// A verified tensor file (.ptd): constants of a program that are stored outside of it.
// Freestanding; refers to the bytes, which must outlive it and may be in flash: tensors are used in
// place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "device/pte/status.h"

namespace dtr::ptd {
struct FlatTensor;  // device/pte/flat_tensor.fbs
struct NamedData;
}  // namespace dtr::ptd

namespace dtr::pte {

struct Tensor;

class TensorFile {
 public:
  TensorFile() = default;
  // Verifies header, structure, segments and, if present and `check_checksum`, the checksum. The
  // bytes must be aligned to kFileAlignment. Errors: kNotATensorFile, kTruncated, kMalformed,
  // kNewerVersion, kBadChecksum, kMisaligned, kNull.
  static Status open(std::span<const std::byte> bytes, bool check_checksum, TensorFile* file);

  size_t count() const;
  const ptd::NamedData& entry(size_t index) const;
  std::string_view name(size_t index) const;
  // The first entry of that name, null if there is none. Logarithmic in the number of entries if
  // their names ascend, as TensorFileWriter writes them, or after `set_order`; else linear.
  const ptd::NamedData* find(std::string_view key) const;
  bool names_ascend() const { return names_ascend_; }
  // Sets the indices of all entries by ascending name, equal names in the order of the file.
  // `order` must outlive the object.
  void set_order(std::span<const uint32_t> order) { order_ = order; }
  std::span<const std::byte> data(const ptd::NamedData& entry) const;
  // True if an entry has the dtype, sizes, dimension order, bytes and alignment of a verified
  // tensor of a program.
  bool fits(const ptd::NamedData& entry, const Tensor& tensor) const;

 private:
  std::span<const std::byte> segment_data_;
  const ptd::FlatTensor* root_ = nullptr;
  std::span<const uint32_t> order_;
  bool names_ascend_ = false;
};

// Tensor files in search order; they must outlive the object. The search is only linked if a
// program constructs this with files.
class TensorFiles {
 public:
  TensorFiles() = default;
  TensorFiles(std::span<const TensorFile> files) : files_(files), search_(search) {}
  // The data of an external tensor; null if no file has a fitting entry of its name.
  const std::byte* find(const Tensor& tensor) const {
    return search_ == nullptr ? nullptr : search_(files_, tensor);
  }

 private:
  static const std::byte* search(std::span<const TensorFile> files, const Tensor& tensor);

  std::span<const TensorFile> files_;
  const std::byte* (*search_)(std::span<const TensorFile> files, const Tensor& tensor) = nullptr;
};

}  // namespace dtr::pte
