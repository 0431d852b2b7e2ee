// Reads and writes payloads of the delegate `NeutronBackend`, in the format of ExecuTorch's NXP
// backend:
//
//   byte 0, 1, 2          number of inputs, of outputs, of input arguments of the delegate call
//   then, a byte each     formats of the inputs and of the outputs (1: channels last), for each
//   input the argument it is, for each output
//                         the argument it is, counted behind the inputs, version (0, or 1 with
//                         profile and debug buffers)
//   zeros up to 16 bytes  then microcode, weights and kernels, each padded with zeros to 16 bytes
//
// Microcode begins with words of its own: the sizes of microcode and weights are read from them;
// the kernels are what follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/support/result.h"

namespace dtr {

inline constexpr std::string_view kNeutronDelegateId = "NeutronBackend";

struct NeutronOperand {
  bool channels_last = false;
  uint8_t argument = 0;  // of the delegate call; of an output, behind the inputs
  bool operator==(const NeutronOperand&) const = default;
};

struct NeutronPayload {
  std::vector<NeutronOperand> inputs, outputs;  // at most 255 each
  uint8_t input_arguments = 0;
  uint8_t version = 0;
  std::span<const std::byte> microcode, weights, kernels;
  // Sizes in bytes, from the microcode.
  uint32_t scratch = 0, sram_scratch = 0, profile = 0, debug = 0;
};

// Header, blocks and padding.
std::vector<std::byte> pack(const NeutronPayload& payload);

// Parses a payload; the result refers to the bytes. `kernels` may end in up to 15 bytes of padding,
// since the format has no length for it. Error: kPteMalformed, naming the field at fault.
Result<NeutronPayload> parse_neutron_payload(std::span<const std::byte> bytes);

// For `deuteron inspect`: a line for each operand and each block, or the error.
std::string describe_neutron_payload(std::span<const std::byte> bytes);

}  // namespace dtr
