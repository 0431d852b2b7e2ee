// Bytes of files that tests write as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtr::test {

using Bytes = std::vector<std::byte>;

inline Bytes to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::string repeat(std::string_view text, size_t count) {
  std::string all;
  while (count-- > 0) all += text;
  return all;
}

inline std::string little_endian(uint64_t value, size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
  return text;
}

}  // namespace dtr::test
