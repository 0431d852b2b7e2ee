// A tensor file (.ptd), checked: constants that a program names and that lie outside of it.
// Freestanding; refers to the bytes, which must outlive it and may lie in flash: tensors are used
// in place.
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
  // Checks header, structure, segments and checksum (if there and wanted). The first byte lies on a
  // boundary of kFileAlignment.
  static Status open(std::span<const std::byte> bytes, bool check_checksum, TensorFile* file);

  size_t count() const;
  const ptd::NamedData& entry(size_t index) const;
  std::string_view name(size_t index) const;
  // The first entry of that name, null if there is none. Logarithmic in the entries where their
  // names ascend, as TensorFileWriter writes them, or where `set_order` was called; else linear.
  const ptd::NamedData* find(std::string_view key) const;
  bool names_ascend() const { return names_ascend_; }
  // Indices of all entries by ascending name, equal names in the order of the file; must outlive
  // it.
  void set_order(std::span<const uint32_t> order) { order_ = order; }
  std::span<const std::byte> data(const ptd::NamedData& entry) const;
  // Whether an entry has dtype, sizes, dimension order, bytes and alignment of a tensor of a
  // program that was checked.
  bool fits(const ptd::NamedData& entry, const Tensor& tensor) const;

 private:
  std::span<const std::byte> segment_data_;
  const ptd::FlatTensor* root_ = nullptr;
  std::span<const uint32_t> order_;
  bool names_ascend_ = false;
};

// Tensor files in the order in which they are searched; they must outlive it. Where there are none,
// nothing of the search is linked.
class TensorFiles {
 public:
  TensorFiles() = default;
  TensorFiles(std::span<const TensorFile> files) : files_(files), search_(search) {}
  // Data of an external tensor; null if no file has one of its name that fits.
  const std::byte* find(const Tensor& tensor) const {
    return search_ == nullptr ? nullptr : search_(files_, tensor);
  }

 private:
  static const std::byte* search(std::span<const TensorFile> files, const Tensor& tensor);

  std::span<const TensorFile> files_;
  const std::byte* (*search_)(std::span<const TensorFile> files, const Tensor& tensor) = nullptr;
};

}  // namespace dtr::pte
