// Runs programs of fuzz inputs on the host's kernels, with the NPU simulated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/pte/tensor_file.h"

namespace dtr::fuzz {

enum class Outcome : uint8_t { kRefused, kLoaded, kRun };

// The furthest that any method of the program gets. Each memory is a heap block of exactly its
// size, so that a sanitizer sees what reaches beyond it. `bytes` begin on a boundary of
// pte::kFileAlignment. Programs of more memory or elements than a test has time for are loaded and
// not run.
Outcome run_program(std::span<const std::byte> bytes, pte::TensorFiles tensor_files = {});

}  // namespace dtr::fuzz
