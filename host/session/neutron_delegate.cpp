#include "host/session/neutron_delegate.h"

#include <fmt/format.h>

#include <memory>

#include "compiler/ir/reorder.h"
#include "compiler/program/scalar_types.h"
#include "compiler/support/cancellation.h"
#include "device/pte/program_generated.h"

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

namespace {

// What a call of DeuteronBackend keeps: the session of a payload that is a program; behind it, for
// other payloads, the NPU's state.
struct ProgramState {
  alignas(16) Session* session = nullptr;
  void* of_npu() { return this + 1; }
};

Type type_of(const runtime::Tensor& tensor) {
  return dtr::type_of(tensor.dtype, tensor.shape(), tensor.order());
}

bool is_program(std::span<const std::byte> payload) {
  return payload.size() >= 8 && pte::ProgramBufferHasIdentifier(payload.data());
}

}  // namespace

runtime::Delegate NeutronDelegate::programs_or(const runtime::Delegate& npu) {
  npu_ = npu;
  return {.id = npu.id,
          .context = this,
          .state_bytes = sizeof(ProgramState) + npu.state_bytes,
          .prepare = prepare_program,
          .run = run_program,
          .release = release_program};
}

pte::Status NeutronDelegate::prepare_program(void* context, void* state,
                                             std::span<const std::byte> payload) {
  auto& self = *static_cast<NeutronDelegate*>(context);
  auto& kept = *new (state) ProgramState;
  if (!is_program(payload)) return self.npu_.prepare(self.npu_.context, kept.of_npu(), payload);
  Result<std::unique_ptr<Session>> session = load_payload(payload, self.file_);
  if (!session) {
    self.error_ = std::move(session).error();
    return {pte::Error::kDelegateRefused};
  }
  kept.session = session->release();
  return {};
}

pte::Status NeutronDelegate::run_program(void* context, void* state,
                                         std::span<runtime::Value* const> arguments) {
  auto& self = *static_cast<NeutronDelegate*>(context);
  auto& kept = *static_cast<ProgramState*>(state);
  if (kept.session == nullptr) return self.npu_.run(self.npu_.context, kept.of_npu(), arguments);
  if (Result<void> done = self.call_program(*kept.session, arguments); !done) {
    self.error_ = std::move(done).error();
    return {pte::Error::kDelegateFailed};
  }
  return {};
}

void NeutronDelegate::release_program(void* context, void* state) {
  auto& self = *static_cast<NeutronDelegate*>(context);
  auto& kept = *static_cast<ProgramState*>(state);
  if (kept.session == nullptr) return self.npu_.release(self.npu_.context, kept.of_npu());
  delete kept.session;
}

Result<void> NeutronDelegate::call_program(Session& session,
                                           std::span<runtime::Value* const> arguments) {
  const auto refuse = [&](std::string_view what, size_t index) {
    return fail(DiagnosticId::kPteMalformed,
                fmt::format("{} {} of a DeuteronBackend has another size, type or dimension order "
                            "than the program in its payload states",
                            what, index),
                "lower the model again", {.file = file_});
  };
  // Null if the argument is no tensor of this type, in an order that types know.
  const auto tensor = [&](size_t index, const Type& type) -> const runtime::Tensor* {
    if (index >= arguments.size() || arguments[index]->kind != runtime::ValueKind::kTensor)
      return nullptr;
    const runtime::Tensor& found = arguments[index]->tensor;
    const Type given = type_of(found);
    const std::vector<int> order = dim_order(given.layout, given.rank());
    const bool fits =
        given.dtype == type.dtype && given.shape == type.shape &&
        std::equal(order.begin(), order.end(), found.order().begin(), found.order().end());
    return fits ? &found : nullptr;
  };
  const Graph& signature = session.signature();
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < signature.inputs().size(); ++i) {
    const Type& type = signature.type(signature.inputs()[i]);
    const runtime::Tensor* from = tensor(i, type);
    if (from == nullptr) return refuse("input", i);
    to_logical(type_of(*from), from->data, inputs.emplace_back(type.dtype, type.shape).view().data);
  }
  DTR_ASSIGN(const std::vector<Tensor> outputs, run_session(session, inputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const runtime::Tensor* to = tensor(inputs.size() + i, session.output_type(i));
    if (to == nullptr || !to->writable) return refuse("output", i);
    to_physical(type_of(*to), outputs[i].bytes().data(), to->data);
  }
  return {};
}

// Runs a session, and adds what it cost to the report.
Result<std::vector<Tensor>> NeutronDelegate::run_session(Session& session,
                                                         std::span<const Tensor> inputs) {
  std::vector<TensorView> views;
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
  // The session of the whole program ends a cancelled run: nothing throws through the runtime.
  const CancellationScope no_cancellation(nullptr);
  Result<std::vector<Tensor>> outputs = session.run(views, &stats, hooks);
  report_.total_cycles += stats.total_cycles;
  report_.busy_cycles += stats.busy_cycles;
  report_.host_cycles += stats.host_cycles;
  report_.stall_cycles += stats.stall_cycles;
  report_.copied_bytes += stats.copied_bytes;
  report_.calls += stats.npu_calls;
  return outputs;
}

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
  DTR_ASSIGN(const std::vector<Tensor> outputs, run_session(*opened.session, inputs));
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
