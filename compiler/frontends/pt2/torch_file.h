// Writes tensors in the format of torch.save for a dict: a zip with a pickle of protocol 2 and a
// member with raw elements for each tensor.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/tensor.h"

namespace dtr::pt2 {

struct TorchTensor {
  std::string name;
  Tensor tensor;
  bool parameter = false;  // a torch.nn.Parameter
};

// torch.load, also with weights_only, returns {name: tensor} in this order, contiguous, on the CPU.
std::vector<std::byte> to_torch_file(std::span<const TorchTensor> tensors);

}  // namespace dtr::pt2
