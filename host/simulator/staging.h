// Which constants lie in SRAM when a convolution reads its weights: where a copy brought them and
// nothing changed them since, they can be packed for the host once, when the program is prepared.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "device/simulator/decoder.h"

namespace dtr::simulator {

// Offsets into the payload's constants.
struct StagedOperands {
  uint32_t weights, parameters;
};

// By command; empty for everything but convolutions whose weights and parameters are unmodified
// constants. Right for every program that passes `watch_memory`: nothing but the scratch region can
// write to its bytes there.
std::vector<std::optional<StagedOperands>> staged_operands(const npu::Target& target,
                                                           const Payload& payload);

}  // namespace dtr::simulator
