// What searches that run programs on several machines share.
#pragma once

#include <cstdint>

#include "compiler/pipeline/compile.h"

namespace dtr {

// The model once more, for another compilation: a path or bytes, no module in memory.
ModelSource copy_of(const ModelSource& source);

// Of the ranges that a float model was calibrated with: what a compilation computes in floating
// point. Processors of different kinds may round it differently.
uint32_t float_fingerprint(const Compilation& made);
// Error: kProcessFailed, if two workers have different fingerprints: their programs would depend on
// who compiled them.
Result<void> check_same_floats(uint32_t first, uint32_t other);

}  // namespace dtr
