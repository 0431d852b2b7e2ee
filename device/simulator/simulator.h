// The NPU as a driver (device/npu/driver.h): decodes a payload, executes its commands on the
// caller's memory, counts its cycles. Freestanding, no heap: the caller gives the table of prepared
// programs and the copy engine's queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/npu/driver.h"
#include "device/npu/target.h"
#include "device/simulator/decoder.h"
#include "device/simulator/functional.h"

namespace dtr::simulator {

struct EventSink {
  void (*on_event)(void* context, const npu::Event& event) = nullptr;
  void* context = nullptr;
};

// kOk if operands and scratch are what the payload asks for: number, sizes, alignment.
npu::Status check_memory(const Payload& payload, std::span<const npu::Buffer> operands,
                         npu::Buffer scratch);

// Runs a decoded payload on memory that passed `check_memory`. `arrivals` has at least
// Payload::most_copies_in_flight entries. A copy's bytes arrive at once: a missing wait shows in
// the cycles, and on the host in the checks of `simulator/host`.
npu::Report execute(const npu::Target& target, const Payload& payload,
                    std::span<const npu::Buffer> operands, npu::Buffer scratch,
                    const Kernels& kernels, void* kernel_context, std::span<uint64_t> arrivals,
                    EventSink sink);

class Simulator {
 public:
  struct Slot {
    Payload payload;
    bool used = false;
  };
  // `slots`: one a program that is prepared at a time. `arrivals`: one a copy that a program has in
  // flight at a time.
  Simulator(const npu::Target& target, std::span<Slot> slots, std::span<uint64_t> arrivals,
            const Kernels& kernels = kPlainKernels)
      : target_(target), slots_(slots), arrivals_(arrivals), kernels_(kernels) {}

  npu::Status prepare(const void* payload, size_t bytes, uint32_t* handle);
  npu::Report run(uint32_t handle, std::span<const npu::Buffer> operands, npu::Buffer scratch,
                  EventSink sink);
  void unprepare(uint32_t handle);

  // As the runtime calls it; valid as long as this object.
  npu::Driver driver();

 private:
  npu::Target target_;
  std::span<Slot> slots_;
  std::span<uint64_t> arrivals_;
  const Kernels& kernels_;
};

}  // namespace dtr::simulator
