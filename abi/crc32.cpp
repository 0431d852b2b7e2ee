// On hosts four bytes a step with four tables of 256 entries (4 KB of constants), on 32-bit devices one byte and one table.
#include "abi/crc32.h"

#include <array>

namespace dtr {
namespace {

constexpr size_t kTables = sizeof(void*) > 4 ? 4 : 1;

consteval std::array<std::array<uint32_t, 256>, kTables> make_tables() {
  std::array<std::array<uint32_t, 256>, kTables> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xEDB88320u : 0u);
    tables[0][byte] = crc;
  }
  for (size_t table = 1; table < kTables; ++table) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[table - 1][byte];
      tables[table][byte] = (before >> 8) ^ tables[0][before & 0xFFu];
    }
  }
  return tables;
}

constexpr auto kCrc = make_tables();

constexpr uint32_t at(std::span<const std::byte> bytes, size_t index) { return static_cast<uint32_t>(bytes[index]); }

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes, uint32_t crc) {
  crc = ~crc;
  size_t i = 0;
  for (; i + kTables <= bytes.size(); i += kTables) {
    uint32_t next = kTables < 4 ? crc >> 8 * kTables % 32 : 0;
    for (size_t byte = 0; byte < kTables; ++byte) next ^= kCrc[kTables - 1 - byte][(crc >> 8 * byte ^ at(bytes, i + byte)) & 0xFFu];
    crc = next;
  }
  for (; i < bytes.size(); ++i) crc = (crc >> 8) ^ kCrc[0][(crc ^ at(bytes, i)) & 0xFFu];
  return ~crc;
}

uint32_t crc32_with_hole(std::span<const std::byte> bytes, size_t hole) {
  constexpr std::array<std::byte, 4> kZero{};
  return crc32(bytes.subspan(hole + kZero.size()), crc32(kZero, crc32(bytes.first(hole))));
}

}  // namespace dtr
