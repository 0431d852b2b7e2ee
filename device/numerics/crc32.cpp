// On hosts 16 bytes a step with 16 tables of 256 entries (16 KB of constants), on 32-bit devices
// half a byte and a table of 16 entries.
#include "device/numerics/crc32.h"

#include <array>

namespace dtr {
namespace {

constexpr bool kHost = sizeof(void*) > 4;

constexpr uint32_t step(uint32_t crc, int bits) {
  for (int bit = 0; bit < bits; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xEDB88320u : 0u);
  return crc;
}

// Of half a byte.
constexpr auto kHalves = [] {
  std::array<uint32_t, 16> table{};
  for (uint32_t half = 0; half < table.size(); ++half) table[half] = step(half, 4);
  return table;
}();

constexpr uint32_t by_halves(std::span<const std::byte> bytes, uint32_t crc) {
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int half = 0; half < 2; ++half) crc = (crc >> 4) ^ kHalves[crc & 0xFu];
  }
  return crc;
}
static_assert(by_halves(std::array{std::byte{'a'}, std::byte{'b'}, std::byte{'c'}}, ~0u) ==
              ~0x352441C2u);  // zlib's of "abc"

constexpr size_t kTables = 16;

consteval std::array<std::array<uint32_t, 256>, kTables> make_tables() {
  std::array<std::array<uint32_t, 256>, kTables> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) tables[0][byte] = step(byte, 8);
  for (size_t table = 1; table < kTables; ++table) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[table - 1][byte];
      tables[table][byte] = (before >> 8) ^ tables[0][before & 0xFFu];
    }
  }
  return tables;
}

constexpr auto kCrc = make_tables();

constexpr uint32_t at(std::span<const std::byte> bytes, size_t index) {
  return static_cast<uint32_t>(bytes[index]);
}

uint32_t by_words(std::span<const std::byte> bytes, uint32_t crc) {
  size_t i = 0;
  for (; i + kTables <= bytes.size(); i += kTables) {
    uint32_t next = 0;
    for (size_t byte = 0; byte < sizeof crc; ++byte)
      next ^= kCrc[kTables - 1 - byte][(crc >> 8 * byte ^ at(bytes, i + byte)) & 0xFFu];
    for (size_t byte = sizeof crc; byte < kTables; ++byte)
      next ^= kCrc[kTables - 1 - byte][at(bytes, i + byte)];
    crc = next;
  }
  for (; i < bytes.size(); ++i) crc = (crc >> 8) ^ kCrc[0][(crc ^ at(bytes, i)) & 0xFFu];
  return crc;
}

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes, uint32_t crc) {
  return ~(kHost ? by_words(bytes, ~crc) : by_halves(bytes, ~crc));
}

uint32_t crc32_with_hole(std::span<const std::byte> bytes, size_t hole) {
  constexpr std::array<std::byte, 4> kZero{};
  return crc32(bytes.subspan(hole + kZero.size()), crc32(kZero, crc32(bytes.first(hole))));
}

}  // namespace dtr
