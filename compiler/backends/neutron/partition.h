// A lowered partition: calls, buffers and copies, ready for the planner and then for encoding.
#pragma once

#include "compiler/backends/neutron/lowering/builder.h"
#include "compiler/backends/neutron/memory/memory.h"
#include "compiler/backends/neutron/schedule/schedule.h"

namespace dtr::neutron {

class NeutronPartition final : public LoweredPartition {
 public:
  NeutronPartition(const Machine& machine, const Graph& graph, LoweredGraph lowered,
                   MemoryPlan memory, Schedule schedule);

  Result<std::vector<std::byte>> encode(std::span<const uint32_t> offsets,
                                        uint32_t scratch_bytes) const override;

  // Error: kWorkExceeded, at the operator with which the payload exceeds the work that a runtime
  // accepts (npu::kMaxPayloadCycles). A call is counted as touching all bytes of its storages, an
  // upper bound, so that every payload that passes is loaded.
  Result<void> check_work(const Module& module) const;

  // The cycles that the simulator counts for the calls.
  Timeline timeline() const { return simulate(target_, calls_, schedule_); }
  std::span<const Call> calls() const { return calls_; }

 private:
  // One command of the microcode, in execution order.
  struct Command {
    enum class Kind : uint8_t { kCopy, kWait, kCall } kind;
    uint32_t call;  // kCall: the call; else the call whose constants are copied or awaited
  };
  void order_commands();
  void describe_steps();
  uint64_t traffic(const Call& call) const;
  uint64_t bytes_at(const Call& call, npu::Address address) const;
  void describe_values(const Graph& graph, const LoweredGraph& lowered);

  npu::Target target_;
  bool constants_in_sram_;
  std::vector<Storage> storages_;
  std::vector<Call> calls_;
  MemoryPlan memory_;
  Schedule schedule_;
  std::vector<Command> commands_;
  std::vector<uint32_t> interior_of_;  // by memory_.buffers: index into `buffers`, or kNone
  std::vector<uint32_t> staging_of_;   // by call: index into `buffers`, or kNone
  static constexpr uint32_t kNone = UINT32_MAX;
};

}  // namespace dtr::neutron
