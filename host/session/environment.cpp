// The table of all kernels, for programs on a host; a firmware project has a table with the kernels
// of its programs instead.
#include "device/runtime/environment.h"

#include <vector>

#include "device/runtime/kernels/cortex_m/kernels.h"
#include "device/runtime/kernels/portable/kernels.h"

const dtr_environment* dtr_host_environment(void) {
  static const auto kernels = [] {
    std::vector<dtr::runtime::Kernel> all;
    for (const dtr::runtime::KernelTable table :
         {dtr::runtime::portable::kernels(), dtr::runtime::cortex_m::kernels()}) {
      all.insert(all.end(), table.begin(), table.end());
    }
    return all;
  }();
  static const dtr_environment environment{.options = {.kernels = kernels}};
  return &environment;
}
