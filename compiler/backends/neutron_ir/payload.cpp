#include "compiler/backends/neutron_ir/payload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "compiler/support/align.h"

namespace dtr {
namespace {

constexpr size_t kAlignment = 16;
constexpr uint32_t kMagic = 0x64434D6E;  // "nMCd"

// Words of the microcode, by number.
constexpr size_t kMicrocodeBytes = 6, kWeightBytes = 7, kScratchBytes = 9;
struct VersionWords {
  size_t sram_scratch, profile, debug, inputs, outputs;  // profile and debug: 0 for none
};
constexpr VersionWords kVersions[] = {{10, 0, 0, 11, 12}, {12, 10, 11, 13, 14}};
constexpr uint32_t kProfileMask = 0x7FFFFFFF;
constexpr size_t kWords = 15;  // of the longest version

size_t aligned(size_t size) { return align_up(size, kAlignment); }

tl::unexpected<Diagnostic> bad(std::string reason) {
  return fail(DiagnosticId::kPteMalformed, "the payload of NeutronBackend " + std::move(reason),
              "lower the model again");
}

}  // namespace

std::vector<std::byte> pack(const NeutronPayload& payload) {
  std::vector<std::byte> bytes;
  const auto put = [&](size_t value) { bytes.push_back(static_cast<std::byte>(value)); };
  put(payload.inputs.size());
  put(payload.outputs.size());
  put(payload.input_arguments);
  for (const auto* side : {&payload.inputs, &payload.outputs})
    for (const NeutronOperand& operand : *side) put(operand.channels_last ? 1 : 0);
  for (const auto* side : {&payload.inputs, &payload.outputs})
    for (const NeutronOperand& operand : *side) put(operand.argument);
  put(payload.version);
  for (const std::span<const std::byte> block :
       {payload.microcode, payload.weights, payload.kernels}) {
    bytes.resize(aligned(bytes.size()));
    bytes.insert(bytes.end(), block.begin(), block.end());
  }
  bytes.resize(aligned(bytes.size()));
  return bytes;
}

Result<NeutronPayload> parse_neutron_payload(std::span<const std::byte> bytes) {
  const auto byte = [&](size_t at) { return std::to_integer<uint8_t>(bytes[at]); };
  if (bytes.size() < 4) return bad("has no header");
  const size_t inputs = byte(0), outputs = byte(1);
  const size_t version_at = 3 + 2 * (inputs + outputs);
  const size_t body_at = aligned(version_at + 1);
  if (bytes.size() < body_at)
    return bad(fmt::format("ends within the header of {} inputs and {} outputs", inputs, outputs));
  NeutronPayload payload{.input_arguments = byte(2), .version = byte(version_at)};
  for (size_t i = 0; i < inputs + outputs; ++i) {
    const uint8_t format = byte(3 + i);
    if (format > 1) return bad(fmt::format("gives operand {} the unknown format {}", i, format));
    (i < inputs ? payload.inputs : payload.outputs)
        .push_back({format == 1, byte(3 + inputs + outputs + i)});
  }
  for (const NeutronOperand& input : payload.inputs)
    if (input.argument >= payload.input_arguments)
      return bad(
          fmt::format("takes argument {} of {} as input", input.argument, payload.input_arguments));
  if (payload.version >= std::size(kVersions))
    return bad(fmt::format("has the unknown version {}", payload.version));

  const std::span<const std::byte> body = bytes.subspan(body_at);
  uint32_t words[kWords] = {};
  if (body.size() < sizeof words) return bad("ends within the microcode");
  std::memcpy(words, body.data(), sizeof words);
  if (words[0] != kMagic)
    return bad(
        fmt::format("has microcode that begins with {:08x} instead of {:08x}", words[0], kMagic));
  const VersionWords& at = kVersions[payload.version];
  if (words[at.inputs] != inputs || words[at.outputs] != outputs)
    return bad(fmt::format("has {} inputs and {} outputs, its microcode {} and {}", inputs, outputs,
                           words[at.inputs], words[at.outputs]));
  const size_t weights_at = aligned(words[kMicrocodeBytes]);
  if (weights_at > body.size() || words[kWeightBytes] > body.size() - weights_at)
    return bad(fmt::format("has {} bytes behind its header, microcode and weights need {} and {}",
                           body.size(), words[kMicrocodeBytes], words[kWeightBytes]));
  const size_t kernels_at = std::min(weights_at + aligned(words[kWeightBytes]), body.size());
  payload.microcode = body.first(words[kMicrocodeBytes]);
  payload.weights = body.subspan(weights_at, words[kWeightBytes]);
  payload.kernels = body.subspan(kernels_at);
  payload.scratch = words[kScratchBytes];
  payload.sram_scratch = words[at.sram_scratch];
  payload.profile = at.profile == 0 ? 0 : words[at.profile] & kProfileMask;
  payload.debug = at.debug == 0 ? 0 : words[at.debug];
  return payload;
}

std::string describe_neutron_payload(std::span<const std::byte> bytes) {
  const Result<NeutronPayload> parsed = parse_neutron_payload(bytes);
  if (!parsed) return parsed.error().reason;
  const auto format = [](const NeutronOperand& operand) {
    return operand.channels_last ? "channels_last" : "as it is";
  };
  std::string text = fmt::format("NeutronBackend version {}, {} input arguments\n", parsed->version,
                                 parsed->input_arguments);
  for (size_t i = 0; i < parsed->inputs.size(); ++i)
    text += fmt::format("input {}: argument {}, {}\n", i, parsed->inputs[i].argument,
                        format(parsed->inputs[i]));
  for (size_t i = 0; i < parsed->outputs.size(); ++i)
    text += fmt::format("output {}: argument {}, {}\n", i,
                        parsed->input_arguments + parsed->outputs[i].argument,
                        format(parsed->outputs[i]));
  text += fmt::format("microcode {} bytes, weights {} bytes, kernels {} bytes\n",
                      parsed->microcode.size(), parsed->weights.size(), parsed->kernels.size());
  return text + fmt::format("scratch {} bytes, SRAM scratch {}, profile {}, debug {}",
                            parsed->scratch, parsed->sram_scratch, parsed->profile, parsed->debug);
}

}  // namespace dtr
