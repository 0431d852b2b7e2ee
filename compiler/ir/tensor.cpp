#include "compiler/ir/tensor.h"

#include <new>

namespace dtr {

namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

void Tensor::Free::operator()(std::byte* data) const { operator delete(data, kAlignment); }

Tensor::Tensor(DType dtype, Shape shape) {
  view_ = {dtype, std::move(shape), nullptr};
  const size_t size = view_.bytes();
  const size_t rounded = (size + 63) / 64 * 64 + 64;
  auto* memory = static_cast<std::byte*>(operator new(rounded, kAlignment));
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
