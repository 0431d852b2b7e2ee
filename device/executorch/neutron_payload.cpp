#include "device/executorch/neutron_payload.h"

#include <cstring>

namespace dtr::executorch {
namespace {

constexpr size_t kAlignment = 16;
constexpr size_t kMicrocodeWord = 6, kProgramWord = 2;
constexpr uint32_t kMaxRank = 16;

constexpr size_t aligned(size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

uint32_t word(std::span<const std::byte> microcode, size_t index) {
  uint32_t value = 0;
  std::memcpy(&value, microcode.data() + index * sizeof value, sizeof value);
  return value;
}

// The element strides of `tensor`, and the order in which the NPU has its dimensions.
struct Walk {
  int32_t strides[kMaxRank];
  uint8_t order[kMaxRank];
};

// The order of the NPU; false if the tensor cannot be copied to it.
bool plan(const runtime::Tensor& tensor, bool channels_last, Walk* walk) {
  if (tensor.rank > kMaxRank || (channels_last && tensor.rank < 3)) return false;
  uint8_t contiguous[kMaxRank], last[kMaxRank];
  for (uint8_t i = 0; i < tensor.rank; ++i) {
    contiguous[i] = i;
    last[i] = static_cast<uint8_t>(i == 0 ? 0 : i + 1 == tensor.rank ? 1 : i + 1);
  }
  runtime::Tensor plain = tensor, permuted = tensor;
  plain.dim_order = contiguous;
  permuted.dim_order = last;
  const bool accepted =
      same_order(tensor, plain) || (channels_last && same_order(tensor, permuted));
  if (!accepted) return false;
  fill_strides(tensor, walk->strides);
  std::memcpy(walk->order, channels_last ? last : contiguous, tensor.rank);
  return true;
}

// Calls copy(element of the tensor, position in the NPU's order) for every element.
template <class Copy>
bool for_each_element(const runtime::Tensor& tensor, bool channels_last, Copy copy) {
  Walk walk;
  if (!plan(tensor, channels_last, &walk)) return false;
  int32_t index[kMaxRank] = {};
  const size_t count = tensor.elements();
  size_t element = 0;
  for (size_t done = 0; done < count; ++done) {
    copy(element, done);
    for (uint32_t at = tensor.rank; at-- > 0;) {
      const uint8_t dim = walk.order[at];
      const auto stride = static_cast<size_t>(walk.strides[dim]);
      element += stride;
      if (++index[dim] < tensor.sizes[dim]) break;
      element -= stride * static_cast<size_t>(index[dim]);
      index[dim] = 0;
    }
  }
  return true;
}

}  // namespace

const char* text(NeutronPayloadError error) {
  switch (error) {
    case NeutronPayloadError::kNone:
      return "no error";
    case NeutronPayloadError::kDamaged:
      return "the payload of NeutronBackend is damaged";
    case NeutronPayloadError::kOfNxp:
      return "the payload of NeutronBackend holds microcode of NXP's converter, which only NXP's "
             "NPU and simulator execute: lower the model with deuteron.eiq, or run it there";
  }
  return "";
}

NeutronPayloadError read_neutron_payload(std::span<const std::byte> bytes,
                                         NeutronProgram* program) {
  constexpr auto kDamaged = NeutronPayloadError::kDamaged;
  const auto* octets = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() < 4) return kDamaged;
  NeutronProgram read{.inputs = octets[0], .outputs = octets[1], .arguments = octets[2]};
  const size_t operands = size_t{read.inputs} + read.outputs, version_at = 3 + 2 * operands;
  const size_t body_at = aligned(version_at + 1);
  if (bytes.size() < body_at + kNeutronHeaderBytes) return kDamaged;
  read.formats = {octets + 3, operands};
  read.map = {octets + 3 + operands, operands};
  if (octets[version_at] > 1) return kDamaged;
  read.records_profile = octets[version_at] == 1;
  const std::span<const std::byte> microcode = bytes.subspan(body_at);
  if (word(microcode, 0) != kNeutronMagic) return kDamaged;
  if (word(microcode, 1) != kNeutronSignature) return NeutronPayloadError::kOfNxp;
  const size_t inputs_word = read.records_profile ? 13 : 11;
  if (word(microcode, inputs_word) != read.inputs ||
      word(microcode, inputs_word + 1) != read.outputs)
    return kDamaged;
  for (uint32_t i = 0; i < operands; ++i)
    if (read.formats[i] > 1 || (i < read.inputs && read.map[i] >= read.arguments)) return kDamaged;
  const size_t size = word(microcode, kProgramWord), all = word(microcode, kMicrocodeWord);
  if (all > microcode.size() || all < kNeutronHeaderBytes || size > all - kNeutronHeaderBytes)
    return kDamaged;
  read.program = microcode.subspan(kNeutronHeaderBytes, size);
  *program = read;
  return NeutronPayloadError::kNone;
}

bool gather(const runtime::Tensor& tensor, bool channels_last, std::byte* bytes) {
  const size_t size = byte_size(tensor.dtype);
  return for_each_element(tensor, channels_last, [&](size_t element, size_t at) {
    std::memcpy(bytes + at * size, tensor.data + element * size, size);
  });
}

bool scatter(const std::byte* bytes, bool channels_last, const runtime::Tensor& tensor) {
  const size_t size = byte_size(tensor.dtype);
  return for_each_element(tensor, channels_last, [&](size_t element, size_t at) {
    std::memcpy(tensor.data + element * size, bytes + at * size, size);
  });
}

}  // namespace dtr::executorch
