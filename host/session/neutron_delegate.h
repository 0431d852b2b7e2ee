// Delegates of programs that ExecuTorch lowered, whose payloads hold programs of Deuteron; a
// session of its own runs each. `NeutronBackend` has those of ExecuTorch's NXP flow with `deuteron
// convert`, `DeuteronBackend` those of the partitioner of `deuteron.executorch`.
#pragma once

#include <optional>
#include <string>

#include "device/executorch/neutron_payload.h"
#include "device/runtime/delegate.h"
#include "host/session/session.h"

namespace dtr {

class NeutronDelegate {
 public:
  // `file` names the outer program in messages. `report` receives the cycles of each run; both
  // callbacks' context is `event_context`. An event's command counts the kernel calls of the whole
  // payload. All of them must outlive the delegate.
  NeutronDelegate(std::string file, npu::Report& report,
                  void (*on_event)(void* event_context, const npu::Event& event),
                  void* event_context)
      : file_(std::move(file)),
        report_(report),
        on_event_(on_event),
        event_context_(event_context) {}
  NeutronDelegate(const NeutronDelegate&) = delete;
  NeutronDelegate& operator=(const NeutronDelegate&) = delete;

  // Entries for a DelegateTable; they refer to this object.
  runtime::Delegate entry();
  // The entry of DeuteronBackend: payloads that are programs run here, others are passed to `npu`.
  runtime::Delegate programs_or(const runtime::Delegate& npu);
  // Why the last prepare or run failed, once.
  std::optional<Diagnostic> take_error() { return std::exchange(error_, std::nullopt); }

 private:
  struct Opened;
  static pte::Status prepare(void* context, void* state, std::span<const std::byte> payload);
  static pte::Status run(void* context, void* state, std::span<runtime::Value* const> arguments);
  static void release(void* context, void* state);
  static pte::Status prepare_program(void* context, void* state,
                                     std::span<const std::byte> payload);
  static pte::Status run_program(void* context, void* state,
                                 std::span<runtime::Value* const> arguments);
  static void release_program(void* context, void* state);
  Result<void> open(Opened& opened, std::span<const std::byte> payload);
  Result<std::vector<Tensor>> run_session(Session& session, std::span<const Tensor> inputs);
  Result<void> call_program(Session& session, std::span<runtime::Value* const> arguments);
  Result<void> call(Opened& opened, std::span<runtime::Value* const> arguments);

  std::string file_;
  npu::Report& report_;
  void (*on_event_)(void* event_context, const npu::Event& event);
  void* event_context_;
  runtime::Delegate npu_;
  std::optional<Diagnostic> error_;
};

// A session on the program of a payload, which may have no payloads with programs itself. Errors:
// as Session::load.
Result<std::unique_ptr<Session>> load_payload(std::span<const std::byte> program,
                                              const std::string& file);

}  // namespace dtr
