// Compiles IR text for the NPU, places its buffers, runs it on the simulator and on the integer
// reference.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/backends/neutron/neutron.h"
#include "compiler/backends/neutron/partition.h"
#include "compiler/executors/executor.h"
#include "compiler/ops/define.h"
#include "compiler/ops/ops.h"
#include "compiler/support/arena_planner.h"
#include "host/simulator/host_simulator.h"
#include "test/unit/machine.h"
#include "test/unit/parse.h"

namespace dtr::test {

// Element i of a tensor in logical order lies at physical[i].
inline std::vector<size_t> physical_places(const Type& type) {
  const std::vector<int64_t> logical = strides(type.shape, Layout::kContiguous);
  const std::vector<int64_t> physical = strides(type.shape, type.layout);
  std::vector<size_t> places(static_cast<size_t>(type.elements()));
  for (size_t i = 0; i < places.size(); ++i)
    for (size_t d = 0; d < type.rank(); ++d)
      places[i] +=
          static_cast<size_t>(static_cast<int64_t>(i) / logical[d] % type.shape[d] * physical[d]);
  return places;
}

struct Compiled {
  std::unique_ptr<LoweredPartition> partition;
  std::vector<uint32_t> offsets;
  uint32_t scratch_bytes = 0;
  // In the scratch memory, inputs first, as a program's arena has them; empty: apart from it.
  std::vector<uint32_t> operand_offsets;
  uint32_t most_activation_bytes = 0;  // live at one step, staging not counted, operands counted
  std::vector<std::byte> payload;

  const neutron::NeutronPartition& details() const {
    return dynamic_cast<const neutron::NeutronPartition&>(*partition);
  }
  std::vector<std::string> kernels() const {
    std::vector<std::string> names;
    if (partition == nullptr) return names;
    for (const StepInfo& step : partition->step_info)
      if (step.kernel != "Copy") names.push_back(step.kernel);
    return names;
  }
};

inline void place(Compiled& compiled) {
  std::vector<ArenaBuffer> buffers;
  for (const InteriorBuffer& buffer : compiled.partition->buffers)
    buffers.push_back({buffer.bytes, 16, static_cast<int32_t>(buffer.first_step),
                       static_cast<int32_t>(buffer.last_step)});
  const ArenaPlan plan = plan_arena(buffers);
  for (const int64_t offset : plan.offsets)
    compiled.offsets.push_back(static_cast<uint32_t>(offset));
  compiled.scratch_bytes = (static_cast<uint32_t>(plan.total) + 15) / 16 * 16;
}

// The same with the operands in one arena with the buffers, and results over operands.
inline void place_together(Compiled& compiled) {
  const LoweredPartition& partition = *compiled.partition;
  std::vector<ArenaBuffer> buffers;
  const auto add = [&](const auto& uses) {
    const auto first = static_cast<uint32_t>(buffers.size());
    for (const auto& use : uses)
      buffers.push_back({use.bytes, 16, static_cast<int32_t>(use.first_step),
                         static_cast<int32_t>(use.last_step)});
    return first;
  };
  const uint32_t first[] = {add(partition.inputs), add(partition.outputs),
                            add(partition.buffers)};  // in the order of MemoryRef::Kind
  const auto of = [&](MemoryRef ref) { return first[static_cast<size_t>(ref.kind)] + ref.index; };
  std::vector<ArenaTrail> trails;
  for (const Trail& trail : partition.trails)
    trails.push_back({of(trail.operand), of(trail.result), trail.lag});
  const ArenaPlan plan = plan_arena(buffers, trails);
  compiled.offsets.clear();
  compiled.operand_offsets.clear();
  for (uint32_t i = 0; i < buffers.size(); ++i)
    (i < first[2] ? compiled.operand_offsets : compiled.offsets)
        .push_back(static_cast<uint32_t>(plan.offsets[i]));
  compiled.scratch_bytes = (static_cast<uint32_t>(plan.total) + 15) / 16 * 16;
}

inline Result<Compiled> compile(Module& module, const npu::Target& target = test::machine(),
                                NeutronOptions options = {}) {
  const std::unique_ptr<DelegateBackend> backend = make_neutron_backend(target, options);
  for (const OpId op : module.forward().ops())
    if (const auto refusal = backend->refuse(module.forward(), op))
      ADD_FAILURE() << refusal->reason;
  Compiled compiled;
  DTR_ASSIGN(compiled.partition, backend->lower(module, module.forward()));
  place(compiled);
  DTR_ASSIGN(compiled.payload,
             compiled.partition->encode(compiled.offsets, compiled.scratch_bytes));
  return compiled;
}

// A 16-byte aligned copy, filled with `guard` beforehand.
class Memory {
 public:
  explicit Memory(size_t bytes, std::byte guard = std::byte{0xA5})
      : words_((bytes + 15) / 16), bytes_(bytes) {
    std::fill_n(data(), words_.size() * 16, guard);
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(words_.data()); }
  npu::Buffer buffer() { return {data(), static_cast<uint32_t>(bytes_)}; }

 private:
  struct alignas(16) Word {
    std::byte bytes[16];
  };
  std::vector<Word> words_;
  size_t bytes_;
};

struct Outcome {
  npu::Report report;
  std::vector<Tensor> outputs;  // logical order
};

inline Outcome simulate(const Module& module, const Compiled& compiled,
                        std::span<const Tensor> inputs, const npu::Target& target = test::machine(),
                        const simulator::KernelSet& kernel_set = simulator::best_kernel_set()) {
  const Graph& graph = module.forward();
  Memory payload(compiled.payload.size());
  std::copy(compiled.payload.begin(), compiled.payload.end(), payload.data());
  Memory scratch(compiled.scratch_bytes);
  std::vector<Memory> memories;
  std::vector<npu::Buffer> operands;
  const auto add_operand = [&](const Type& type) {
    const auto bytes = static_cast<uint32_t>(type.bytes());
    if (compiled.operand_offsets.empty())
      operands.push_back(memories.emplace_back(bytes).buffer());
    else
      operands.push_back({scratch.data() + compiled.operand_offsets[operands.size()], bytes});
    return static_cast<std::byte*>(operands.back().data);
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type& type = graph.type(graph.inputs()[i]);
    std::byte* const memory = add_operand(type);
    const std::vector<size_t> places = physical_places(type);
    const size_t size = byte_size(type.dtype);
    for (size_t e = 0; e < places.size(); ++e)
      std::copy_n(inputs[i].bytes().data() + e * size, size, memory + places[e] * size);
  }
  for (const ValueId output : graph.outputs()) add_operand(graph.type(output));

  simulator::HostSimulator simulator(target, kernel_set);
  const npu::Driver driver = simulator.driver();
  uint32_t handle = 0;
  Outcome outcome;
  outcome.report.status =
      driver.prepare(driver.context, payload.data(), compiled.payload.size(), &handle);
  if (outcome.report.status != npu::Status::kOk) return outcome;
  outcome.report =
      driver.run(driver.context, handle, operands.data(), static_cast<uint32_t>(operands.size()),
                 scratch.buffer(), nullptr, nullptr);
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Type& type = graph.type(graph.outputs()[i]);
    Tensor& tensor = outcome.outputs.emplace_back(type.dtype, type.shape);
    const std::vector<size_t> places = physical_places(type);
    const size_t size = byte_size(type.dtype);
    for (size_t e = 0; e < places.size(); ++e)
      std::copy_n(static_cast<std::byte*>(operands[inputs.size() + i].data) + places[e] * size,
                  size, tensor.view().data + e * size);
  }
  return outcome;
}

// The least extent of the dimensions that the graph reads by index; 8 if there is none.
inline int64_t least_indexed(const Graph& graph) {
  int64_t least = 8;
  for (const OpId id : graph.ops()) {
    const Op& op = graph.op(id);
    if (op.def != &ops::kIndexSelect) continue;
    const Shape& shape = graph.type(op.operands[0]).shape;
    least = std::min(least,
                     shape[*ops::normalize_dim(op.attributes.get<int64_t>("dim"), shape.size())]);
  }
  return least;
}

inline std::vector<Tensor> random_inputs(const Module& module, uint64_t seed) {
  const int64_t rows = least_indexed(module.forward());
  std::vector<Tensor> inputs;
  for (const ValueId id : module.forward().inputs()) {
    const Type& type = module.forward().type(id);
    Tensor& input = inputs.emplace_back(Tensor::copy_of(
        type.dtype, type.shape,
        seeded_values(type.dtype, static_cast<size_t>(type.elements()), seed + id.index)));
    if (type.dtype == DType::kInt64)
      std::ranges::for_each(input.values<int64_t>(), [&](int64_t& i) { i = (i & 1023) % rows; });
    if (type.dtype == DType::kInt32)
      std::ranges::for_each(input.values<int32_t>(),
                            [&](int32_t& i) { i = (i & 1023) % static_cast<int32_t>(rows); });
  }
  return inputs;
}

// Compiles, runs with the plain and the fast kernels on different inputs and expects every output
// equal to the integer reference, cycles equal to the schedule's.
inline Compiled expect_bit_exact(Module& module, const npu::Target& target = test::machine(),
                                 NeutronOptions options = {}) {
  Result<Compiled> compiled = compile(module, target, options);
  if (!compiled) {
    ADD_FAILURE() << to_text(compiled.error());
    return {};
  }
  const std::unique_ptr<Executor> reference = make_reference_executor(module, module.forward());
  uint64_t seed = 100;
  for (const simulator::KernelSet* kernel_set :
       {&simulator::plain_kernel_set(), &simulator::best_kernel_set()}) {
    const std::vector<Tensor> inputs = random_inputs(module, seed++);
    std::vector<TensorView> views;
    for (const Tensor& input : inputs) views.push_back(input.view());
    const Result<std::vector<Tensor>> expected = reference->run(views);
    if (!expected) {
      ADD_FAILURE() << to_text(expected.error());
      return std::move(*compiled);
    }
    const Outcome outcome = simulate(module, *compiled, inputs, target, *kernel_set);
    EXPECT_EQ(outcome.report.status, npu::Status::kOk)
        << npu::text(outcome.report.status) << " at command " << outcome.report.command;
    if (outcome.report.status != npu::Status::kOk) return std::move(*compiled);
    for (size_t i = 0; i < expected->size(); ++i) {
      const std::span<const std::byte> want = (*expected)[i].bytes(),
                                       got = outcome.outputs[i].bytes();
      const auto at = static_cast<size_t>(
          std::mismatch(want.begin(), want.end(), got.begin()).first - want.begin());
      EXPECT_EQ(at, want.size()) << "output " << i << ", byte " << at << ": "
                                 << static_cast<int>(static_cast<int8_t>(got[at])) << " instead of "
                                 << static_cast<int>(static_cast<int8_t>(want[at]));
    }
    const neutron::Timeline timeline = compiled->details().timeline();
    EXPECT_EQ(outcome.report.total_cycles, timeline.total);
    EXPECT_EQ(outcome.report.busy_cycles, timeline.busy);
    EXPECT_EQ(outcome.report.stall_cycles, timeline.stall);
  }
  return std::move(*compiled);
}
inline Compiled expect_bit_exact(std::string_view text, const npu::Target& target = test::machine(),
                                 NeutronOptions options = {}) {
  SCOPED_TRACE(text);
  Module module = parse(text);
  if (module.graphs.empty()) return {};
  return expect_bit_exact(module, target, options);
}

}  // namespace dtr::test
