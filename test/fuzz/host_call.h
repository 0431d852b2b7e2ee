// Runs calls of kernels on the host: each block of memory is a heap block of its own, which
// AddressSanitizer guards; without it, patterns on both sides that must stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/runtime/kernel.h"
#include "test/fuzz/kernel_call.h"

namespace dtr::fuzz {

// The kernels that are fuzzed: the portable ones, and those of the Cortex-M.
struct NamedKernel {
  std::string name;
  runtime::KernelFunction function;
};
const std::vector<NamedKernel>& all_kernels();

struct Outcome {
  runtime::Error error = runtime::Error::kOk;
  uint32_t result = 0;  // KernelCall::result
};

// Ends the process with a message if the kernel takes more than a second of the processor or writes
// where it must not.
Outcome run_call(const NamedKernel& kernel, std::span<const std::byte> bytes);

}  // namespace dtr::fuzz
