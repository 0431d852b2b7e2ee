// The simulator for hosts: the core's decoder and timeline, fast kernels for the host's instruction
// set, and shadow memory that rejects programs with races and uninitialized reads. Bit-exact with
// the core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/npu/driver.h"
#include "device/npu/target.h"
#include "device/simulator/decoder.h"
#include "device/simulator/simulator.h"
#include "host/simulator/kernel_set.h"

namespace dtr::simulator {

class HostSimulator {
 public:
  // What a run leaves in scratch: all that the machine would, or only what the program's calls
  // read; weights that were packed when the program was prepared are not copied there then.
  enum class Scratch : uint8_t { kWhatIsRead, kEveryByte };

  explicit HostSimulator(const npu::Target& target, const KernelSet& kernel_set = best_kernel_set(),
                         Scratch scratch = Scratch::kWhatIsRead);
  ~HostSimulator();
  HostSimulator(const HostSimulator&) = delete;
  HostSimulator& operator=(const HostSimulator&) = delete;

  // Checks a payload, whose address must not change, and packs its weights. `handle` is valid if
  // the status is kOk.
  Fault prepare(std::span<const std::byte> payload, uint32_t& handle);
  // Runs a program. A rejected program (kReadsUninitialized, kReadsInFlight, kBadArgument for
  // overlap) does not touch memory; the report names the command. peak_scratch_bytes is the end of
  // the highest range of scratch that a command touches.
  npu::Report run(uint32_t handle, std::span<const npu::Buffer> operands, npu::Buffer scratch,
                  EventSink sink = {});
  void unprepare(uint32_t handle);

  // The driver interface of this object, valid as long as it lives.
  npu::Driver driver();

 private:
  struct Prepared;
  npu::Target target_;
  const KernelSet& kernel_set_;
  Scratch scratch_;
  std::vector<std::unique_ptr<Prepared>> programs_;
};

}  // namespace dtr::simulator
