// Padding that is made in memory.
#pragma once

#include "compiler/backends/neutron/lowering/builder.h"
#include "compiler/ops/window.h"

namespace dtr::neutron {

struct NhwcImage {  // an NHWC tensor
  int64_t batch = 1, channels = 1;
  StridedLayout layout;
};

// Bytes of the padded tensor.
int64_t padded_bytes(const NhwcImage& image, const ops::Window& window);

// Address of `x`, NHWC, with the window's padding of `zero_point` around it, a Fill and a Move; the
// window then has none.
npu::Address read_padded(Builder& builder, ValueId x, const NhwcImage& image, ops::Window& window,
                         const Origin& origin);

// The same in one call, which can add channels too: a convolution of one tap whose weights are the
// identity. `window`: distances and extents of the input, extents of the result, padding before the
// input. The result is dense.
npu::Address emit_pad(Builder& builder, npu::Window window, npu::Address input, int32_t zero_point,
                      const std::string& name, const Origin& origin);

}  // namespace dtr::neutron
