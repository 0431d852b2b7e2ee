#include "device/runtime/delegate_deuteron.h"

#include <new>

#include "device/npu/microcode.h"
#include "device/pte/manifest.h"

namespace dtr::runtime {
namespace {

struct State {
  uint32_t handle;
  uint32_t operands;
  std::span<const npu::Operand> table;
};
static_assert(sizeof(State) == kDeuteronStateBytes);

Status refused(npu::Status why) { return {Error::kDelegateRefused, 0, static_cast<uint32_t>(why)}; }
// An index outside of a tensor is the error that it is for a kernel.
Status failed(npu::Status why) {
  const Error error = why == npu::Status::kBadIndex ? Error::kKernelIndex : Error::kDelegateFailed;
  return {error, 0, static_cast<uint32_t>(why)};
}

bool aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % npu::kAlignment == 0; }

Status prepare(void* context, void* memory, std::span<const std::byte> payload) {
  const auto& deuteron = *static_cast<const DeuteronContext*>(context);
  if (!aligned(payload.data())) return refused(npu::Status::kMisaligned);
  uint32_t handle = 0;
  const npu::Status status =
      deuteron.driver.prepare(deuteron.driver.context, payload.data(), payload.size(), &handle);
  if (status != npu::Status::kOk) return refused(status);
  // The driver has accepted header and table.
  const auto& header = *reinterpret_cast<const npu::Header*>(payload.data());
  const auto* table = reinterpret_cast<const npu::Operand*>(payload.data() + sizeof header);
  if (header.operand_count > npu::kMaxOperands) {
    deuteron.driver.unprepare(deuteron.driver.context, handle);
    return refused(npu::Status::kBadOperand);
  }
  new (memory) State{handle, header.operand_count, {table, header.operand_count}};
  return {};
}

// Arguments: the operands of the payload's table in its order, then the scratch.
Status run(void* context, void* memory, std::span<Value* const> arguments) {
  auto& deuteron = *static_cast<DeuteronContext*>(context);
  const State& state = *static_cast<const State*>(memory);
  if (arguments.size() != state.operands + 1) return failed(npu::Status::kBadOperand);
  npu::Buffer operands[npu::kMaxOperands + 1];
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool written = i == state.operands || state.table[i].kind == npu::OperandKind::kOutput;
    if (arguments[i]->kind != ValueKind::kTensor || (written && !arguments[i]->tensor.writable))
      return failed(npu::Status::kBadOperand);
    const Tensor& tensor = arguments[i]->tensor;
    if (!aligned(tensor.data)) return failed(npu::Status::kMisaligned);
    operands[i] = {tensor.data, static_cast<uint32_t>(tensor.bytes())};
  }
  deuteron.report =
      deuteron.driver.run(deuteron.driver.context, state.handle, operands, state.operands,
                          operands[state.operands], deuteron.on_event, deuteron.event_context);
  return deuteron.report.status == npu::Status::kOk ? Status{} : failed(deuteron.report.status);
}

void release(void* context, void* memory) {
  const auto& deuteron = *static_cast<const DeuteronContext*>(context);
  deuteron.driver.unprepare(deuteron.driver.context, static_cast<const State*>(memory)->handle);
}

}  // namespace

Delegate deuteron_delegate(DeuteronContext& context) {
  return {.id = pte::kDelegateId,
          .context = &context,
          .state_bytes = sizeof(State),
          .prepare = prepare,
          .run = run,
          .release = release};
}

}  // namespace dtr::runtime
