// Delegates: processors that run whole partitions of a program. The caller passes them as a table
// of functions, found by id.
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
  // Bytes of state that one payload needs between prepare and release; the runtime aligns it to 16
  // bytes.
  size_t state_bytes = 0;
  // Checks the payload, whose address must not change, and fills the state. Error:
  // kDelegateRefused, with the delegate's own code in `detail`.
  Status (*prepare)(void* context, void* state, std::span<const std::byte> payload) = nullptr;
  // Runs one call; arguments are inputs, then outputs, in the program's order. Errors:
  // kDelegateFailed, or kKernelIndex if an index is outside of the tensor that it names elements
  // of; with the delegate's own code in `detail`.
  Status (*run)(void* context, void* state, std::span<Value* const> arguments) = nullptr;
  void (*release)(void* context, void* state) = nullptr;
};
using DelegateTable = std::span<const Delegate>;

}  // namespace dtr::runtime
