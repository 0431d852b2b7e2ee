// Padding written to memory, for kernels that cannot pad on the fly.
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

// Copies `x`, NHWC, into a tensor padded with `zero_point` (a Fill and a Move) and returns its
// address. Sets the padding of `window` to 0.
npu::Address read_padded(Builder& builder, ValueId x, const NhwcImage& image, ops::Window& window,
                         const Origin& origin);

// The same in one call, which can add channels too: a convolution of one tap whose weights are the
// identity. `window` has the strides and extents of the input, the extents of the result and the
// padding. The result is dense.
npu::Address emit_pad(Builder& builder, npu::Window window, npu::Address input, int32_t zero_point,
                      const std::string& name, const Origin& origin);

}  // namespace dtr::neutron
