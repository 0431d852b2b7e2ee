// Builds files that consist of a FlatBuffer and segments behind it: programs (.pte) and tensor
// files (.ptd).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compiler/support/align.h"
#include "device/pte/verified_file.h"

namespace dtr {

using FileBytes = std::vector<std::byte>;

// Segments start at multiples of the file's alignment.
constexpr size_t align_in_file(size_t offset) {
  return align_up(offset, size_t{pte::kFileAlignment});
}

// Appends the object representation of a trivially copyable value.
template <class T>
void append(FileBytes& bytes, const T& value) {
  const auto* data = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), data, data + sizeof value);
}

// Appends a FlatBuffer with ExecuTorch's extended header inserted after its identifier. The rest
// moves by the size of the header, a multiple of its alignment.
void append_with_header(FileBytes& file, std::span<const std::byte> flatbuffer,
                        std::span<const std::byte> header);

}  // namespace dtr
