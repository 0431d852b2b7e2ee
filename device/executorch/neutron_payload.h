// Payloads of the delegate `NeutronBackend` that `deuteron convert` made. The format is that of
// ExecuTorch's NXP backend (compiler/backends/neutron_ir/payload.h); the microcode block begins
// with NXP's header of 64 bytes, in which word 1 is kNeutronSignature and word 2 the size of a
// program of Deuteron (.pte), which follows the header. Payloads of NXP's converter have another
// word 1, and no reader here. Freestanding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "device/runtime/value.h"

namespace dtr::executorch {

inline constexpr std::string_view kNeutronDelegateName = "NeutronBackend";
inline constexpr uint32_t kNeutronMagic = 0x64434D6E;      // "nMCd", word 0 of every microcode
inline constexpr uint32_t kNeutronSignature = 0x4E525444;  // "DTRN", word 1 of ours
inline constexpr size_t kNeutronHeaderBytes = 64;

enum class NeutronPayloadError : uint8_t { kNone, kDamaged, kOfNxp };
// One sentence for the user.
const char* text(NeutronPayloadError error);

// A payload of ours; it refers to the bytes that it was read from.
struct NeutronProgram {
  uint32_t inputs = 0, outputs = 0;    // of the program
  uint32_t arguments = 0;              // inputs of the delegate call
  bool records_profile = false;        // payload version 1
  std::span<const uint8_t> formats;    // of inputs, then outputs; 1: channels last
  std::span<const uint8_t> map;        // of each input its argument; of each output its argument
                                       // behind those of the inputs
  std::span<const std::byte> program;  // .pte; on any address

  bool channels_last(uint32_t operand) const { return formats[operand] != 0; }
  // The index of operand `operand` among all arguments of the call.
  uint32_t argument(uint32_t operand) const {
    return operand < inputs ? map[operand] : arguments + map[operand];
  }
};

// Reads header and blocks, and checks every size, format and index of an input; an output's index
// may be beyond the arguments of the call, whose number the payload does not state.
NeutronPayloadError read_neutron_payload(std::span<const std::byte> bytes, NeutronProgram* program);

// Copy a tensor between its own physical order and that of the NPU: (N, spatial dimensions…, C) for
// `channels_last`, where a tensor of the call may be contiguous or channels-last; else the order of
// the tensor, which must be contiguous. `bytes` has tensor.bytes(). False if the tensor has another
// order, or fewer than three dimensions where it should be channels-last.
bool gather(const runtime::Tensor& tensor, bool channels_last, std::byte* bytes);
bool scatter(const std::byte* bytes, bool channels_last, const runtime::Tensor& tensor);

}  // namespace dtr::executorch
