// Delegates: who runs the parts of a program that are not kernels. A table of functions given by
// the caller, found by id.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "device/pte/status.h"
#include "device/runtime/value.h"

namespace dtr::runtime {

using pte::Error;
using pte::Status;

struct Delegate {
  std::string_view id;  // "DeuteronBackend"
  void* context = nullptr;
  // Bytes of state that one payload needs between prepare and release; 16-byte aligned when given.
  size_t state_bytes = 0;
  // Checks the payload, which stays where it is, and fills the state. A failed status has the
  // delegate's own code in `detail`.
  Status (*prepare)(void* context, void* state, std::span<const std::byte> payload) = nullptr;
  // One call: inputs, then outputs, as the program lists them.
  Status (*run)(void* context, void* state, std::span<Value* const> arguments) = nullptr;
  void (*release)(void* context, void* state) = nullptr;
};
using DelegateTable = std::span<const Delegate>;

}  // namespace dtr::runtime
