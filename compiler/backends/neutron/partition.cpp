#include "compiler/backends/neutron/partition.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/backends/neutron/encode/payload.h"
#include "compiler/support/text.h"
#include "device/npu/arguments.h"

namespace dtr::neutron {

NeutronPartition::NeutronPartition(const Machine& machine, Graph graph,
                                   std::vector<LoweredGraph> variants, Plan plan)
    : machine_(machine), graph_(std::move(graph)), variants_(std::move(variants)) {
  take(std::move(plan));
}

Result<void> NeutronPartition::plan_within(const Module& module, uint64_t sram_bytes,
                                           PlanSearch search) {
  DTR_CHECK(!variants_.empty());
  DTR_ASSIGN(Plan plan, sram_bytes == UINT64_MAX ? plan_unlimited(machine_, module, variants_)
                                                 : neutron::plan_within(machine_, module, variants_,
                                                                        sram_bytes, search));
  take(std::move(plan));
  return check_work(module);
}

void NeutronPartition::end_planning() { variants_.clear(); }

void NeutronPartition::release() {
  end_planning();
  for (Call& call : calls_) call.constants.release();
}

void NeutronPartition::take(Plan plan) {
  memory_ = std::move(plan.memory);
  schedule_ = std::move(plan.schedule);
  storages_ = std::move(plan.graph.storages);
  calls_ = std::move(plan.graph.calls);
  steps = static_cast<uint32_t>(calls_.size());
  commands_.clear();
  buffers.clear();
  inputs.clear();
  outputs.clear();
  step_info.clear();
  values.clear();

  interior_of_.assign(memory_.buffers.size(), kNone);
  inputs.resize(graph_.inputs().size());
  outputs.resize(graph_.outputs().size());
  for (size_t i = 0; i < memory_.buffers.size(); ++i) {
    const Buffer& buffer = memory_.buffers[i];
    if (!buffer.operand_storage) {
      interior_of_[i] = static_cast<uint32_t>(buffers.size());
      buffers.push_back({buffer.name, BufferRole::kActivation, buffer.bytes, buffer.first_step,
                         buffer.last_step});
      continue;
    }
    const Storage& operand = storages_[*buffer.operand_storage];
    (operand.kind == Storage::Kind::kInput ? inputs : outputs)[operand.operand] = {
        buffer.bytes, buffer.first_step, buffer.last_step};
  }
  const auto memory_of = [&](uint32_t buffer) -> MemoryRef {
    if (interior_of_[buffer] != kNone) return {MemoryRef::Kind::kBuffer, interior_of_[buffer]};
    const Storage& operand = storages_[*memory_.buffers[buffer].operand_storage];
    return {
        operand.kind == Storage::Kind::kInput ? MemoryRef::Kind::kInput : MemoryRef::Kind::kOutput,
        operand.operand};
  };
  trails.clear();
  for (const ArenaTrail& trail : memory_.trails)
    trails.push_back({memory_of(trail.operand), memory_of(trail.result), trail.lag});
  staging_of_.assign(calls_.size(), kNone);
  const std::vector<uint32_t> last = last_readers(calls_);
  for (uint32_t call = 0; call < calls_.size(); ++call) {
    if (schedule_.start[call] == kNoCopy) continue;
    staging_of_[call] = static_cast<uint32_t>(buffers.size());
    buffers.push_back({"constants of call " + std::to_string(call), BufferRole::kStaging,
                       static_cast<uint32_t>(staged_bytes(calls_[call])), schedule_.start[call],
                       last[call]});
  }
  order_commands();
  describe_steps();
  describe_values(plan.graph.values);
}

void NeutronPartition::order_commands() {
  uint32_t next_copy = 0;
  for (uint32_t call = 0; call < calls_.size(); ++call) {
    for (; next_copy < calls_.size() &&
           (schedule_.start[next_copy] == kNoCopy || schedule_.start[next_copy] <= call);
         ++next_copy) {
      if (schedule_.start[next_copy] == kNoCopy) continue;
      commands_.push_back({Command::Kind::kCopy, next_copy});
      if (calls_[next_copy].weights.are_copied_apart())
        commands_.push_back({Command::Kind::kCopyWeights, next_copy});
    }
    if (schedule_.start[call] != kNoCopy) commands_.push_back({Command::Kind::kWait, call});
    commands_.push_back({Command::Kind::kCall, call});
  }
}

void NeutronPartition::describe_steps() {
  // A copy is on all operators that read what it brings.
  std::vector<Origin> copied_for;
  for (const Call& call : calls_) {
    copied_for.push_back(call.origin);
    const uint32_t staged_by = call.weights.staged_by;
    if (staged_by != kNoCall) copied_for[staged_by] = merge(copied_for[staged_by], call.origin);
  }
  for (uint32_t i = 0; i < commands_.size(); ++i) {
    const Call& call = calls_[commands_[i].call];
    const bool copies_weights = commands_[i].kind == Command::Kind::kCopyWeights;
    if (copies_weights || commands_[i].kind == Command::Kind::kCopy) {
      step_info.push_back({.command = i,
                           .kernel = "Copy",
                           .origin = copied_for[commands_[i].call],
                           .limit = "flash",
                           .bytes = copies_weights ? call.weights.bytes : call.constants.size()});
    } else if (commands_[i].kind == Command::Kind::kCall) {
      const npu::Cycles cost = cycles(machine_.target, call.kernel);
      step_info.push_back({.command = i,
                           .kernel = std::string(name(call.kernel)),
                           .origin = call.origin,
                           .macs = call.macs,
                           .cycles = cost.total,
                           .limit = text(cost.limit),
                           .bytes = traffic(call),
                           .rearranges = call.rearranges});
    }
  }
}

// Every storage that the call touches and its own constants, each once.
uint64_t NeutronPartition::traffic(const Call& call) const {
  uint64_t bytes =
      calls_[block_of(call, static_cast<uint32_t>(&call - calls_.data()))].constants.size();
  if (call.weights.stored_by != kNoCall) bytes += call.weights.bytes;
  std::vector<uint32_t> seen;
  visit_addresses(call.kernel, [&](const npu::Address& address, Access) {
    if (address.region == kOwnConstants || address.region == kSharedWeights ||
        std::ranges::find(seen, address.region) != seen.end())
      return;
    seen.push_back(address.region);
    bytes += bytes_at(call, address);
  });
  return bytes;
}

uint32_t NeutronPartition::weights_offset(const Call& call) {
  uint32_t offset = 0;
  visit_weights(call.kernel, [&](const npu::Address& address) { offset = address.offset; });
  return offset;
}

// Of the storage that an address of the call is in.
uint64_t NeutronPartition::bytes_at(const Call& call, npu::Address address) const {
  return address.region == kOwnConstants ? call.constants.size() : storages_[address.region].bytes;
}

Result<void> NeutronPartition::check_work(const Module& module) const {
  uint64_t work = 0;
  for (const std::vector<OperandUse>* operands : {&inputs, &outputs})
    for (const OperandUse& operand : *operands) work += operand.bytes / npu::kWorkBytes;
  for (const Call& call : calls_) {
    const uint64_t before = work;
    work += cycles(machine_.target, call.kernel).total +
            2 * staged_bytes(call) / npu::kWorkBytes;  // read and written by their copy
    const npu::Accesses touched = std::visit(
        [&](const auto& command) { return accesses(machine_.target, command); }, call.kernel);
    for (const npu::Access& access : touched.all())
      work += access.distinct_bytes() / npu::kWorkBytes;
    if (work <= npu::kMaxPayloadCycles) continue;
    Place place = place_of(module, call.origin);
    if (place.node.empty())
      visit_addresses(call.kernel, [&](const npu::Address& address, Access access) {
        if (access == Access::kWrite) place.node = storages_[address.region].name;
      });
    return fail(
        DiagnosticId::kWorkExceeded,
        fmt::format("a call of the NPU has {} cycles before this operator and {} with it; "
                    "a runtime loads at most {}",
                    with_thousands(before), with_thousands(work),
                    with_thousands(npu::kMaxPayloadCycles)),
        "keep the operator off the NPU (--keep-off), or make the model or its input smaller",
        std::move(place));
  }
  return {};
}

void NeutronPartition::describe_values(const std::vector<std::optional<Location>>& locations) {
  const Graph& graph = graph_;
  for (const OpId op : graph.ops())
    for (const ValueId id : graph.op(op).results) {
      const Value& value = graph.value(id);
      InteriorValue described{.name = value.name,
                              .type = value.type,
                              .buffer = std::nullopt,
                              .after_step = 0,
                              .origin = graph.op(op).origin,
                              .readers = readers(graph, id)};
      const std::optional<Location>& at = locations[id.index];
      // Only whole buffers are described.
      if (at && at->offset == 0 && storages_[at->storage].bytes == bytes_of(value.type)) {
        described.after_step = at->after_call;
        for (const Layout layout : {Layout::kContiguous, Layout::kChannelsLast}) {
          if (at->layout != strided_layout(value.type.shape, layout)) continue;
          described.type.layout = layout;
          const uint32_t buffer = memory_.buffer_of[at->storage];
          if (interior_of_[buffer] != kNone) {
            described.buffer = interior_of_[buffer];
          } else if (const Storage& operand = storages_[*memory_.buffers[buffer].operand_storage];
                     operand.kind == Storage::Kind::kOutput &&
                     std::ranges::find(graph.outputs(), id) == graph.outputs().end()) {
            described.output = operand.operand;
          }
          break;
        }
      }
      values.push_back(std::move(described));
    }
}

Result<std::vector<std::byte>> NeutronPartition::encode(std::span<const uint32_t> offsets,
                                                        uint32_t scratch_bytes) const {
  DTR_CHECK(offsets.size() == buffers.size());
  const bool in_sram = machine_.options.constants_in_sram;
  PayloadWriter writer;
  for (const OperandUse& input : inputs) writer.add_operand(npu::OperandKind::kInput, input.bytes);
  for (const OperandUse& output : outputs)
    writer.add_operand(npu::OperandKind::kOutput, output.bytes);

  npu::Address block, weights;  // constants of the call that is being encoded
  const auto resolve = [&](npu::Address address) -> npu::Address {
    if (address.region == kOwnConstants) return {block.region, block.offset + address.offset};
    if (address.region == kSharedWeights) return {weights.region, weights.offset + address.offset};
    const uint32_t buffer = memory_.buffer_of[address.region];
    if (interior_of_[buffer] != kNone)
      return {npu::kScratch, offsets[interior_of_[buffer]] + address.offset};
    const Storage& operand = storages_[*memory_.buffers[buffer].operand_storage];
    const uint32_t base =
        operand.kind == Storage::Kind::kInput ? 0 : static_cast<uint32_t>(inputs.size());
    return {npu::kFirstOperand + base + operand.operand, address.offset};
  };
  const auto stored_weights = [&](const Call& call) -> npu::Address {
    const Call& storing = calls_[call.weights.stored_by];
    return {npu::kConstants,
            writer.add_constants(storing.constants).offset + weights_offset(storing)};
  };
  const auto staged_weights = [&](uint32_t index) -> npu::Address {
    const uint32_t earlier = calls_[index].weights.staged_by;
    const uint32_t staging = earlier == kNoCall ? index : earlier;
    const Call& call = calls_[staging];
    const bool own = call.weights.stored_by == kNoCall;
    return {npu::kScratch,
            offsets[staging_of_[staging]] + (own ? weights_offset(call) : apart_offset(call))};
  };
  std::vector<uint32_t> ticket(calls_.size(), 0);
  uint32_t last_ticket = 0;
  for (const Command& command : commands_) {
    const Call& call = calls_[command.call];
    switch (command.kind) {
      case Command::Kind::kCopy:
        ticket[command.call] = ++last_ticket;
        writer.add_command(
            npu::Copy{.destination = {npu::kScratch, offsets[staging_of_[command.call]]},
                      .source = writer.add_constants(call.constants),
                      .bytes = static_cast<uint32_t>(call.constants.size()),
                      .ticket = last_ticket});
        break;
      case Command::Kind::kCopyWeights:
        ticket[command.call] = ++last_ticket;
        writer.add_command(npu::Copy{.destination = staged_weights(command.call),
                                     .source = stored_weights(call),
                                     .bytes = static_cast<uint32_t>(call.weights.bytes),
                                     .ticket = last_ticket});
        break;
      case Command::Kind::kWait:
        writer.add_command(npu::Wait{.ticket = ticket[command.call]});
        break;
      case Command::Kind::kCall: {
        Kernel kernel = call.kernel;
        const uint32_t source = block_of(call, command.call);
        if (!calls_[source].constants.empty())
          block = in_sram ? writer.add_constants(calls_[source].constants)
                          : npu::Address{npu::kScratch, offsets[staging_of_[source]]};
        if (call.weights.stored_by != kNoCall)
          weights = in_sram ? stored_weights(call) : staged_weights(command.call);
        visit_addresses(kernel, [&](npu::Address& address, Access) { address = resolve(address); });
        std::visit([&](const auto& placed) { writer.add_command(placed); }, kernel);
        break;
      }
    }
  }
  return writer.finish(machine_.target, scratch_bytes,
                       in_sram ? uint32_t{npu::kConstantsInSram} : 0);
}

}  // namespace dtr::neutron
