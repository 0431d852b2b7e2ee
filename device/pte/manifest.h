// The manifest of a program, in its named data: target, tool, sizes. Freestanding; all numbers are
// little-endian.
#pragma once

#include <cstdint>
#include <string_view>

namespace dtr::pte {

// Keys of Deuteron's named-data entries. Other runtimes ignore them.
inline constexpr std::string_view kChecksumKey =
    "deuteron.checksum";  // uint32: CRC-32 of the file with these four bytes zero
inline constexpr std::string_view kManifestKey = "deuteron.manifest";  // Manifest
inline constexpr std::string_view kMachineKey =
    "deuteron.machine";  // text of a target file (compiler/targets/target_file.h), if the
                         // manifest's target is none of compiler/targets/target.cpp
// device/pte/debug_map.fbs. In a program of several methods each has its own: this key, a dot and
// the method's name.
inline constexpr std::string_view kDebugMapKey = "deuteron.debug_map";

inline constexpr std::string_view kDelegateId = "DeuteronBackend";

inline constexpr uint32_t kManifestMagic = 0x4D525444;  // "DTRM"
inline constexpr uint16_t kManifestMajor =
    1;  // readers reject another major; a newer minor only appends fields
inline constexpr uint16_t kManifestMinor = 0;

// Readers ignore unknown flags.
enum ManifestFlag : uint32_t {
  kConstantsInSram =
      1u << 0,  // the file, and tensor files with its constants, must be in SRAM before it runs
  kNxpLikeSchedule = 1u << 1,  // the NPU's calls follow NXP's converter (docs/npu.md 7)
  kWithinBudget = 1u << 2,     // planned for less SRAM than the fastest program takes
};

struct Manifest {
  uint32_t magic = kManifestMagic;
  uint16_t major = kManifestMajor;
  uint16_t minor = kManifestMinor;
  uint32_t target_hash =
      0;               // npu::format_hash of the target's NPU; 0: the program has no microcode
  uint32_t flags = 0;  // ManifestFlag
  uint64_t source_hash = 0;     // content hash of the model file
  uint64_t sram_bytes = 0;      // planned arena, all memories
  uint64_t max_live_bytes = 0;  // lower bound of it: most bytes live at one step
  uint64_t flash_bytes = 0;     // constants and delegate payloads
  char target[32] = {};         // "imxrt700", zero-terminated
  char tool[32] = {};           // "deuteron 0.1.0", zero-terminated
};
static_assert(sizeof(Manifest) == 112);

}  // namespace dtr::pte
