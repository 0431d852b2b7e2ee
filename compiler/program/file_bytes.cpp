#include "compiler/program/file_bytes.h"

#include <cstdint>
#include <cstring>

namespace dtr {

void append_with_header(FileBytes& file, std::span<const std::byte> flatbuffer,
                        std::span<const std::byte> header) {
  constexpr size_t kIdentifierEnd = 8;  // behind root offset and identifier
  uint32_t root = 0;
  std::memcpy(&root, flatbuffer.data(), sizeof root);
  append(file, root + static_cast<uint32_t>(header.size()));
  file.insert(file.end(), flatbuffer.begin() + sizeof root, flatbuffer.begin() + kIdentifierEnd);
  file.insert(file.end(), header.begin(), header.end());
  file.insert(file.end(), flatbuffer.begin() + kIdentifierEnd, flatbuffer.end());
}

}  // namespace dtr
