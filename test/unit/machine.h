// The machine that tests of the NPU use, unless they vary it.
#pragma once

#include "compiler/targets/target.h"

namespace dtr::test {

inline npu::Target machine() { return find_target("imxrt700")->npu; }

inline npu::Target machine_with_sram(uint32_t bytes) {
  npu::Target target = machine();
  target.sram_bytes = bytes;
  return target;
}

}  // namespace dtr::test
