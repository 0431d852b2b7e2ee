// Padding that a kernel cannot imagine by itself is made in memory: a Fill and a Move.
#pragma once

#include "backends/neutron/lowering/builder.h"
#include "ops/window.h"

namespace dtr::neutron {

struct Image {  // an NHWC tensor
  int64_t batch = 1, channels = 1;
  Order order;
};

// The window's first taps reach the input, as the kernels need it (`abi/npu/microcode.h`, Window).
bool padding_in_kernel(const ops::Window& window);
// Bytes of the padded tensor.
int64_t padded_bytes(const Image& image, const ops::Window& window);

// Address of `x`, NHWC, with the window's padding of `zero_point` around it; the window then has none.
npu::Address read_padded(Builder& builder, ValueId x, const Image& image, ops::Window& window, const Origin& origin);

}  // namespace dtr::neutron
