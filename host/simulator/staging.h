// Which constants lie in SRAM when a convolution reads its weights: where a copy brought them and
// nothing changed them since, they can be packed for the host once, when the program is prepared.
#pragma once

#include <cstdint>
#include <functional>
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

// By command: the copies of which a call reads a byte, or that do not go to scratch.
// `reads_packed(index)`: convolution `index` reads neither weights nor parameters. Right for every
// program that passes `watch_memory`, as above: nothing reads a byte by way of another region than
// that through which it was written.
std::vector<bool> needed_copies(const npu::Target& target, const Payload& payload,
                                const std::function<bool(uint32_t)>& reads_packed);

}  // namespace dtr::simulator
