// Tensors as torch.save writes a dict of them: a zip with a pickle of protocol 2 and a member of
// raw elements a tensor.
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

// torch.load, weights_only too, returns {name: tensor}, contiguous, on the CPU, in this order.
std::vector<std::byte> to_torch_file(std::span<const TorchTensor> tensors);

}  // namespace dtr::pt2
