// Walks the elements of a tensor in logical order, whatever their physical order is.
#pragma once

#include "device/runtime/kernels/portable/elements.h"

namespace dtr::runtime::portable {

class Walker {
 public:
  explicit Walker(const Tensor& tensor) : tensor_(&tensor), strides_(strides_of(tensor)) {}
  // The offset of the next element, in elements; at most as often as there are elements.
  int32_t next() {
    const int32_t now = offset_;
    for (int dim = tensor_->rank - 1; dim >= 0; --dim) {
      offset_ += strides_.of[dim];
      if (++index_[dim] < tensor_->sizes[dim]) break;
      offset_ -= strides_.of[dim] * tensor_->sizes[dim];
      index_[dim] = 0;
    }
    return now;
  }

 private:
  const Tensor* tensor_;
  Strides strides_;
  int32_t index_[kMaxRank] = {};
  int32_t offset_ = 0;
};

}  // namespace dtr::runtime::portable
