// `DeuteronBackend` for ExecuTorch's runtime: a delegate's payload is a whole program of Deuteron
// (.pte), which our runtime loads, prepares in memory of the method's allocator, and runs. The
// machine with the NPU, simulated or real, comes from the caller. As `NeutronBackend` it takes
// payloads of ExecuTorch's NXP flow that hold such a program (neutron_payload.h). Freestanding.
//
//   static executorch::DeuteronBackend backend(platform);  // for as long as the process runs
//   executorch::runtime::register_backend({backend.kName, &backend});
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/executorch/executorch.h"
#include "device/npu/driver.h"
#include "device/npu/target.h"
#include "device/runtime/kernel.h"
#include "device/runtime/method.h"

namespace dtr::executorch {

// Where one opened program runs. Functions may be null, but for those of the driver.
struct Machine {
  void* context = nullptr;
  npu::Driver driver = {};
  uint32_t target_hash = 0;  // npu::format_hash of the NPU; 0: programs are not compared with it
  uint64_t most_planned_bytes = UINT64_MAX;  // programs that plan more memory are refused
  uint32_t npu_hz = 0;  // clock of the driver's cycles; 0: events are logged in cycles
  // Nanoseconds that a kernel of the CPU takes, for its event.
  uint64_t (*kernel_time)(void* context, uint32_t instruction) = nullptr;
  // A run whose values are logged: called before it, after each command and instruction, and at its
  // end to log what it captured.
  void (*start_capture)(void* context) = nullptr;
  void (*capture_event)(void* context, uint32_t instruction, const npu::Event& event,
                        std::span<const std::byte> arena) = nullptr;
  void (*capture_instruction)(void* context, uint32_t instruction,
                              const runtime::Method& method) = nullptr;
  void (*log_captured)(void* context, EventTracer& tracer) = nullptr;
};

// The environment in which programs run. Functions may be called by several threads at a time.
struct Platform {
  void* context = nullptr;
  // Kernels of the CPU that programs may call.
  runtime::KernelTable kernels = {};
  // The machine of a program, whose bytes stay until `close`; a copy with that life may take their
  // place. False, with the reason passed to `log`: the program does not run here.
  bool (*open)(void* context, std::span<const std::byte>& program, Machine* machine) = nullptr;
  void (*close)(void* context, Machine& machine) = nullptr;
  // Receives the reason why a call fails, one sentence for the user; may be null.
  void (*log)(void* context, const char* sentence) = nullptr;
};

// The number of an event in ETDumps: instruction and, in a call of the NPU, command (−1: the call).
inline constexpr uint32_t kMaxInstructions = 1u << 11, kMaxCommands = (1u << 20) - 1;
constexpr int32_t event_id(uint32_t instruction, int32_t command) {
  return static_cast<int32_t>(instruction << 20 | static_cast<uint32_t>(command + 1));
}

// The kind of a backend's payloads.
enum class Payloads : uint8_t { kPrograms, kNeutron };

class DeuteronBackend final : public BackendInterface {
 public:
  static constexpr const char* kName = "DeuteronBackend";
  static constexpr const char* kNeutronName = "NeutronBackend";  // with Payloads::kNeutron
  // `platform` must outlive the backend.
  explicit constexpr DeuteronBackend(const Platform& platform,
                                     Payloads payloads = Payloads::kPrograms)
      : platform_(platform), payloads_(payloads) {}

  static void operator delete(void*) {}  // a registry keeps its address for ever

  bool is_available() const override { return true; }
  // Errors: DelegateInvalidCompatibility (the payload is no program, was changed, or is for another
  // machine), MemoryAllocationFailed.
  Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
                               ArrayRef<CompileSpec> specs) const override;
  // Arguments: the program's inputs, then its outputs, in any order of dimensions; of a
  // NeutronBackend those that its payload names, in the order that it states. Errors:
  // InvalidArgument (number, type or shape of the arguments), InvalidState (the same delegate runs
  // in another thread), Internal (the run failed). Not for two threads at a time.
  Error execute(BackendExecutionContext& context, DelegateHandle* handle,
                Span<EValue*> arguments) const override;
  void destroy(DelegateHandle* handle) const override;

 private:
  const Platform& platform_;
  Payloads payloads_;
};

}  // namespace dtr::executorch
