// Tensors in the compiler: dense memory with a dtype and a logical shape, always contiguous in
// logical order.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "compiler/ir/type.h"
#include "compiler/support/diagnostic.h"

namespace dtr {

// A non-owning view of a tensor. Cheap to copy; a const view gives mutable elements.
struct TensorView {
  DType dtype = DType::kFloat32;
  Shape shape;
  std::byte* data = nullptr;

  int64_t elements() const { return element_count(shape); }
  size_t bytes() const { return static_cast<size_t>(elements()) * byte_size(dtype); }
  template <class T>
  std::span<T> values() const {
    DTR_CHECK(sizeof(T) == byte_size(dtype));
    return {reinterpret_cast<T*>(data), static_cast<size_t>(elements())};
  }
};

// A tensor that owns its memory (64-byte aligned, zero-initialized).
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape);
  static Tensor copy_of(DType dtype, Shape shape, std::span<const std::byte> bytes);

  DType dtype() const { return view_.dtype; }
  const Shape& shape() const { return view_.shape; }
  int64_t elements() const { return view_.elements(); }
  const TensorView& view() const { return view_; }
  std::span<const std::byte> bytes() const { return {view_.data, view_.bytes()}; }
  template <class T>
  std::span<T> values() {
    return view_.values<T>();
  }
  template <class T>
  std::span<const T> values() const {
    return view_.values<T>();
  }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  TensorView view_;
};

}  // namespace dtr
