// The delegate `NeutronBackend` of programs that ExecuTorch's NXP flow lowered with `deuteron
// convert`: each payload holds a program of Deuteron, which a session of its own runs.
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

  // The entry for a DelegateTable; it refers to this object.
  runtime::Delegate entry();
  // Why the last prepare or run failed, once.
  std::optional<Diagnostic> take_error() { return std::exchange(error_, std::nullopt); }

 private:
  struct Opened;
  static pte::Status prepare(void* context, void* state, std::span<const std::byte> payload);
  static pte::Status run(void* context, void* state, std::span<runtime::Value* const> arguments);
  static void release(void* context, void* state);
  Result<void> open(Opened& opened, std::span<const std::byte> payload);
  Result<void> call(Opened& opened, std::span<runtime::Value* const> arguments);

  std::string file_;
  npu::Report& report_;
  void (*on_event_)(void* event_context, const npu::Event& event);
  void* event_context_;
  std::optional<Diagnostic> error_;
};

// A session on the program of a payload, which may have no NeutronBackend itself: payloads are not
// nested. Errors: as Session::load.
Result<std::unique_ptr<Session>> load_payload(std::span<const std::byte> program,
                                              const std::string& file);

}  // namespace dtr
