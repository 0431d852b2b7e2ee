// The NPU backend: decides which ops the eIQ Neutron NPU runs, turns a partition into kernel calls,
// orders copies of constants beside them, and encodes the payload of the delegate. The machine is
// described in `docs/npu.md`, the format in `device/npu/microcode.h`.
#pragma once

#include <cstdint>
#include <memory>

#include "compiler/partitioner/backend.h"
#include "device/npu/target.h"

namespace dtr {

// How a partition is split into calls: Deuteron's own way, or as NXP's converter is known to do it,
// for comparison (docs/npu.md 7).
enum class NeutronSchedule : uint8_t { kOwn, kNxpLike };

struct NeutronOptions {
  // allow Packing::kRows, which no public document shows the NPU to support
  bool row_packing = false;
  // fuses elementwise ops and additions into the epilogue of the call before them
  bool fuse = true;
  uint32_t prefetch_calls =
      UINT32_MAX;  // how many calls ahead constants may be copied; 0: each right before its call
  // kNxpLike fuses activations only and copies constants one call ahead
  NeutronSchedule schedule = NeutronSchedule::kOwn;
  bool constants_in_sram =
      false;  // the payload is in SRAM: calls read constants in place, without copies and stalls

  bool nxp_like() const { return schedule == NeutronSchedule::kNxpLike; }
};

// The backend for one machine; its delegate id is "DeuteronBackend".
std::unique_ptr<DelegateBackend> make_neutron_backend(const npu::Target& target,
                                                      NeutronOptions options = {});

}  // namespace dtr
