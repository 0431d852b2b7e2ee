#include "compiler/read_model.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "frontends/pt2/pt2.h"
#include "frontends/tflite/tflite.h"
#include "ir/parser.h"
#include "support/mapped_file.h"

namespace dtr {
namespace {

bool starts_with(std::span<const std::byte> bytes, size_t offset, std::string_view magic) {
  return bytes.size() >= offset + magic.size() && std::memcmp(bytes.data() + offset, magic.data(), magic.size()) == 0;
}

bool is_text(std::span<const std::byte> bytes) {
  const auto head = bytes.first(std::min<size_t>(bytes.size(), 4096));
  return !head.empty() && std::none_of(head.begin(), head.end(), [](std::byte b) { return b < std::byte{9} || b == std::byte{127}; });
}

}  // namespace

Result<Program> read_model(const std::string& path) {
  DTR_ASSIGN(const MappedFile file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file.bytes();
  if (starts_with(bytes, 0, "PK")) return pt2::read_pt2(path);
  if (starts_with(bytes, 4, "TFL3")) return tflite::read_tflite(path);
  if (is_text(bytes)) return parse_program({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
  return fail(DiagnosticId::kModelUnknown, "the file is neither a .pt2 archive, nor a .tflite model, nor IR text",
              "export the model with torch.export.save, or convert it to .tflite", {.file = path});
}

}  // namespace dtr
