#include "device/runtime/kernels/cortex_m/kernels.h"

namespace dtr::runtime::cortex_m {

KernelTable kernels() {
  static constexpr Kernel kTable[] = {
#define DTR_KERNEL(function, name, file) {name, function},
#include "device/runtime/kernels/cortex_m/kernels.inc"
#undef DTR_KERNEL
  };
  return kTable;
}

}  // namespace dtr::runtime::cortex_m
