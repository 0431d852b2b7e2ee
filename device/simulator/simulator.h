// The NPU as a driver (device/npu/driver.h): decodes a payload, executes its commands on the
// caller's memory, counts its cycles. Freestanding, no heap: the caller provides the table of
// prepared programs and the queue of the copy engine.
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

// Checks that operands and scratch have the number, sizes and alignment that the payload requires.
// Errors: kBadOperand, kMisaligned.
npu::Status check_memory(const Payload& payload, std::span<const npu::Buffer> operands,
                         npu::Buffer scratch);

// Runs a decoded payload on memory that passed `check_memory`. `arrivals` has at least
// Payload::most_copies_in_flight entries. A copy's bytes arrive at once; host/simulator detects a
// missing wait.
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
  // `slots`: one for each prepared program. `arrivals`: one for each copy that a program has in
  // flight at a time.
  Simulator(const npu::Target& target, std::span<Slot> slots, std::span<uint64_t> arrivals,
            const Kernels& kernels = kPlainKernels)
      : target_(target), slots_(slots), arrivals_(arrivals), kernels_(kernels) {}

  npu::Status prepare(const void* payload, size_t bytes, uint32_t* handle);
  npu::Report run(uint32_t handle, std::span<const npu::Buffer> operands, npu::Buffer scratch,
                  EventSink sink);
  void unprepare(uint32_t handle);

  // The driver interface of this object, valid as long as it lives.
  npu::Driver driver();

 private:
  npu::Target target_;
  std::span<Slot> slots_;
  std::span<uint64_t> arrivals_;
  const Kernels& kernels_;
};

}  // namespace dtr::simulator
