// The NPU backend: decides which ops the eIQ Neutron NPU runs, turns a partition into kernel calls,
// orders copies of constants beside them, and encodes the payload of the delegate. The machine is
// described in `docs/npu.md`, the format in `device/npu/microcode.h`.
#pragma once

#include <cstdint>
#include <memory>

#include "compiler/partitioner/backend.h"
#include "device/npu/target.h"

namespace dtr {

// Whose kernels and calls: Deuteron's own, or those that NXP's converter is known to list, for
// comparison (docs/npu.md 7).
enum class NeutronSchedule : uint8_t { kOwn, kNxpLike };

struct NeutronOptions {
  bool row_packing = false;  // allow Packing::kRows, which no public fact proves
  bool fuse = true;  // elementwise ops and additions into the epilogue of the call before them
  uint32_t prefetch_calls =
      UINT32_MAX;  // how many calls ahead constants may be copied; 0: each right before its call
  NeutronSchedule schedule = NeutronSchedule::kOwn;  // kNxpLike: nothing is fused but activations,
                                                     // constants are copied one call ahead
  bool constants_in_sram =
      false;  // constants are read where the payload lies: nothing is copied, nothing waits

  bool nxp_like() const { return schedule == NeutronSchedule::kNxpLike; }
};

std::unique_ptr<DelegateBackend> make_neutron_backend(const npu::Target& target,
                                                      NeutronOptions options = {});

}  // namespace dtr
