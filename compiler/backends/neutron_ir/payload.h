// Payloads of the delegate `NeutronBackend`, as ExecuTorch's NXP backend packs what NXP's converter
// makes and its runtime takes it apart:
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
  // As the microcode says; bytes.
  uint32_t scratch = 0, sram_scratch = 0, profile = 0, debug = 0;
};

// Header, blocks and padding.
std::vector<std::byte> pack(const NeutronPayload& payload);

// Refers to the bytes. `kernels` may have up to 15 bytes of padding at its end: nothing says how
// long it is. Error: kPteMalformed, naming what does not fit.
Result<NeutronPayload> parse_neutron_payload(std::span<const std::byte> bytes);

// For `deuteron inspect`: a line an operand and a line a block, or why it cannot be read.
std::string describe_neutron_payload(std::span<const std::byte> bytes);

}  // namespace dtr
