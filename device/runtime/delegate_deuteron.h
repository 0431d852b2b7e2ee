// The delegate `DeuteronBackend`: NPU microcode, run through the driver interface
// (device/npu/driver.h). The caller chooses the driver: the simulator or silicon.
#pragma once

#include "device/npu/driver.h"
#include "device/runtime/delegate.h"

namespace dtr::runtime {

// State shared by all payloads of a program; must outlive the method.
struct DeuteronContext {
  npu::Driver driver = {};
  // Called for every command of a run; may be null.
  void (*on_event)(void* event_context, const npu::Event& event) = nullptr;
  void* event_context = nullptr;
  npu::Report report = {};  // of the last run
};

// Delegate::state_bytes of this delegate, to reserve memory before the program is loaded.
inline constexpr size_t kDeuteronStateBytes =
    2 * sizeof(uint32_t) + sizeof(std::span<const std::byte>);

// The entry for a DelegateTable. `detail` of a failed status is an npu::Status.
Delegate deuteron_delegate(DeuteronContext& context);

}  // namespace dtr::runtime
