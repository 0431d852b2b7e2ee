#include "compiler/ir/tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace dtr {

namespace {

constexpr std::align_val_t kAlignment{64};

// Asks for large pages for the whole pages of a large tensor: faults of small ones take as long as
// its first use. Where the system has none, nothing changes.
void prefer_large_pages(std::byte* data, size_t bytes) {
  constexpr size_t kLarge = size_t{4} << 20;
  if (bytes < kLarge) return;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t before = (page - reinterpret_cast<uintptr_t>(data) % page) % page;
  ::madvise(data + before, (bytes - before) / page * page, MADV_HUGEPAGE);
}

}  // namespace

void Tensor::Free::operator()(std::byte* data) const { operator delete(data, kAlignment); }

Tensor::Tensor(DType dtype, Shape shape) {
  view_ = {dtype, std::move(shape), nullptr};
  const size_t size = view_.bytes();
  const size_t rounded = (size + 63) / 64 * 64 + 64;
  auto* memory = static_cast<std::byte*>(operator new(rounded, kAlignment));
  prefer_large_pages(memory, rounded);
  std::memset(memory, 0, rounded);
  memory_.reset(memory);
  view_.data = memory;
}

Tensor Tensor::copy_of(DType dtype, Shape shape, std::span<const std::byte> bytes) {
  Tensor tensor(dtype, std::move(shape));
  DTR_CHECK(bytes.size() == tensor.view_.bytes());
  if (!bytes.empty()) std::memcpy(tensor.view_.data, bytes.data(), bytes.size());
  return tensor;
}

}  // namespace dtr
