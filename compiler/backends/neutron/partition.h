// A lowered partition: calls, buffers and copies, ready for the planner and then for encoding.
#pragma once

#include "compiler/backends/neutron/lowering/builder.h"
#include "compiler/backends/neutron/schedule/plan.h"

namespace dtr::neutron {

class NeutronPartition final : public LoweredPartition {
 public:
  // `variants`: the ways to lower `graph` among which plan_within chooses.
  NeutronPartition(const Machine& machine, Graph graph, std::vector<LoweredGraph> variants,
                   Plan plan);

  // Errors: those of neutron::plan_within and of check_work.
  Result<void> plan_within(const Module& module, uint64_t sram_bytes, PlanSearch search) override;
  void end_planning() override;
  void release() override;
  uint64_t planned_cycles() const override { return timeline().total; }

  Result<std::vector<std::byte>> encode(std::span<const uint32_t> offsets,
                                        uint32_t scratch_bytes) const override;

  // Error: kWorkExceeded, at the operator with which the payload exceeds the work that a runtime
  // accepts (npu::kMaxPayloadCycles), counted as a runtime counts it, with a copy of constants for
  // each call that has some, whether they are shared or not.
  Result<void> check_work(const Module& module) const;

  // The cycles that the simulator counts for the calls.
  Timeline timeline() const { return simulate(machine_.target, calls_, schedule_); }
  std::span<const Call> calls() const { return calls_; }
  std::span<const LoweredGraph> variants() const { return variants_; }  // until end_planning

 private:
  // One command of the microcode, in execution order.
  struct Command {
    enum class Kind : uint8_t { kCopy, kCopyWeights, kWait, kCall } kind;
    uint32_t call;  // kCall: the call; else the call whose constants are copied or awaited
  };
  void take(Plan plan);
  void order_commands();
  void describe_steps();
  uint64_t traffic(const Call& call) const;
  uint64_t bytes_at(const Call& call, npu::Address address) const;
  // The offset of a call's weights in its own block; they are there.
  static uint32_t weights_offset(const Call& call);
  void describe_values(const std::vector<std::optional<Location>>& locations);
  // The call whose block of constants the call reads.
  static uint32_t block_of(const Call& call, uint32_t index) {
    return call.block_of == kNoCall ? index : call.block_of;
  }

  Machine machine_;
  Graph graph_;
  std::vector<LoweredGraph> variants_;
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
