#include "compiler/program/machine.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "compiler/support/encode.h"
#include "device/npu/microcode.h"
#include "device/pte/manifest.h"
#include "device/pte/program_generated.h"

namespace dtr {
namespace {

// The machine's hash in the header of the first payload of microcode; none: there is no such
// payload. The simulator judges the rest.
std::optional<uint32_t> hash_of_payloads(const PteFile& image) {
  const auto* plans = image.file().program().execution_plan();
  if (plans == nullptr) return std::nullopt;
  for (const pte::ExecutionPlan* plan : *plans) {
    if (plan->delegates() == nullptr) continue;
    for (const pte::BackendDelegate* delegate : *plan->delegates()) {
      if (delegate->id()->string_view() != pte::kDelegateId) continue;
      npu::Header header{};
      const std::span<const std::byte> payload = image.file().payload(*delegate);
      if (payload.size() < sizeof header) continue;
      std::memcpy(&header, payload.data(), sizeof header);
      if (header.magic == npu::kMagic) return header.target_hash;
    }
  }
  return std::nullopt;
}

const TargetDescription* find_by_hash(uint32_t hash) {
  for (const TargetDescription& target : all_targets())
    if (has_npu(target) && npu::format_hash(target.npu) == hash) return &target;
  return nullptr;
}

}  // namespace

Result<const TargetDescription*> target_of(const PteFile& image) {
  const pte::Manifest* manifest = image.file().manifest();
  const std::optional<uint32_t> hash = hash_of_payloads(image);
  const TargetDescription* target = manifest != nullptr ? find_target(manifest->target)
                                    : hash              ? find_by_hash(*hash)
                                                        : nullptr;
  if (target != nullptr || !hash) return target;
  const std::string reason =
      manifest == nullptr
          ? fmt::format(
                "the program has microcode for an NPU of hash {:08x}, which no target of this "
                "command has",
                *hash)
          : fmt::format(
                "the program was compiled for `{}` by {}, and this command has no such target",
                as_terminal(manifest->target), as_terminal(manifest->tool));
  return fail(
      DiagnosticId::kTargetUnknown, reason,
      fmt::format(
          "compile the model again for one of: {}; or use the command that compiled the program",
          target_names()),
      {.file = image.path()});
}

}  // namespace dtr
