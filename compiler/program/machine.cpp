#include "compiler/program/machine.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "compiler/support/encode.h"
#include "compiler/targets/target_file.h"
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

// The machine that the manifest names. Null: no row has its name.
Result<const TargetDescription*> machine_of(const PteFile& image, const pte::Manifest& manifest) {
  const std::span<const std::byte> text = image.file().named_data(pte::kMachineKey);
  if (text.empty()) return find_target(manifest.target);
  DTR_ASSIGN(const TargetDescription* machine,
             parse_target_of_program({reinterpret_cast<const char*>(text.data()), text.size()},
                                     image.path()));
  const uint32_t hash = has_npu(*machine) ? npu::format_hash(machine->npu) : 0;
  if (machine->name == manifest.target && hash == manifest.target_hash) return machine;
  return fail(DiagnosticId::kTargetInvalid,
              fmt::format("the program's machine is `{}` (hash {:08x}), its manifest names `{}` "
                          "(hash {:08x})",
                          machine->name, hash, as_terminal(manifest.target), manifest.target_hash),
              "compile the model again", {.file = image.path()});
}

}  // namespace

const TargetDescription* target_of_manifest(const PteFile& image) {
  const pte::Manifest* manifest = image.file().manifest();
  return manifest == nullptr ? nullptr : machine_of(image, *manifest).value_or(nullptr);
}

Result<const TargetDescription*> target_of(const PteFile& image) {
  const pte::Manifest* manifest = image.file().manifest();
  const std::optional<uint32_t> hash = hash_of_payloads(image);
  const TargetDescription* target = nullptr;
  if (manifest != nullptr) {
    DTR_ASSIGN(target, machine_of(image, *manifest));
  } else if (hash) {
    target = find_by_hash(*hash);
  }
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
