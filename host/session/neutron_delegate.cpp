#include "host/session/neutron_delegate.h"

#include <fmt/format.h>

#include <memory>

#include "compiler/ir/reorder.h"

namespace dtr {

namespace et = executorch;

struct NeutronDelegate::Opened {
  et::NeutronProgram payload;
  std::unique_ptr<Session> session;
};

runtime::Delegate NeutronDelegate::entry() {
  return {.id = et::kNeutronDelegateName,
          .context = this,
          .state_bytes = sizeof(Opened*),
          .prepare = prepare,
          .run = run,
          .release = release};
}

pte::Status NeutronDelegate::prepare(void* context, void* state,
                                     std::span<const std::byte> payload) {
  auto& self = *static_cast<NeutronDelegate*>(context);
  auto opened = std::make_unique<Opened>();
  if (Result<void> done = self.open(*opened, payload); !done) {
    self.error_ = std::move(done).error();
    return {pte::Error::kDelegateRefused};
  }
  *static_cast<Opened**>(state) = opened.release();
  return {};
}

pte::Status NeutronDelegate::run(void* context, void* state,
                                 std::span<runtime::Value* const> arguments) {
  auto& self = *static_cast<NeutronDelegate*>(context);
  if (Result<void> done = self.call(**static_cast<Opened**>(state), arguments); !done) {
    self.error_ = std::move(done).error();
    return {pte::Error::kDelegateFailed};
  }
  return {};
}

void NeutronDelegate::release(void*, void* state) { delete *static_cast<Opened**>(state); }

Result<void> NeutronDelegate::open(Opened& opened, std::span<const std::byte> payload) {
  const et::NeutronPayloadError error = et::read_neutron_payload(payload, &opened.payload);
  if (error != et::NeutronPayloadError::kNone)
    return fail(error == et::NeutronPayloadError::kOfNxp ? DiagnosticId::kPteUnsupported
                                                         : DiagnosticId::kPteMalformed,
                et::text(error), "convert the model with deuteron.eiq, and lower it again",
                {.file = file_});
  DTR_ASSIGN(opened.session, load_payload(opened.payload.program, file_));
  const Graph& signature = opened.session->signature();
  if (signature.inputs().size() != opened.payload.inputs)
    return fail(DiagnosticId::kPteMalformed,
                fmt::format("a payload of NeutronBackend states {} inputs, its program takes {}",
                            opened.payload.inputs, signature.inputs().size()),
                "lower the model again", {.file = file_});
  return {};
}

Result<void> NeutronDelegate::call(Opened& opened, std::span<runtime::Value* const> arguments) {
  const et::NeutronProgram& payload = opened.payload;
  const auto refuse = [&](std::string reason) {
    return fail(DiagnosticId::kPteMalformed, std::move(reason), "lower the model again",
                {.file = file_});
  };
  // Null if the argument does not exist or is no tensor of so many bytes.
  const auto tensor = [&](uint32_t operand, size_t bytes) -> const runtime::Tensor* {
    const uint32_t index = payload.argument(operand);
    if (index >= arguments.size() || arguments[index]->kind != runtime::ValueKind::kTensor)
      return nullptr;
    const runtime::Tensor& found = arguments[index]->tensor;
    return found.bytes() == bytes ? &found : nullptr;
  };
  const Graph& signature = opened.session->signature();
  std::vector<Tensor> inputs;
  std::vector<TensorView> views;
  for (uint32_t i = 0; i < payload.inputs; ++i) {
    const Type& type = signature.type(signature.inputs()[i]);
    const auto bytes = static_cast<size_t>(type.bytes());
    const runtime::Tensor* from = tensor(i, bytes);
    std::vector<std::byte> physical(bytes);
    if (from == nullptr || !et::gather(*from, payload.channels_last(i), physical.data()))
      return refuse(
          fmt::format("input {} of a NeutronBackend has another size or dimension order "
                      "than its payload states",
                      i));
    to_logical(type, physical.data(), inputs.emplace_back(type.dtype, type.shape).view().data);
  }
  for (const Tensor& input : inputs) views.push_back(input.view());
  RunStats stats;
  uint32_t kernels = 0;
  RunHooks hooks;
  if (on_event_ != nullptr)
    hooks.after_event = [&](uint32_t, const npu::Event& event, std::span<const std::byte>) {
      if (event.kind != npu::EventKind::kCall) return;
      npu::Event numbered = event;
      numbered.command = kernels++;
      on_event_(event_context_, numbered);
    };
  DTR_ASSIGN(const std::vector<Tensor> outputs, opened.session->run(views, &stats, hooks));
  report_.total_cycles += stats.total_cycles;
  report_.busy_cycles += stats.busy_cycles;
  report_.host_cycles += stats.host_cycles;
  report_.stall_cycles += stats.stall_cycles;
  report_.copied_bytes += stats.copied_bytes;
  report_.calls += stats.npu_calls;
  if (outputs.size() != payload.outputs)
    return refuse(fmt::format("a payload of NeutronBackend states {} outputs, its program has {}",
                              payload.outputs, outputs.size()));
  for (uint32_t i = 0; i < payload.outputs; ++i) {
    const Type type = opened.session->output_type(i);
    std::vector<std::byte> physical(static_cast<size_t>(type.bytes()));
    to_physical(type, outputs[i].bytes().data(), physical.data());
    const runtime::Tensor* to = tensor(payload.inputs + i, physical.size());
    if (to == nullptr || !to->writable ||
        !et::scatter(physical.data(), payload.channels_last(payload.inputs + i), *to))
      return refuse(
          fmt::format("output {} of a NeutronBackend has another size or dimension "
                      "order than its payload states",
                      i));
  }
  return {};
}

}  // namespace dtr
