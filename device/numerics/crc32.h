// CRC-32 of IEEE 802.3 (reflected polynomial 0xEDB88320, as zlib's crc32), for programs and NPU
// payloads. Freestanding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dtr {

// Checksum of all parts so far: start with 0 and pass the result on, crc32(b, crc32(a)) ==
// crc32(ab).
uint32_t crc32(std::span<const std::byte> bytes, uint32_t crc = 0);

// Checksum of `bytes` as if the four bytes at `hole` were zero: where a file stores its own
// checksum.
uint32_t crc32_with_hole(std::span<const std::byte> bytes, size_t hole);

}  // namespace dtr
