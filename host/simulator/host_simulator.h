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
  // The rules of memory are checked once for each layout of a program's memory, on which alone they
  // depend (host/simulator/shadow.h); or before every run, which then also reads weights where the
  // calls say, as the machine does, instead of those that were packed when it was prepared.
  enum class Checks : uint8_t { kOnce, kEveryRun };

  explicit HostSimulator(const npu::Target& target, const KernelSet& kernel_set = best_kernel_set(),
                         Scratch scratch = Scratch::kWhatIsRead, Checks checks = default_checks());
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

  // Shares large calls among so many threads, the caller's among them. Results and cycles do not
  // depend on it. Not during a run.
  void use_threads(unsigned threads);

  // The driver interface of this object, valid as long as it lives.
  npu::Driver driver();

  // Of simulators that are made from now on. At first kEveryRun if the environment has
  // DEUTERON_CHECKED, else kOnce.
  static Checks default_checks();
  static void set_default_checks(Checks checks);

 private:
  struct Prepared;
  npu::Target target_;
  const KernelSet& kernel_set_;
  Scratch scratch_;
  Checks checks_;
  std::unique_ptr<Crew> crew_;
  std::vector<std::unique_ptr<Prepared>> programs_;
};

}  // namespace dtr::simulator
