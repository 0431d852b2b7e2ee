// Padding that counts as elements is made in memory: a Fill and a Move.
#pragma once

#include "backends/neutron/lowering/builder.h"
#include "ops/window.h"

namespace dtr::neutron {

struct Image {  // an NHWC tensor
  int64_t batch = 1, channels = 1;
  Order order;
};

// Bytes of the padded tensor.
int64_t padded_bytes(const Image& image, const ops::Window& window);

// Address of `x`, NHWC, with the window's padding of `zero_point` around it; the window then has none.
npu::Address read_padded(Builder& builder, ValueId x, const Image& image, ops::Window& window, const Origin& origin);

}  // namespace dtr::neutron
