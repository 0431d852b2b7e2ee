// Holds every kernel set to the core's bytes and cycles.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "device/numerics/crc32.h"
#include "device/simulator/simulator.h"
#include "host/simulator/host_simulator.h"
#include "test/unit/simulator_cases.h"

namespace dtr::test {

// All kernel sets that this machine can run.
inline std::vector<simulator::KernelSet> kernel_sets() {
  std::vector<simulator::KernelSet> result;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    result.push_back(simulator::highway_kernel_set());
  }
  hwy::SetSupportedTargetsForTest(0);
  result.push_back(simulator::plain_kernel_set());
  if (const simulator::KernelSet* vnni = simulator::vnni_kernel_set()) result.push_back(*vnni);
  return result;
}

struct Memory {
  std::vector<AlignedBytes> operands;
  AlignedBytes scratch;
  explicit Memory(const Case& from) : scratch(from.builder.scratch_bytes(), 0x55) {
    size_t next = 0;
    for (const npu::Operand& operand : from.builder.operands()) {
      operands.emplace_back(operand.bytes, uint8_t{0x55});
      if (operand.kind == npu::OperandKind::kInput)
        std::memcpy(operands.back().data(), from.inputs[next++].data(), operand.bytes);
    }
  }
  std::vector<npu::Buffer> buffers() {
    std::vector<npu::Buffer> list;
    for (AlignedBytes& operand : operands) list.push_back(operand.buffer());
    return list;
  }
};

inline void expect_same(const npu::Report& a, const npu::Report& b) {
  EXPECT_EQ(a.status, b.status);
  EXPECT_EQ(a.command, b.command);
  EXPECT_EQ(a.total_cycles, b.total_cycles);
  EXPECT_EQ(a.busy_cycles, b.busy_cycles);
  EXPECT_EQ(a.host_cycles, b.host_cycles);
  EXPECT_EQ(a.stall_cycles, b.stall_cycles);
  EXPECT_EQ(a.copied_bytes, b.copied_bytes);
  EXPECT_EQ(a.calls, b.calls);
  EXPECT_EQ(a.peak_scratch_bytes, b.peak_scratch_bytes);
}

// Checksum of all that the core computed and measured in this process, in the order of the
// programs: equal on every machine.
inline uint32_t& digest() {
  static uint32_t all = 0;
  return all;
}
inline void add_to_digest(const Memory& memory, const npu::Report& report) {
  for (const AlignedBytes& operand : memory.operands)
    digest() = crc32(std::as_bytes(operand.bytes()), digest());
  const uint64_t figures[] = {report.total_cycles, report.busy_cycles,  report.host_cycles,
                              report.stall_cycles, report.copied_bytes, report.calls};
  digest() = crc32(std::as_bytes(std::span(figures)), digest());
}

// Runs on the core and on each kernel set, twice (the second run must not depend on the first), and
// compares all memory; scratch only where the host is to leave there what the core does.
inline void expect_kernel_sets_agree(Case& test_case,
                                     const std::vector<simulator::KernelSet>& kernel_sets) {
  using simulator::HostSimulator;
  using Scratch = HostSimulator::Scratch;
  using npu::Status;
  const npu::Target target = machine();
  const AlignedBytes payload = test_case.builder.build();
  simulator::Simulator::Slot slots[1];
  uint64_t arrivals[64];
  simulator::Simulator core(target, slots, arrivals);
  uint32_t handle = 0;
  ASSERT_EQ(core.prepare(payload.data(), payload.size(), &handle), Status::kOk);
  Memory right(test_case);
  const npu::Report report = core.run(handle, right.buffers(), right.scratch.buffer(), {});
  ASSERT_EQ(report.status, Status::kOk) << npu::text(report.status) << " at " << report.command;
  add_to_digest(right, report);
  for (const simulator::KernelSet& kernel_set : kernel_sets) {
    SCOPED_TRACE(kernel_set.name);
    for (const auto scratch : {Scratch::kWhatIsRead, Scratch::kEveryByte}) {
      HostSimulator host(target, kernel_set, scratch);
      ASSERT_EQ(host.prepare(payload.bytes(), handle).status, Status::kOk);
      for (int run = 0; run < 2; ++run) {
        Memory memory(test_case);
        expect_same(host.run(handle, memory.buffers(), memory.scratch.buffer()), report);
        for (size_t i = 0; i < memory.operands.size(); ++i) {
          const auto difference =
              std::mismatch(memory.operands[i].bytes().begin(), memory.operands[i].bytes().end(),
                            right.operands[i].bytes().begin());
          ASSERT_TRUE(memory.operands[i] == right.operands[i])
              << "operand " << i << " byte "
              << difference.first - memory.operands[i].bytes().begin() << ": "
              << int(*difference.first) << " instead of " << int(*difference.second);
        }
        if (scratch == Scratch::kEveryByte) {
          ASSERT_TRUE(memory.scratch == right.scratch);
        }
      }
    }
  }
}

}  // namespace dtr::test
