// Frees, while a model is read, what only led to other constants: weights beside their
// transposition, the steps of a weight standardization. Each is as large as the weight.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/ir/constant_pool.h"

namespace dtr {

class ConstantRelease {
 public:
  // So many new bytes of constants are worth a look at all of them.
  static constexpr size_t kStep = size_t{8} << 20;
  explicit ConstantRelease(size_t step) : step_(step) {}

  // Whether `step` more bytes are there than after the last release.
  bool is_due(const ConstantPool& pool) const { return pool.owned_bytes() >= kept_ + step_; }
  // As ConstantPool::release_unused; freed memory goes back to the system.
  void release(ConstantPool& pool, const std::vector<bool>& used);

 private:
  size_t step_;
  size_t kept_ = 0;  // bytes, by the last release
};

}  // namespace dtr
