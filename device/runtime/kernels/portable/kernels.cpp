#include "device/runtime/kernels/portable/kernels.h"

namespace dtr::runtime::portable {

KernelTable kernels() {
  static constexpr Kernel kTable[] = {
#define DTR_KERNEL(function, name, file) {name, function},
#include "device/runtime/kernels/portable/kernels.inc"
#undef DTR_KERNEL
  };
  return kTable;
}

}  // namespace dtr::runtime::portable
