// Which arguments of a kernel call are in range, addresses apart. Freestanding.
#pragma once

#include "device/npu/microcode.h"
#include "device/npu/target.h"

namespace dtr::simulator {

bool arguments_valid(const npu::Target& target, const npu::Conv2d& command);
bool arguments_valid(const npu::Target& target, const npu::Depthwise& command);
bool arguments_valid(const npu::Target& target, const npu::Pool& command);
bool arguments_valid(const npu::Target& target, const npu::Binary& command);
bool arguments_valid(const npu::Target& target, const npu::Lookup& command);
bool arguments_valid(const npu::Target& target, const npu::Softmax& command);
bool arguments_valid(const npu::Target& target, const npu::Move& command);
bool arguments_valid(const npu::Target& target, const npu::Fill& command);
bool arguments_valid(const npu::Target& target, const npu::Reduce& command);
bool arguments_valid(const npu::Target& target, const npu::Resize& command);
bool arguments_valid(const npu::Target& target, const npu::Matmul& command);
bool arguments_valid(const npu::Target& target, const npu::Normalize& command);
bool arguments_valid(const npu::Target& target, const npu::Gather& command);

// A multiplier that is not negative and a shift in [−31, 31]: what numerics::requantize is defined for; with one rounding up to 30.
constexpr bool rescale_valid(int32_t multiplier, int32_t shift) { return multiplier >= 0 && shift >= -31 && shift <= 31; }

}  // namespace dtr::simulator
